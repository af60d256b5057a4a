"""Watchers, host and agent loop together: real processes, real files, real Git."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

import sideband as sb
from sideband.core.limits import Limits
from sideband.core.messages import Reply, ToolCall
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host import Admission
from sideband.render.view import RequestView
from sideband.testing import ScriptedModel
from tests.mcp_hosts import EMITS, RAW, Desk, a_desk, a_reminder
from tests.waiting import until

COUNT = re.compile(r"(\d+) files")
SIDEBAND = (sys.executable, "-m", "sideband.cli")


def a_watcher(folder: Path, *command: str) -> ServerConfig:
    return ServerConfig(name="watch", command=(*SIDEBAND, "mcp", *command), cwd=folder)


async def listening(desk: Desk) -> None:
    """Wait until the host listens; before, a server of revision 2026-07-28 has nobody to tell."""
    await until(lambda: "listening" in desk.states())


@pytest.mark.requirement("mcp:end-to-end:file-changed")
def test_a_file_that_is_edited_while_an_agent_runs_is_told_in_its_next_request(tmp_path: Path) -> None:
    file = tmp_path / "auth.py"
    file.write_text("one\n", encoding="utf-8")

    async def story() -> None:
        async with a_desk(a_watcher(tmp_path, "watch-files", ".")) as desk:
            await listening(desk)

            async def edited_meanwhile(_view: RequestView) -> Reply:
                await asyncio.to_thread(file.write_text, "two\n", encoding="utf-8")
                await desk.accepted(1)
                return Reply(tool_calls=(ToolCall(id="c1", name="list_dir", args={}),))

            model = ScriptedModel([edited_meanwhile, "Done."])
            tools = [*sb.workspace_tools(tmp_path), await desk.host.attach(desk.session)]
            await listening(desk)
            await sb.agent_loop("Go", session=desk.session, model=model, tools=tools, reminders=False)
            first, second = model.requests
            assert first.reminders == ()
            assert len(second.reminders) == 1
            assert '<server-notice from="watch">' in second.reminders[0]
            assert "auth.py" in second.reminders[0]
            transcript = await desk.session.transcript()
            assert "changed on disk" not in json.dumps(transcript.messages)

    asyncio.run(story())


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *settings, *words), cwd=folder, check=True, capture_output=True)


@pytest.mark.requirement("mcp:end-to-end:git-checkout")
def test_a_checkout_of_300_files_ends_as_a_bounded_and_truthful_set(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    for version in ("one", "two"):
        for number in range(300):
            file = tmp_path / f"dir{number % 3}" / f"file{number}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{version} {number}\n", encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", version)

    async def story() -> None:
        limits = Limits(accept_rate={}, pending_per_source={})
        async with a_desk(a_watcher(tmp_path, "watch-files", ".", "--debounce", "500"), limits=limits) as desk:
            await listening(desk)
            await asyncio.to_thread(git, tmp_path, "checkout", "-q", "HEAD~1")

            def counted() -> int:
                """How many files were told; a checkout that pauses is told in several parts."""
                bodies = [one.body or "" for one in desk.told(Admission.ACCEPTED)]
                return sum(int(found[1]) if (found := COUNT.search(body)) else 1 for body in bodies)

            await until(lambda: counted() >= 300)
            assert counted() == 300
            keys = {one.dedupe_key for one in desk.told(Admission.ACCEPTED)}
            assert {f"file_changed:dir{number}/" for number in range(3)} <= keys
            assert len(keys) < 60
            assert await desk.dropped() == {}

    asyncio.run(story())


@pytest.mark.requirement("mcp:end-to-end:newest-wins")
def test_10_000_events_on_one_key_end_as_one_pending_reminder_with_the_newest_text() -> None:
    async def story() -> None:
        async with a_desk() as desk:
            await desk.send(a_reminder(id="i{n}", body="Event {n}.", dedupeKey="status"), times=10_000)
            await until(lambda: desk.told(Admission.ACCEPTED)[-1].body == "Event 9999.")
            assert await desk.pending() == [("raw:i9999", "Event 9999.")]
            assert await desk.dropped() == {}

    asyncio.run(story())


# sideband mcp listen.


def listen(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        (*SIDEBAND, "mcp", "listen", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


@pytest.mark.requirement("mcp:listen:prints")
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_listen_prints_what_is_accepted_held_and_dropped(tmp_path: Path, as_json: bool) -> None:  # noqa: FBT001 - a column
    frames = [a_reminder(id=f"k{n}", body=f"Fact {n}.", dedupeKey=f"k{n}") for n in range(5)] + [a_reminder(body="")]
    script = tmp_path / "server.py"
    script.write_text(
        f"import sys; sys.argv = ['x', {json.dumps(EMITS)!r}]\n"
        + RAW.read_text(encoding="utf-8").replace(
            'case "tools/list":', f'case "tools/list":\n            called("send", {{"lines": {frames!r}}})'
        ),
        encoding="utf-8",
    )
    with listen(*(["--json"] if as_json else []), "--", sys.executable, str(script)) as listener:
        assert listener.stdout is not None
        lines: list[str] = []
        while not all(any(word in line for line in lines) for word in ("connected", "accepted", "held", "dropped")):
            lines.append(listener.stdout.readline().rstrip())
            assert lines[-1], "the command has ended"
        os.kill(listener.pid, signal.SIGINT)
        _, errors = listener.communicate(timeout=20)
    assert (listener.returncode, errors) == (0, "")
    if as_json:
        told = [json.loads(line) for line in lines]
        assert {row["admission"] for row in told if row["kind"] == "reminder"} == {"accepted", "held", "dropped"}
        assert [row["emits"] for row in told if row.get("state") == "connected"] == [True]
    else:
        assert any(line.startswith("python") and "dropped (invalid) - " in line for line in lines)
        assert any("held (rate_limited) [k4] Fact 4." in line for line in lines)


@pytest.mark.requirement("mcp:listen:errors")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param((), "name the servers with --config FILE", id="no-server"),
        pytest.param(("--config", "x", "--", "y"), "name the servers with --config FILE", id="two-ways"),
        pytest.param(("--config", "/no/such/file"), "cannot be read", id="no-file"),
        pytest.param(("--", "/no/such/program"), "cannot be started", id="no-program"),
    ],
)
def test_listen_refuses_what_it_cannot_connect_to(words: tuple[str, ...], said: str) -> None:
    with listen(*words) as listener:
        _, errors = listener.communicate(timeout=30)
    assert listener.returncode == 2
    assert said in errors


# The walks of the proposal.


def saving(text: str) -> Reply:
    return Reply(tool_calls=(ToolCall(id="c", name="write_file", args={"path": "lib.txt", "content": text}),))


@pytest.mark.requirement("examples:mcp:build-watcher")
def test_the_build_watcher_tells_the_next_turn_that_the_build_passed(tmp_path: Path) -> None:
    check = ("watch-command", "--name", "cargo-check", "--", "grep", "-q", "whole", "lib.txt")

    async def story() -> None:
        async with a_desk(a_watcher(tmp_path, *check)) as desk:
            tools = [*sb.workspace_tools(tmp_path), await desk.host.attach(desk.session)]
            # The first run is told only because it is red.
            await desk.accepted(1)

            async def until_told(_view: RequestView) -> Reply:
                await until(lambda: any("passed" in (one.body or "") for one in desk.told(Admission.ACCEPTED)))
                return Reply(tool_calls=(ToolCall(id="l", name="list_dir", args={}),))

            model = ScriptedModel([saving("whole\n"), until_told, "Two.", "Three."])
            await sb.agent_loop("Go", session=desk.session, model=model, tools=tools, reminders=False)
            await sb.agent_loop("Again", session=desk.session, model=model, tools=tools, reminders=False)
            shown = ["passed" in "".join(request.reminders) for request in model.requests]
            assert shown == [False, False, True, False]
            assert "failed" in "".join(model.requests[0].reminders)
            told = desk.told(Admission.ACCEPTED)[-1]
            assert told.dedupe_key == "cargo-check:status"

    asyncio.run(story())


@pytest.mark.requirement("examples:mcp:test-watcher")
def test_the_test_watcher_updates_the_resource_and_tells_two_turns_that_the_test_passes(tmp_path: Path) -> None:
    suite = tmp_path / "test_api.py"
    suite.write_text("def test_login():\n    assert False\n", encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")

    async def story() -> None:
        watcher = a_watcher(tmp_path, "watch-tests", "--", *command)
        process = StdioServerParameters(command=watcher.command[0], args=list(watcher.command[1:]), cwd=tmp_path)
        async with a_desk(watcher) as desk, Client(process) as client:
            await desk.accepted(1)
            (resource,) = (await client.list_resources()).resources
            has_ended = False
            while not has_ended:
                has_ended = "has not ended" not in str((await client.read_resource(resource.uri)).contents)
            async with client.listen(resource_subscriptions=[resource.uri]) as updates:
                await asyncio.to_thread(suite.write_text, "def test_login():\n    assert True\n", encoding="utf-8")
                assert getattr(await anext(updates), "uri", None) == resource.uri
            await until(lambda: any("passes now" in (one.body or "") for one in desk.told(Admission.ACCEPTED)))
            assert desk.told(Admission.ACCEPTED)[-1].dedupe_key == "test:test_api.py"
            model = ScriptedModel([Reply(tool_calls=(ToolCall(id="l", name="list_dir", args={}),)), "Two.", "Three."])
            tools = sb.workspace_tools(tmp_path)
            await sb.agent_loop("Go", session=desk.session, model=model, tools=tools, reminders=False)
            await sb.agent_loop("Again", session=desk.session, model=model, tools=tools, reminders=False)
            assert ["passes now" in "".join(request.reminders) for request in model.requests] == [True, True, False]

    asyncio.run(story())

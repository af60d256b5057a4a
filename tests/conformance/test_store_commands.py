"""The commands that read a store or tell its sessions something, started as a user starts them."""

import asyncio
import json
import signal
import stat
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
import pytest

import sideband as sb
from sideband.core.errors import (
    CursorExpired,
    IdempotencyConflict,
    NoRunningTurn,
    StoreRefused,
    UnknownReminder,
    UnsupportedMode,
)
from sideband.core.events import RequestCommitted
from sideband.core.transcript import Transcript
from sideband.runtime.agents import agent_loop
from tests.builders import a_draft
from tests.loopback import a_loopback
from tests.model_kinds import ANTHROPIC
from tests.programs import ROOT, run_python, run_sideband
from tests.stored_agents import TASK, a_session, address, run
from tests.unit.store.twins import PostgresTwin, Sender, SqliteTwin, Twin, played, told


async def fill(twin: Twin) -> None:
    async with twin.open() as store:
        session = await a_session(store, "worked")
        await session.remind("The build is red.", dedupe_key="build", ttl_turns=1)
        await session.remind("Never force-push.")
        await run(session)
        await Sender(store).send(a_draft(), session_id="waiting")


@pytest.mark.requirement("cli:events:public-projection")
def test_events_prints_the_public_form_of_every_event(durable: Twin) -> None:
    played(lambda: fill(durable))
    answer = run_sideband("events", "--all", "--store", address(durable), "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    sequences = [line["seq"] for line in lines]
    assert sequences == sorted(set(sequences))
    assert {line["session_id"] for line in lines} == {"worked", "waiting"}
    assert all(line["payload"]["session_id"] == line["session_id"] for line in lines)
    for body in ("The build is red.", "Never force-push.", TASK):
        assert body not in answer.stdout
    only = run_sideband(
        "events",
        "--store",
        address(durable),
        "--json",
        "--to",
        "worked",
        "--kind",
        "transcript.reminder.f",
        "--after",
        "1",
    )
    chosen = [line for line in lines if line["session_id"] == "worked" and line["kind"] == "transcript.reminder.fired"]
    assert [json.loads(line) for line in only.stdout.splitlines()] == chosen
    assert len(chosen) == 2


@pytest.mark.requirement("cli:events:follows-other-processes")
def test_events_follows_what_other_processes_do(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            await Sender(store, name="before").send(a_draft())
            arguments = ("-m", "sideband.cli", "events", "--all", "--store", address(durable), "--follow", "--json")
            following = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE
            )
            assert following.stdout is not None
            try:
                heard = [json.loads(await following.stdout.readline())]
                for number in range(3):
                    await Sender(store, name=f"n{number}").send(a_draft())
                    heard.append(json.loads(await following.stdout.readline()))
                following.send_signal(signal.SIGINT)
                rest = await following.communicate()
            finally:
                if following.returncode is None:
                    following.kill()
            assert (following.returncode, rest) == (0, (b"", b""))
            assert [line["payload"]["reminder_id"] for line in heard] == ["before-1", "n0-1", "n1-1", "n2-1"]

    played(story)


@pytest.mark.requirement("cli:events:says-where-to-resume")
def test_events_says_where_to_go_on_when_its_place_is_no_longer_kept(durable: Twin) -> None:
    async def story() -> int:
        assert isinstance(durable, SqliteTwin | PostgresTwin)
        async with durable.open() as store:
            await store.prune("worked", keep_events=2)
            with pytest.raises(CursorExpired) as expired:
                await told(store, after=1)
            return expired.value.oldest

    played(lambda: fill(durable))
    oldest = played(story)
    answer = run_sideband("events", "--all", "--store", address(durable), "--after", "1")
    assert (answer.returncode, answer.stdout) == (2, "")
    first = answer.stderr.splitlines()[0]
    assert first == f"error: some events up to {oldest} have been pruned; continue with --after {oldest}"
    assert run_sideband("events", "--all", "--store", address(durable), "--after", str(oldest)).returncode == 0


@pytest.mark.requirement("cli:store:commands-make-no-store")
@pytest.mark.parametrize(
    "command",
    [
        ("events", "--all"),
        ("events", "--all", "--follow"),
        ("events", "--to", "s", "--follow"),
        ("sessions",),
        ("render",),
        ("pending",),
        ("transcript",),
        ("doctor", "--verify"),
        ("facts",),
        ("facts", "remove", "x"),
        ("remind", "x"),
        ("inject", "x"),
        ("revoke", "x"),
        ("clear", "--key", "x"),
    ],
    ids=" ".join,
)
def test_a_command_that_reads_a_store_makes_none(command: tuple[str, ...], tmp_path: Path) -> None:
    answer = run_sideband(*command, "--store", f"sqlite:///{tmp_path / 'nothing.db'}")
    assert (answer.returncode, answer.stdout) == (2, "")
    first, second = answer.stderr.splitlines()
    assert first.startswith(f"error: there is no store: {tmp_path / 'nothing.db'} does not exist. `sideband serve`, ")
    assert second.startswith(f"code: {StoreRefused.code};")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.requirement("cli:sessions:lists-them")
def test_sessions_lists_every_session_with_how_it_stands(durable: Twin) -> None:
    played(lambda: fill(durable))
    answer = run_sideband("sessions", "--store", address(durable), "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    listed = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [(entry["session"], entry["state"], entry["turn"], entry["pending"]) for entry in listed] == [
        ("waiting", "idle", 0, 1),
        ("worked", "idle", 1, 1),
    ]


async def rendered(twin: Twin) -> list[bytes]:
    """A session on a real client, and what it has sent; at the end a reminder waits."""
    async with a_loopback(ANTHROPIC.says("Mended."), ANTHROPIC.says("Tested.")) as service, twin.open() as store:
        session = await a_session(store, "fix-login")
        model = ANTHROPIC.model(service)
        await session.remind("The build is red.", ttl_turns=1)
        await session.remind("Never force-push.")
        for task in ("Mend it.", "Test it."):
            result = await agent_loop(task, session=session, model=model, system="Be brief.", reminders=False)
            assert result.error is None
        await session.remind("The build is green.", ttl_turns=1)
    return service.bodies


def shown(twin: Twin, *options: str) -> dict[str, Any]:
    answer = run_sideband("render", "--store", address(twin), "--json", *options)
    assert (answer.returncode, answer.stderr) == (0, "")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.requirement("cli:render:as-it-was-sent")
def test_render_shows_what_was_sent_in_any_turn_while_a_process_has_the_session(durable: Twin) -> None:
    bodies = asyncio.run(rendered(durable))

    async def story() -> None:
        async with durable.open() as store:
            await store.open("fix-login")
            lease = await store.acquire("fix-login", "worker")
            before = store.state("fix-login").live.turn
            for turn, body in enumerate(bodies, start=1):
                found = await asyncio.to_thread(shown, durable, "--to", "fix-login", "--turn", str(turn))
                assert (found["body"].encode(), found["as_sent"]) == (body, True)
            assert (await asyncio.to_thread(shown, durable))["body"].encode() == bodies[-1]
            assert (await store.renew(lease)).token == lease.token
            assert store.state("fix-login").live.turn == before

    asyncio.run(story())


@pytest.mark.requirement("cli:render:as-another-model")
def test_render_shows_what_another_model_or_placement_would_have_got(sqlite: SqliteTwin) -> None:
    bodies = asyncio.run(rendered(sqlite))
    other = shown(sqlite, "--model", "openai:gpt-6-sol")
    assert (other["model"], other["wire"], other["as_sent"]) == ("openai:gpt-6-sol", "openai_responses", False)
    assert json.loads(other["body"])["model"] == "gpt-6-sol"
    assert "Mended." in other["body"]
    seed = shown(sqlite, "--placement", "seed")
    assert "Never force-push." in json.loads(seed["body"])["system"][0]["text"]
    assert "Never force-push." not in json.loads(bodies[1])["system"][0]["text"]


@pytest.mark.requirement("cli:render:the-next-request")
def test_render_shows_what_would_come_next_with_what_waits(sqlite: SqliteTwin) -> None:
    asyncio.run(rendered(sqlite))
    coming = shown(sqlite, "--next")
    assert (coming["turn"], coming["outcome"]) == (3, "coming")
    assert [entry["body"] for entry in coming["reminders"]] == ["Never force-push.", "The build is green."]
    assert shown(sqlite)["turn"] == 2


@pytest.mark.requirement("render:ledger:head-on-record")
def test_what_a_route_is_is_on_record_once(sqlite: SqliteTwin) -> None:
    asyncio.run(rendered(sqlite))

    async def story() -> list[RequestCommitted]:
        async with sqlite.open() as store:
            history = [logged.event async for logged in store.history(session_id="fix-login")]
        return [event for event in history if isinstance(event, RequestCommitted)]

    first, second = asyncio.run(story())
    assert first.head is not None
    assert (first.head.route, first.head.model) == (first.route, f"anthropic:{ANTHROPIC.models[0]}")
    assert (first.head.system, second.route, second.head) == ("Be brief.", first.route, None)


@pytest.mark.requirement("cli:doctor:verifies-a-store")
def test_doctor_rebuilds_every_session_and_finds_nothing_wrong(durable: Twin) -> None:
    played(lambda: fill(durable))
    answer = run_sideband("doctor", "--verify", "--store", address(durable))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[-1] == "No problems found."
    found = json.loads(run_sideband("doctor", "--json", "--verify", "--store", address(durable)).stdout)
    assert found["sessions"]["rebuilt from the first event"] == 2


@pytest.mark.requirement("cli:doctor:verifies-a-store")
def test_doctor_names_every_row_that_was_changed_or_is_missing(durable: Twin) -> None:
    played(lambda: fill(durable))
    for statement in (
        "UPDATE {0}journal SET checksum = 7 WHERE sequence = 2",
        "DELETE FROM {0}journal WHERE sequence = 4",
    ):
        if isinstance(durable, PostgresTwin):
            durable.execute(statement.format("sideband."))
        else:
            assert isinstance(durable, SqliteTwin)
            connection = apsw.Connection(str(durable.path))
            connection.execute(statement.format(""))
            connection.close()
    answer = run_sideband("doctor", "--verify", "--store", address(durable))
    assert answer.returncode == 1
    assert [line for line in answer.stdout.splitlines() if line.startswith("!")] == [
        "! gap 1: row 4 is missing from the journal, although nothing was pruned there",
        "! worked: row 2 was changed (session 'worked')",
    ]


# Which session is meant.


def begun(tmp_path: Path, *names: str) -> str:
    """A store with these sessions."""
    url = f"sqlite:///{tmp_path / 'store.db'}"

    async def story() -> None:
        async with sb.open_store(url) as store:
            for name in names:
                await store.begin(name, attributes={"title": f"The title of {name}"})

    asyncio.run(story())
    return url


def answered(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    """The JSON object that a command prints."""
    answer = run_sideband(*arguments, "--json", stdin=stdin)
    assert (answer.returncode, answer.stderr) == (0, "")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.requirement("cli:target:id-or-address")
def test_every_command_names_a_session_in_one_way(tmp_path: Path) -> None:
    url = begun(tmp_path, "one", "two")
    reminder = answered("remind", "x", "--to", "two", "--store", url)
    assert reminder["session"] == "two"
    message = answered("inject", "x", "--mode", "queue", "--to", f"{url}#two")
    for form in (("--to", "two", "--store", url), ("--to", f"{url}#two")):
        assert [row["id"] for row in answered("pending", *form)["pending"]] == [
            reminder["reminder_id"],
            message["message_id"],
        ]
        assert answered("transcript", *form) == {"messages": [], "events": []}
        assert "x" in answered("render", "--next", "--model", "anthropic:claude-opus-5-5", *form)["body"]
        heard = run_sideband("events", "--json", *form)
        assert {json.loads(line)["session_id"] for line in heard.stdout.splitlines()} == {"two"}
        verified = answered("doctor", "--verify", *form)
        assert verified["sessions"]["rebuilt from the first event"] == 1
    assert answered("revoke", message["message_id"], "--to", f"{url}#two")["status"] == "revoked"
    assert answered("clear", "--id", reminder["reminder_id"], "--to", f"{url}#two")["removed_count"] == 1


@pytest.mark.requirement("cli:target:only-open-session")
def test_without_a_name_the_only_open_session_is_meant_and_several_are_listed(tmp_path: Path) -> None:
    url = begun(tmp_path, "one", "two")
    answer = run_sideband("remind", "x", "--store", url)
    assert (answer.returncode, answer.stdout) == (2, "")
    heading, *rows = answer.stderr.splitlines()
    assert heading == f"error: several sessions of {tmp_path / 'store.db'} are open; choose one with --to ID:"
    assert [row.split()[0] for row in rows] == ["two", "one"]
    assert all("changed 20" in row and "The title of" in row for row in rows)

    async def story() -> None:
        async with sb.open_store(url) as store:
            await (await store.session("two")).close()

    asyncio.run(story())
    assert answered("remind", "x", "--store", url)["session"] == "one"


@pytest.mark.requirement("cli:target:unknown-session")
def test_an_unknown_session_is_not_created(tmp_path: Path) -> None:
    url = begun(tmp_path, "fix-login")
    for command in (("remind", "x"), ("inject", "x"), ("pending",), ("transcript",), ("revoke", "x")):
        answer = run_sideband(*command, "--to", "fix-lgoin", "--store", url)
        assert (answer.returncode, answer.stdout) == (2, "")
        first, second = answer.stderr.splitlines()
        assert first.startswith("error: there is no session 'fix-lgoin' in ")
        assert second.split()[0] == "fix-login"
    assert len(run_sideband("sessions", "--store", url, "--json").stdout.splitlines()) == 1


@pytest.mark.requirement("cli:target:needs-a-protocol")
def test_a_target_that_needs_a_protocol_is_refused() -> None:
    answer = run_sideband("remind", "x", "--to", "agent:claude-code")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: this version cannot reach ")
    assert "--to STORE_URL#ID" in answer.stderr


@pytest.mark.requirement("cli:store:user-store")
def test_without_an_address_the_users_store_is_used(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "SIDEBAND_STORE": ""}
    for command in (("sessions",), ("remind", "x"), ("pending",), ("doctor", "--verify")):
        answer = run_sideband(*command, env=home)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr.startswith("error: you have no store yet: ")
    assert [*tmp_path.iterdir()] == []
    program = (
        "import asyncio, sideband as sb\n"
        "async def main():\n"
        "    async with sb.open_store('user:') as store:\n"
        "        await store.begin('mine')\n"
        "asyncio.run(main())\n"
    )
    assert run_python("-c", program, env=home).stderr == ""
    assert json.loads(run_sideband("remind", "x", "--json", env=home).stdout)["session"] == "mine"
    files = [path for path in tmp_path.rglob("*") if "sideband" in path.name]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o700, 0o600}
    named = {**home, "SIDEBAND_STORE": begun(tmp_path, "other")}
    assert json.loads(run_sideband("sessions", "--json", env=named).stdout)["session"] == "other"


@pytest.mark.requirement("cli:store:old-address")
@pytest.mark.parametrize("command", ["sessions", "events", "render"])
def test_an_address_in_the_wrong_place_is_answered_with_the_option(command: str) -> None:
    answer = run_sideband(command, "sqlite:///sideband.db")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"error: a store is named with --store: sideband {command} --store STORE_URL\n"


# Telling a session something.


@pytest.mark.requirement("cli:remind:options", "cli:remind:operator", "cli:pending:lists")
def test_every_option_of_remind_becomes_a_field_of_the_operators_reminder(tmp_path: Path) -> None:
    url = begun(tmp_path, "s")
    options = "--key build --ttl 2 --tag ci --tag main --mode interrupt_immediate --hint developer --propagate all"
    answered("remind", "-", "--store", url, *options.split(), "--preserve", "--id", "r1", stdin="The build is red.\n")
    answered("remind", "Plain.", "--store", url)
    before = run_sideband("sessions", "--store", url, "--json").stdout
    first, second = answered("pending", "--store", url)["pending"]
    reminder = first.pop("reminder")
    assert first == {
        "state": "queued",
        "position": 0,
        "kind": "reminder",
        "id": "r1",
        "mode": "interrupt_immediate",
        "trust": "operator",
        "via": "cli",
    }
    assert reminder == {
        "id": "r1",
        "body": "The build is red.",
        "tags": ["ci", "main"],
        "dedupe_key": "build",
        "ttl_turns": 2,
        "preserve_on_compact": True,
        "propagate": "all",
        "role_hint": "developer",
        "source": "in_pipeline",
        "fired_at_turn": 0,
    }
    assert (second["mode"], second["position"]) == ("finish_step", 1)

    async def story() -> None:
        async with sb.open_store(url) as store:
            session = await store.session("s")
            accepted = await session.remind("The build is green.", dedupe_key="build")
            assert accepted.deduped_count == 1

    assert run_sideband("sessions", "--store", url, "--json").stdout == before
    asyncio.run(story())


@pytest.mark.requirement("cli:remind:id")
def test_a_repeat_with_the_same_id_gets_the_same_answer(tmp_path: Path) -> None:
    url = begun(tmp_path, "s")
    first = answered("remind", "x", "--id", "deploy-7", "--store", url)
    assert first["reminder_id"] == "deploy-7"
    assert answered("remind", "x", "--id", "deploy-7", "--store", url) == first
    answer = run_sideband("remind", "y", "--id", "deploy-7", "--store", url)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"sideband explain {IdempotencyConflict.code}" in answer.stderr
    assert len(answered("pending", "--store", url)["pending"]) == 1


# Runs an agent whose first reply calls a tool; the tool says that it runs and waits for a line.
A_LOOP: Final = """
import asyncio, json, sys
import sideband as sb
from sideband.testing import ScriptedModel
from tests.loop_builders import ATool

async def wait(*_):
    print("working", flush=True)
    return await asyncio.to_thread(sys.stdin.readline)

async def main(url):
    async with sb.open_store(url) as store:
        session = await store.session("s")
        model = ScriptedModel([sb.Reply(tool_calls=(sb.ToolCall(id="c1", name="work"),)), "Done.", "Rested."])
        await sb.agent_loop("Go.", session=session, model=model, tools=[ATool(do=wait)], reminders=False)
        print(json.dumps([request.text for request in model.requests]), flush=True)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.requirement("cli:remind:reaches-a-running-loop", "cli:inject:modes")
def test_a_loop_in_another_process_takes_what_the_command_line_sends(durable: Twin) -> None:
    url = address(durable)

    async def story() -> list[str]:
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-c", A_LOOP, url, cwd=ROOT, stdin=PIPE, stdout=PIPE
        )
        assert running.stdout is not None
        try:
            assert await running.stdout.readline() == b"working\n"
            await asyncio.to_thread(answered, "remind", "The build is red.", "--store", url)
            await asyncio.to_thread(answered, "inject", "Stop after this.", "--store", url)
            await asyncio.to_thread(answered, "inject", "Then rest.", "--mode", "queue", "--store", url)
            said, _ = await running.communicate(b"on\n")
        finally:
            if running.returncode is None:
                running.kill()
        requests: list[str] = json.loads(said)
        return requests

    _, second, third = asyncio.run(story())
    assert "The build is red." in second
    assert "Stop after this." in second
    assert "Then rest." not in second
    assert "Then rest." in third


@pytest.mark.requirement("cli:revoke:answers", "cli:clear:selects")
def test_what_was_sent_can_be_withdrawn_and_ended(tmp_path: Path) -> None:
    url = begun(tmp_path, "s")
    message = answered("inject", "x", "--mode", "queue", "--store", url)["message_id"]
    answered("remind", "x", "--id", "r1", "--store", url)
    for item in (message, "r1"):
        assert answered("revoke", item, "--store", url) == {"session": "s", "id": item, "status": "revoked"}
        assert answered("revoke", item, "--store", url)["status"] == "already_revoked"
    for key, tag in (("a", "t"), ("b", "t"), ("b", "u")):
        answered("remind", key + tag, "--key", key + tag, "--tag", tag, "--store", url)
    assert answered("clear", "--tag", "t", "--key", "au", "--store", url) == {"session": "s", "removed_count": 0}
    assert answered("clear", "--tag", "t", "--key", "at", "--store", url)["removed_count"] == 1
    assert answered("clear", "--tag", "t", "--store", url)["removed_count"] == 1
    assert [row["reminder"]["body"] for row in answered("pending", "--store", url)["pending"]] == ["bu"]


@pytest.mark.requirement("cli:transcript:as-json")
def test_the_transcript_is_the_one_that_the_session_returns(durable: Twin) -> None:
    played(lambda: fill(durable))

    async def story() -> Transcript:
        async with durable.open() as store:
            return await (await a_session(store, "worked")).transcript()

    printed = run_sideband("transcript", "--json", "--to", "worked", "--store", address(durable)).stdout
    found = msgspec.json.decode(printed, type=Transcript)
    assert found == played(story)
    assert [reminder.body for reminder in found.reminders] == ["Never force-push."]


@pytest.mark.requirement("cli:facts:list-add-remove")
def test_facts_are_added_listed_and_removed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    assert run_sideband("facts", "--store", url).stderr.startswith("error: there is no store")
    assert [*tmp_path.iterdir()] == []
    options = ("--store", url)
    added = answered("facts", "add", "decision", "-", "--confidence", "0.9", *options, stdin="Release on Tuesdays.\n")
    other = answered("facts", "add", "constraint", "No force-pushes.", "--namespace", "user/facts", *options)
    assert not added["refreshed"]
    assert answered("facts", "add", "decision", "Release on Tuesdays.", *options) == {**added, "refreshed": True}

    async def recalled() -> list[str]:
        async with sb.open_store(url) as store:
            return [found.fact.claim for found in await sb.recall_facts(store=store, query="release")]

    assert asyncio.run(recalled()) == ["Release on Tuesdays."]
    rows = answered("facts", *options)["facts"]
    assert [(row["id"], row["namespace"], row["claim"], row["confidence"]) for row in rows] == [
        (added["id"], "project/facts", "Release on Tuesdays.", 1.0),
        (other["id"], "user/facts", "No force-pushes.", 1.0),
    ]
    assert [row["id"] for row in answered("facts", "--namespace", "user/facts", *options)["facts"]] == [other["id"]]
    assert [row["id"] for row in answered("facts", "--query", "release", *options)["facts"]] == [added["id"]]
    assert answered("facts", "remove", added["id"], *options) == {"id": added["id"]}
    answer = run_sideband("facts", "remove", added["id"], *options)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert [row["id"] for row in answered("facts", *options)["facts"]] == [other["id"]]


@pytest.mark.requirement("cli:errors:code-and-status")
def test_a_refusal_prints_its_code_and_how_to_have_it_explained(tmp_path: Path) -> None:
    url = begun(tmp_path, "s")
    for arguments, status, code in (
        (("remind", "x", "--ttl", "0"), 2, "HARN-RMD-001"),
        (("remind", "x", "--propagate", "everywhere"), 2, "HARN-RMD-005"),
        (("inject", "x", "--mode", "later"), 2, UnsupportedMode.code),
        (("inject", "x", "--mode", "steer"), 1, NoRunningTurn.code),
        (("revoke", "unknown"), 1, UnknownReminder.code),
    ):
        answer = run_sideband(*arguments, "--store", url)
        assert (answer.returncode, answer.stdout) == (status, "")
        complaint, explained = answer.stderr.splitlines()
        assert complaint.startswith("error: ")
        assert explained == f"code: {code}; for the cause and the remedy: sideband explain {code}"
        assert run_sideband("explain", code).returncode == 0

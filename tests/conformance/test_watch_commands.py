"""Commands: one run at a time, its result told after each change, and nothing left running."""

import asyncio
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sideband.watch import process, reruns, text
from sideband.watch.commands import CommandWatcher
from sideband.watch.reruns import OUTPUT_RUNS, SUSPECTED_RUNS
from tests.waiting import until
from tests.watching import filled, run, watching

FAST = 0.03


@pytest.fixture
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that changes a file right after each run looks like a command that writes this file."""
    monkeypatch.setattr(reruns, "BACKOFF_SECONDS", FAST)


def shell(script: str, watch: Path, **options: Any) -> CommandWatcher:  # noqa: ANN401 - options of the watcher
    return CommandWatcher(["sh", "-c", script], watch=watch, name="build", debounce_seconds=FAST, **options)


def is_alive(pid: int) -> bool:
    try:
        # A process that has ended stays visible until its parent asks for it.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def has_lines(path: Path, count: int) -> bool:
    return len(lines(path)) == count


def ends(watcher: CommandWatcher, text: str) -> bool:
    return watcher.latest.endswith(text)


# What is told.


@pytest.mark.requirement("watch:command:results-told")
@pytest.mark.usefixtures("short_backoff")
def test_a_red_start_and_each_result_after_a_change_are_told(tmp_path: Path) -> None:
    filled(tmp_path, {"code": "1"})

    async def scenario() -> None:
        watcher = shell("echo 'a.rs:1:2: error: no'; exit $(cat code)", tmp_path)
        async with watching(watcher) as seen:
            notice = await seen.next()
            assert notice.body == (
                "sh -c 'echo '\"'\"'a.rs:1:2: error: no'\"'\"'; exit $(cat code)' failed (exit status 1) when the watch "
                "started:\nerror: no (a.rs:1:2)"
            )
            assert notice.dedupe_key == "build:status"
            assert notice.ttl_turns == 1
            assert notice.tags == ("build", "build")
            assert notice.uris == (watcher.uri,) == ("watch://build",)
            for code, said in (("0", "passed after the last change."), ("0\n", "passed after"), ("2", "exit status 2")):
                filled(tmp_path, {"code": code})
                assert said in (await seen.next()).body
            assert "failed (exit status 2)" in watcher.latest
            assert watcher.latest.endswith("a.rs:1:2: error: no")

    run(scenario())


@pytest.mark.requirement("watch:command:results-told")
def test_a_green_start_is_silent(tmp_path: Path) -> None:
    filled(tmp_path, {"code": "0"})

    async def scenario() -> None:
        watcher = shell("exit $(cat code)", tmp_path)
        async with watching(watcher) as seen:
            await until(lambda: "passed" in watcher.latest)
            filled(tmp_path, {"code": "3"})
            assert "exit status 3" in (await seen.next()).body

    run(scenario())


@pytest.mark.requirement("watch:command:results-told")
def test_the_command_runs_in_the_watched_directory_and_unattended(tmp_path: Path) -> None:
    async def scenario() -> str:
        async with watching(shell("pwd; echo $GIT_TERMINAL_PROMPT$TERM; exit 1", tmp_path)) as seen:
            return (await seen.next()).body

    assert run(scenario()).endswith(f"{os.path.realpath(tmp_path)}\n0dumb")


@pytest.mark.requirement("watch:command:transitions-only")
@pytest.mark.usefixtures("short_backoff")
@pytest.mark.parametrize(
    ("codes", "told"),
    [
        pytest.param("0010", ["failed", "passed"], id="a-green-start"),
        pytest.param("1101", ["failed", "passed", "failed"], id="a-red-start"),
    ],
)
def test_only_transitions_are_told_on_demand(tmp_path: Path, codes: str, told: list[str]) -> None:
    filled(tmp_path, {"code": f"{codes[0]} 0"})

    async def scenario() -> list[str]:
        watcher = shell("read code number < code; echo $number; exit $code", tmp_path, transitions_only=True)
        async with watching(watcher) as seen:
            for number, code in enumerate(codes):
                filled(tmp_path, {"code": f"{code} {number}\n"})
                await until(partial(ends, watcher, f"\n{number}"))
            bodies = await seen.bodies(len(told))
            assert seen.told.empty()
            return bodies

    assert [body.partition("' ")[2].split()[0] for body in run(scenario())] == told


@pytest.mark.requirement("watch:command:failure-lines")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("kill -9 $$", "was killed by signal 9 when the watch started.", id="a-signal"),
        pytest.param("exit 4", "failed (exit status 4) when the watch started.", id="no-output"),
        pytest.param("printf '\\033[31mno\\033[0m\\n'; exit 1", "started:\nno", id="colours-are-removed"),
        pytest.param("printf 'a\\007b\\n'; exit 1", "started:\na\\x07b", id="control-characters-are-shown"),
        pytest.param("printf '\\377\\n'; exit 1", "started:\n\ufffd", id="output-that-is-no-text"),
        pytest.param("seq 1 99; exit 1", "started:\n95\n96\n97\n98\n99", id="the-last-lines-of-an-unknown-tool"),
        pytest.param("echo password=hunter2; exit 1", "password=[masked]", id="secrets-are-masked"),
    ],
)
def test_a_failure_says_how_the_command_ended_and_why(tmp_path: Path, script: str, said: str) -> None:
    async def scenario() -> str:
        async with watching(shell(script, tmp_path)) as seen:
            return (await seen.next()).body

    body = run(scenario())
    assert said in body
    assert "hunter2" not in body


@pytest.mark.requirement("watch:command:failure-lines")
def test_a_flood_of_output_stays_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        watcher = shell("head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 900; exit 1", tmp_path)
        async with watching(watcher) as seen:
            notice = await seen.next()
        assert len(notice.body.encode()) <= text.MAX_BODY_BYTES
        assert len(watcher.latest.encode()) < text.MAX_REPORT_BYTES + 500

    run(scenario())


@pytest.mark.requirement("watch:command:cannot-start")
def test_a_command_that_cannot_be_started_is_told_once_and_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        watcher = CommandWatcher(["./build"], watch=tmp_path, debounce_seconds=FAST)
        async with watching(watcher) as seen:
            assert await seen.bodies(1) == ["./build cannot be started: No such file or directory."]
            filled(tmp_path, {"a.txt": "x"})
            await asyncio.sleep(0)
            program = filled(tmp_path, {"draft": "#!/bin/sh\nexit 0\n"}) / "draft"
            program.chmod(0o700)
            program.rename(tmp_path / "build")
            assert await seen.bodies(1) == ["./build passed after the last change."]

    run(scenario())


@pytest.mark.requirement("watch:command:time-out")
def test_a_time_out_ends_the_command(tmp_path: Path) -> None:
    async def scenario() -> str:
        async with watching(shell("echo early; sleep 1000", tmp_path, timeout_seconds=0.2)) as seen:
            return (await seen.next()).body

    assert run(scenario()).endswith("timed out after 0.2 s and was killed when the watch started:\nearly")


# One run at a time.


@pytest.mark.requirement("watch:command:single-flight")
def test_a_change_during_a_run_kills_it_and_runs_again(tmp_path: Path) -> None:
    root = filled(tmp_path / "root", {"code": "wait"})
    script = (
        "while read pid _; do kill -0 $pid 2>/dev/null && echo overlap >> ../overlaps; done < ../pids; "
        "code=$(cat code); sleep 1000 & echo $$ $! >> ../pids; [ $code = wait ] && wait; kill $!; exit $code"
    )
    (tmp_path / "pids").touch()

    async def scenario() -> None:
        async with watching(shell(script, root)) as seen:
            for count, code in enumerate(("wait ", "0"), start=1):
                await until(partial(has_lines, tmp_path / "pids", count))
                filled(root, {"code": code})
            # The run at the start was superseded, so this is the result of a change.
            assert (await seen.next()).body.endswith("passed after the last change.")
            assert seen.told.empty()

    run(scenario())
    pids = [int(pid) for line in lines(tmp_path / "pids") for pid in line.split()]
    assert len(pids) == 6
    assert not any(map(is_alive, pids))
    assert lines(tmp_path / "overlaps") == []


@pytest.mark.requirement("watch:command:last-content-wins")
@pytest.mark.usefixtures("short_backoff")
def test_a_file_that_is_edited_in_run_after_run_is_tested_as_it_is_in_the_end(tmp_path: Path) -> None:
    codes = "976540"
    root = filled(tmp_path / "root", {"code": codes[0]})
    script = "code=$(cat code); echo $code >> ../runs; while [ ! -e ../go$code ]; do sleep 0.01; done; exit $code"

    async def scenario() -> None:
        async with watching(shell(script, root)) as seen:
            for count, code in enumerate(codes, start=1):
                await until(partial(has_lines, tmp_path / "runs", count))
                if count < len(codes):
                    filled(root, {"code": codes[count]})
                if count >= SUSPECTED_RUNS:
                    # Such a run is not killed.
                    (tmp_path / f"go{code}").touch()
            assert (await seen.until("passed"))[-1].body.startswith("sh -c")

    run(scenario())
    assert lines(tmp_path / "runs") == [*codes]


@pytest.mark.requirement("watch:command:close-ends-everything")
def test_closing_kills_what_the_command_started(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    async def scenario() -> None:
        async with watching(shell("sleep 1000 & echo $$ $! > ../pids; wait", root)):
            await until(lambda: lines(tmp_path / "pids"))
            pids = [int(pid) for pid in lines(tmp_path / "pids")[0].split()]
            assert all(map(is_alive, pids))
        await until(lambda: not any(map(is_alive, pids)))

    run(scenario())


@pytest.mark.requirement("watch:command:close-ends-everything")
def test_a_closed_generator_leaves_nothing_running(tmp_path: Path) -> None:
    async def scenario() -> None:
        watcher = shell("exit 1", tmp_path)
        notices = watcher.notices()
        await anext(notices)
        await notices.aclose()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    run(scenario())


@pytest.mark.requirement("watch:files:vanished-root")
def test_the_end_of_the_directory_ends_the_watch(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    async def scenario() -> None:
        watcher = shell("true", root)

        async def collect() -> list[str]:
            return [notice.body async for notice in watcher.notices()]

        collecting = asyncio.create_task(collect())
        await watcher.ready.wait()
        await until(lambda: "passed" in watcher.latest)
        shutil.rmtree(root)
        assert await collecting == []

    run(scenario())


# What a command writes itself.


@pytest.mark.requirement("watch:command:own-output")
def test_a_command_that_writes_into_the_watched_directory_does_not_run_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reruns, "BACKOFF_SECONDS", FAST / 1000)
    root = tmp_path / "root"
    root.mkdir()
    script = "echo run >> ../runs; date +%s%N > out.txt"

    async def scenario() -> None:
        async with watching(shell(script, root)) as seen:
            await until(lambda: len(lines(tmp_path / "runs")) >= OUTPUT_RUNS)
            for name in ("a.txt", "b.txt", "c.txt"):
                filled(root, {name: "x"})
                await seen.until("(Changes of out.txt during the run were taken as its output.)")
            assert seen.told.empty()

    run(scenario())
    assert len(lines(tmp_path / "runs")) == OUTPUT_RUNS + 3


@pytest.mark.requirement("watch:command:own-output")
def test_an_output_that_does_not_change_starts_no_further_run(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    async def scenario() -> None:
        async with watching(shell("echo same > out.txt; echo run >> ../runs", root)) as seen:
            await seen.next()
            filled(root, {"a.txt": "x"})
            await seen.next()

    run(scenario())
    assert len(lines(tmp_path / "runs")) == 3


@pytest.mark.requirement("watch:command:new-names-reported")
def test_a_command_that_writes_new_names_in_every_run_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    script = "echo run >> ../runs; sleep 0.1; echo x > out.$$; sleep 0.3; false"

    async def scenario() -> str:
        async with watching(shell(script, root)) as seen:
            return (await seen.next()).body

    said = run(scenario())
    assert "failed (exit status 1), but out." in said
    assert said.endswith(" changed during the run, and it runs again.")
    assert len(lines(tmp_path / "runs")) == SUSPECTED_RUNS + 1


# Changes during a run.


@pytest.mark.requirement("watch:command:changed-during-run")
@pytest.mark.usefixtures("short_backoff")
@pytest.mark.parametrize(("last", "said"), [("7", "failed (exit status 7)"), ("0", "passed")], ids=["red", "green"])
def test_a_result_does_not_claim_to_follow_a_change_during_its_run(tmp_path: Path, last: str, said: str) -> None:
    root = filled(tmp_path / "root", {"code": "0"})
    script = "code=$(cat code); echo run >> ../runs; while [ -e ../hold ]; do sleep 0.01; done; exit $code"

    async def scenario() -> list[str]:
        (tmp_path / "hold").touch()
        watcher = shell(script, root)
        async with watching(watcher) as seen:
            for number in range(1, SUSPECTED_RUNS):
                await until(partial(has_lines, tmp_path / "runs", number))
                filled(root, {"code": "0" + " " * number})
            await until(partial(has_lines, tmp_path / "runs", SUSPECTED_RUNS))
            # Such a run is not killed by the change, and its result is that of the content before.
            filled(root, {"code": last + " " * SUSPECTED_RUNS})
            await asyncio.sleep(10 * FAST)
            (tmp_path / "hold").unlink()
            return await seen.bodies(2)

    first, second = run(scenario())
    assert first.endswith("passed, but code changed during the run, and it runs again.")
    assert f"{said} after the last change." in second


@pytest.mark.requirement("watch:command:changed-during-run")
def test_a_change_right_before_the_end_of_a_run_supersedes_its_result(tmp_path: Path) -> None:
    root = filled(tmp_path / "root", {"code": "1"})
    # The first run has read the old code when it changes it, and ends before the change is settled.
    script = "code=$(cat code); [ -e ../once ] || { touch ../once; echo 0 > code; }; exit $code"

    async def scenario() -> str:
        async with watching(shell(script, root)) as seen:
            return (await seen.next()).body

    assert run(scenario()).endswith(" passed after the last change.")


# Secrets.


TOKEN = "ghp_" + "A1b2C3d4E5" * 4
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowAb3/Ab3/\n" * 12 + "-----END RSA PRIVATE KEY-----\n"


@pytest.mark.requirement("watch:command:secrets-masked")
def test_secrets_are_masked_before_lines_are_chosen_and_cut(tmp_path: Path) -> None:
    filled(tmp_path, {"key": KEY})

    async def scenario() -> None:
        watcher = shell(f"cat key; echo {'x' * 170} {TOKEN} tail; exit 1", tmp_path)
        async with watching(watcher) as seen:
            notice = await seen.next()
        for said in (notice.body, watcher.latest, watcher.title):
            assert "MIIE" not in said
            assert "ghp_" not in said
        assert "[masked]" in watcher.latest

    run(scenario())


@pytest.mark.requirement("watch:command:secrets-masked")
def test_the_command_line_and_its_name_are_masked(tmp_path: Path) -> None:
    watcher = CommandWatcher(["curl", TOKEN, "-H", "Authorization: Bearer abcdefghijklmnop1234"], watch=tmp_path)
    assert watcher.title == "Result of curl [masked] -H 'Authorization: Bearer [masked]'"
    assert watcher.latest == "curl [masked] -H 'Authorization: Bearer [masked]' has not ended yet."
    assert watcher.name == "curl--masked"
    keys = {text.key("test", f"{TOKEN}{number}") for number in range(2)}
    assert len(keys) == 2
    assert not any("ghp_" in key for key in keys)


@pytest.mark.requirement("watch:command:cannot-start")
def test_a_missing_directory_is_named_as_the_reason(tmp_path: Path) -> None:
    outcome = run(process.run(["true"], folder=tmp_path / "missing", seconds=None))
    assert outcome.fault == "cannot be started: the directory in which it runs does not exist"

"""Running: one stream of output, an end in bounded time, and nothing left behind."""

import asyncio
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sideband.ports import ToolOutput
from sideband.tools.run import LINGER_SECONDS, MAX_NOTED_BYTES, Pipe, ShellCommand, _kill, _started
from sideband.tools.text import Caps, HeadTail
from sideband.tools.workspace import Workspace, workspace_tools
from tests.unit.workspace_tools.calling import Notes, acall, call, done, filled, refusal, tool
from tests.waiting import let_pass, until

PATIENCE_SECONDS = 30
TIMED_OUT = f"early\n[timed out after {PATIENCE_SECONDS} s and was killed with all that it started]"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return workspace_tools(tmp_path)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A process that has ended stays visible until its parent asks for it, and not every container asks.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


def ends(pid: int) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_alive(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0)
    return True


@pytest.mark.parametrize(
    ("command", "text", "code"),
    [
        pytest.param("echo a; echo b >&2; echo c", "a\nb\nc\n", 0, id="both-streams-in-order"),
        pytest.param("echo $((6 * 7))", "42\n", 0, id="a-line-for-the-shell"),
        pytest.param(["echo", "$HOME", "a b"], "$HOME a b\n", 0, id="a-list-without-a-shell"),
        pytest.param("exit 3", "[exit code 3; no output]", 3, id="a-failure"),
        pytest.param("echo no; exit 1", "no\n[exit code 1]", 1, id="a-failure-with-output"),
        pytest.param("printf no; exit 1", "no\n[exit code 1]", 1, id="a-failure-without-a-line-end"),
        pytest.param("true", "[exit code 0; no output]", 0, id="nothing-to-say"),
        pytest.param("kill -9 $$", "[killed by signal 9; no output]", -9, id="a-signal"),
        pytest.param("cat", "[exit code 0; no output]", 0, id="no-input"),
        pytest.param("printf '\\377'", "\ufffd", 0, id="output-that-is-no-text"),
    ],
)
def test_a_command_gives_its_output_and_exit_code(
    workspace: Workspace, command: str | list[str], text: str, code: int
) -> None:
    output = call(workspace, "run", command=command)
    assert (output.text, output.is_error, output.truncated) == (text, code != 0, False)
    assert output.data["exit_code"] == code
    assert output.data["timed_out"] is False
    assert output.data["duration_ms"] >= 0


def test_the_command_is_told_as_one_would_type_it(workspace: Workspace) -> None:
    notes = Notes()
    assert call(workspace, "run", notes, command=["echo", "a b"]).data["command"] == "echo 'a b'"
    assert call(workspace, "run", notes, command="echo " + "x" * 1000).data["command"] == "echo " + "x" * 1000
    assert notes.applied_changes == ["ran: echo 'a b'", "ran: echo " + "x" * 195]


@pytest.mark.parametrize("cwd", [".", "sub", "sub/link"])
def test_a_command_runs_in_its_folder(tmp_path: Path, cwd: str) -> None:
    filled(tmp_path, {"sub/a.txt": ""})
    (tmp_path / "sub" / "link").symlink_to("../sub")
    expected = (tmp_path / cwd).resolve()
    assert done(workspace_tools(tmp_path), "run", command="pwd -P", cwd=cwd) == f"{expected}\n"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        pytest.param({"command": ["no-such-program"]}, "no-such-program cannot be run: No such file", id="no-program"),
        pytest.param({"command": ["./a.txt"]}, "./a.txt cannot be run: Permission denied", id="not-executable"),
        pytest.param({"command": "ls", "cwd": "missing"}, "missing: No such file or directory", id="no-folder"),
        pytest.param({"command": "ls", "cwd": "a.txt"}, "a.txt: Not a directory", id="a-file-as-folder"),
        pytest.param({"command": "ls \0"}, "NUL", id="a-nul"),
        pytest.param({"command": ["ls", "x" * 3_000_000]}, "Argument list too long", id="too-long"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, args: dict[str, object], why: str) -> None:
    assert why in refusal(workspace_tools(filled(tmp_path, {"a.txt": ""})), "run", **args)


def test_of_too_much_output_the_middle_is_left_out(tmp_path: Path) -> None:
    whole = "".join(f"{number}\n" for number in range(1, 50_001))
    output = call(workspace_tools(tmp_path, caps=Caps(run_bytes=100)), "run", command="seq 1 50000")
    mark = f"\n[truncated: {len(whole) - 100} of {len(whole)} bytes are left out here]\n"
    assert output.text == whole[:50] + mark + whole[-50:]
    assert (output.original_bytes, output.is_error) == (len(whole), False)


# The environment.


def test_a_command_does_not_see_secrets(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ["OPENAI_API_KEY", "GITHUB_TOKEN", "CLIENT_SECRET", "DB_PASSWORD", "db_passwd", "AWS_CREDENTIALS"]
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("HARMLESS", "hello")
    environment = dict(line.split("=", 1) for line in done(workspace, "run", command=["env"]).splitlines())
    assert "hunter2" not in environment.values()
    assert environment["HARMLESS"] == "hello"
    assert environment["PATH"] == os.environ["PATH"]


def test_a_command_is_told_that_it_runs_unattended(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert done(workspace, "run", command="echo $TERM $GIT_TERMINAL_PROMPT") == "dumb 0\n"


def test_an_environment_that_is_given_is_used_as_it_is(tmp_path: Path) -> None:
    workspace = workspace_tools(tmp_path, environment={"API_KEY": "given", "PATH": os.environ["PATH"]})
    assert sorted(done(workspace, "run", command=["env"]).splitlines()) == [
        "API_KEY=given",
        f"PATH={os.environ['PATH']}",
    ]


# The end of a command is the end of all it started.


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[int]:
    """A pipe into which a command tells a process id."""
    os.mkfifo(tmp_path / "pids")
    descriptor = os.open(tmp_path / "pids", os.O_RDWR)
    yield descriptor
    os.close(descriptor)


async def next_pid(pids: int) -> int:
    told, _, _ = await asyncio.to_thread(select.select, [pids], [], [], PATIENCE_SECONDS)
    assert told, "the command did not get as far as telling a process id"
    return int(os.read(pids, 100))


async def out_of_time(pids: int, workspace: Workspace, command: str, **args: object) -> tuple[int, ToolOutput]:
    """What a call comes to whose time is over as soon as its command has told a process id, and that id."""
    notes = Notes()
    task = asyncio.create_task(acall(workspace, "run", notes, command=command, **args))
    pid = await next_pid(pids)
    # The time of a command begins to run when it is noted.
    await until(lambda: notes.applied_changes)
    assert is_alive(pid)
    let_pass(PATIENCE_SECONDS)
    return pid, await task


GRANDCHILD = "echo early; (sleep 1000 & echo $! > pids; wait) & wait"


def test_a_time_out_kills_what_the_command_started(workspace: Workspace, pids: int) -> None:
    pid, output = asyncio.run(out_of_time(pids, workspace, GRANDCHILD, timeout=PATIENCE_SECONDS))
    assert ends(pid)
    assert output.text == TIMED_OUT
    assert output.is_error
    assert (output.data["exit_code"], output.data["timed_out"]) == (None, True)


def test_a_cancelled_call_kills_what_the_command_started_and_says_what_it_wrote(
    workspace: Workspace, pids: int
) -> None:
    async def scenario() -> None:
        notes = Notes()
        task = asyncio.create_task(acall(workspace, "run", notes, command=GRANDCHILD))
        pid = await next_pid(pids)
        assert is_alive(pid)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends(pid)
        assert notes.applied_changes == [f"ran: {GRANDCHILD}", "it wrote: early\n"]

    asyncio.run(scenario())


def test_a_cancelled_call_says_only_the_end_of_much_that_was_written(tmp_path: Path, pids: int) -> None:
    async def noted(workspace: Workspace) -> str:
        notes = Notes()
        command = "seq 1 5000; (sleep 1000 & echo $! > pids; wait) & wait"
        task = asyncio.create_task(acall(workspace, "run", notes, command=command))
        await next_pid(pids)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return notes.applied_changes[-1]

    for caps in (Caps(), Caps(run_bytes=1000)):
        note = asyncio.run(noted(workspace_tools(tmp_path, caps=caps)))
        assert note.startswith("it wrote: …") is (caps.run_bytes > MAX_NOTED_BYTES)
        assert note.endswith("4999\n5000\n")
        assert len(note.encode()) < MAX_NOTED_BYTES + 20


# How long a command may take.


@pytest.mark.parametrize(("most", "usual"), [(600, 60), (30, 30)], ids=["by-default", "less"])
def test_a_command_is_promised_no_more_time_than_it_gets(tmp_path: Path, most: int, usual: int) -> None:
    run = tool(workspace_tools(tmp_path, caps=Caps(run_seconds=most)), "run")
    timeout = run.parameters["properties"]["timeout"]
    assert (timeout["maximum"], timeout["default"]) == (most, usual)
    assert f"{most} at most" in run.description
    # A caller that waits this long gets the output even of a command that was killed at its time-out.
    assert getattr(run, "seconds", 0) > most + 2 * LINGER_SECONDS


def test_more_time_than_there_is_is_refused(tmp_path: Path) -> None:
    workspace = workspace_tools(tmp_path, caps=Caps(run_seconds=30))
    assert "timeout: expected int <= 30" in refusal(workspace, "run", command="true", timeout=31)


def test_a_command_without_a_limit_of_its_own_is_killed_when_its_time_is_over(tmp_path: Path, pids: int) -> None:
    workspace = workspace_tools(tmp_path, caps=Caps(run_seconds=PATIENCE_SECONDS))
    _, output = asyncio.run(out_of_time(pids, workspace, "echo early; echo $$ > pids; sleep 1000"))
    assert output.text == TIMED_OUT


def test_a_command_that_ignores_signals_is_killed_all_the_same(workspace: Workspace, pids: int) -> None:
    async def scenario() -> None:
        command = "trap '' TERM INT HUP; echo $$ > pids; while :; do sleep 1000; done"
        task = asyncio.create_task(acall(workspace, "run", command=command))
        pid = await next_pid(pids)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends(pid)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("command", "text"),
    [
        pytest.param("sleep 1000 & echo $!", "[what it left running was killed]", id="with-its-output-open"),
        pytest.param("sleep 1000 > /dev/null 2>&1 & echo $!", "", id="without"),
    ],
)
def test_what_is_left_in_the_background_is_killed(workspace: Workspace, command: str, text: str) -> None:
    output = call(workspace, "run", command=command)
    pid, _, rest = output.text.partition("\n")
    assert ends(int(pid))
    assert (rest, output.is_error) == (text, False)


@pytest.fixture
def escaped(tmp_path: Path) -> Iterator[Path]:
    """Where a process that leaves its group tells its id, so that it can be ended after the test."""
    yield tmp_path / "escaped"
    with suppress(FileNotFoundError):
        os.kill(int((tmp_path / "escaped").read_text(encoding="utf-8")), signal.SIGKILL)


def test_a_process_that_escaped_with_the_output_open_is_not_waited_for(workspace: Workspace, escaped: Path) -> None:
    program = (
        "import os, time; os.setsid(); print('away'); open('escaped', 'w').write(str(os.getpid())); time.sleep(1000)"
    )
    command = f'{sys.executable} -uc "{program}" & while [ ! -s escaped ]; do :; done'
    output = call(workspace, "run", command=command)
    assert output.text == "away\n[a process that it started could not be killed and still runs]"
    assert is_alive(int(escaped.read_text(encoding="utf-8")))


def test_a_flood_of_output_neither_fills_the_memory_nor_outlives_its_time(tmp_path: Path, pids: int) -> None:
    workspace = workspace_tools(tmp_path, caps=Caps(run_bytes=1000))
    command = "yes | (head -c 100000; echo $$ > pids; cat)"
    _, output = asyncio.run(out_of_time(pids, workspace, command, timeout=PATIENCE_SECONDS))
    assert output.original_bytes is not None
    assert output.original_bytes >= 100_000
    assert len(output.text) < 1300
    assert output.data["timed_out"] is True


def test_several_commands_run_at_the_same_time(workspace: Workspace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "meeting")

    async def scenario() -> list[str]:
        # Each end of the pipe waits for the other: one after the other they would never end.
        calls = [acall(workspace, "run", command=line) for line in ("cat meeting", "echo met > meeting")]
        return [output.text for output in await asyncio.gather(*calls)]

    assert asyncio.run(scenario()) == ["met\n", "[exit code 0; no output]"]


# Cancelled while starting.


def cancelled_start(folder: Path, program: str, *arguments: str) -> list[str]:
    """What is said of a command whose call is cancelled as soon as its start has begun."""
    notes = Notes()

    async def scenario() -> None:
        pipe = Pipe(HeadTail(100))
        command = ShellCommand([program, *arguments], program, folder, {"PATH": os.environ["PATH"]}, 60)
        task = asyncio.create_task(_started(command, pipe, notes))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Everything that had the pipe has ended.
        await pipe.linger(PATIENCE_SECONDS)
        assert pipe.ended.is_set()
        pipe.close()

    asyncio.run(scenario())
    return notes.applied_changes


def test_a_call_that_is_cancelled_while_its_command_starts_leaves_nothing_but_the_note(tmp_path: Path) -> None:
    assert cancelled_start(tmp_path, "sleep", "1000") == ["ran: sleep"]
    assert cancelled_start(tmp_path, "no-such-program") == []


def test_a_call_that_is_cancelled_while_its_command_is_being_killed_is_cancelled_after_it() -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
        task = asyncio.create_task(_kill(process))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert process.returncode == -signal.SIGKILL

    asyncio.run(scenario())


def test_a_call_that_is_cancelled_before_its_command_starts_runs_nothing(workspace: Workspace, tmp_path: Path) -> None:
    async def scenario() -> None:
        notes = Notes()
        task = asyncio.create_task(tool(workspace, "run").call({"command": "touch ran"}, notes))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes.applied_changes == []

    asyncio.run(scenario())
    assert not (tmp_path / "ran").exists()

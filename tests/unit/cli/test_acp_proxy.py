"""`sideband acp-proxy` around the frames: how it starts, ends and reports its agent. The pipes of the test are its streams."""

import asyncio
import logging
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from sideband.cli import acp_proxy as command
from sideband.protocols import frames
from sideband.protocols.acp.proxy import proxy
from tests.acp_agents import in_time
from tests.piped import FarEnd, piped

# Answers each frame with the same frame.
ECHO: Final = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"
# Neither the end of its input nor SIGTERM ends it.
STUBBORN: Final = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('{}', flush=True)\ntime.sleep(60)\n"
)
# The end of its input does not end it, and SIGTERM does.
DEAF: Final = "import time\nprint('{}', flush=True)\ntime.sleep(60)\n"


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """The command adds a handler to the log of the library."""
    log = logging.getLogger("sideband")
    before = list(log.handlers)
    yield
    log.handlers[:] = before


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[FarEnd]":
    """Where the editor of the next command appears."""
    editors: asyncio.Queue[FarEnd] = asyncio.Queue()

    @asynccontextmanager
    async def streams(*, limit: int) -> AsyncIterator[frames.LineTransport]:
        async with piped(limit=limit) as (near, far):
            editors.put_nowait(far)
            yield near

    monkeypatch.setattr(frames, "standard_streams", streams)
    return editors


def run(place: Path, *agent: str) -> "asyncio.Task[int]":
    return asyncio.ensure_future(command._run(agent, f"sqlite:///{place}/store.db", "stub", "editor"))


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", program)


@in_time
async def test_an_editor_that_leaves_ends_the_agent(
    editor: "asyncio.Queue[FarEnd]", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = run(tmp_path, *python(ECHO))
    far = await editor.get()
    far.call("_vendor/ping")
    assert (await far.receive())["method"] == "_vendor/ping"
    await far.hang_up()
    assert await running == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("program", [DEAF, STUBBORN], ids=["needs-sigterm", "needs-sigkill"])
@in_time
async def test_an_agent_that_does_not_end_by_itself_is_ended(
    editor: "asyncio.Queue[FarEnd]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(command, "EOF_SECONDS", 0.05)
    monkeypatch.setattr(command, "TERM_SECONDS", 0.05)
    running = run(tmp_path, *python(program))
    far = await editor.get()
    assert await far.receive() == {}
    os.kill(os.getpid(), signal.SIGTERM)
    # It was ended by us, which is no failure.
    assert await running == 0


@in_time
async def test_an_editor_that_leaves_is_noticed_while_the_agent_reads_nothing(
    editor: "asyncio.Queue[FarEnd]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "EOF_SECONDS", 0.05)
    monkeypatch.setattr(command, "TERM_SECONDS", 0.05)
    monkeypatch.setattr(frames, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(proxy, "REPLY_SECONDS", 0.05)
    running = run(tmp_path, *python(DEAF))
    far = await editor.get()
    assert await far.receive() == {}
    for _ in range(40):
        far.call("_vendor/fill", {"text": "x" * 60_000})
    await far.hang_up()
    assert await running == 0


@contextmanager
def a_left_process(place: Path) -> Iterator[str]:
    """The path of a file that the child of an agent opens for writing; at the end, no process has it open any more."""
    path = place / "held"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield str(path)
        assert select.select([reading], [], [], 5)[0], "a process of the agent still runs"
        assert os.read(reading, 1) == b""
    finally:
        os.close(reading)


@in_time
async def test_an_agent_that_ends_is_noticed_while_its_child_holds_its_output(
    editor: "asyncio.Queue[FarEnd]",
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "TERM_SECONDS", 0.2)
    with a_left_process(tmp_path) as held:
        running = run(tmp_path, "sh", "-c", f"exec 3>'{held}'; sleep 60 & echo '{{}}'; exit 3")
        far = await editor.get()
        assert await far.receive() == {}
        assert await running == 3
    assert capsys.readouterr().err == "sideband acp-proxy: the agent ended with exit status 3\n"


@pytest.mark.parametrize("trap", ["", "trap '' TERM;"], ids=["needs-sigterm", "needs-sigkill"])
@in_time
async def test_an_editor_that_leaves_ends_the_children_of_the_agent(
    editor: "asyncio.Queue[FarEnd]",
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trap: str,
) -> None:
    monkeypatch.setattr(command, "EOF_SECONDS", 0.05)
    monkeypatch.setattr(command, "TERM_SECONDS", 0.2)
    with a_left_process(tmp_path) as held:
        running = run(tmp_path, "sh", "-c", f"exec 3>'{held}'; {trap} sleep 60 & echo '{{}}'; wait")
        far = await editor.get()
        assert await far.receive() == {}
        await far.hang_up()
        assert await running == 0
    assert capsys.readouterr().err == ""


class Ending(NamedTuple):
    """How an agent ends, and what is made of it."""

    program: str
    status: int
    message: str


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(Ending("raise SystemExit(5)", 5, "the agent ended with exit status 5"), id="exits-at-once"),
        pytest.param(Ending("import os; os.kill(os.getpid(), 9)", 137, "the agent ended by signal 9"), id="is-killed"),
    ],
)
@in_time
async def test_an_agent_that_ends_ends_the_command(
    editor: "asyncio.Queue[FarEnd]", tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: Ending
) -> None:
    running = run(tmp_path, *python(ending.program))
    far = await editor.get()
    far.call("initialize", {}, request_id=1)
    assert await running == ending.status
    assert ending.message in capsys.readouterr().err


def test_a_command_without_an_agent_says_how_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.acp_proxy() == 2
    assert "sideband acp-proxy -- claude-agent-acp" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        pytest.param("agent", "a:b", id="a-colon"),
        pytest.param("agent", "my agent", id="a-space"),
        pytest.param("agent", "", id="an-empty-one"),
        pytest.param("/opt/My Agent", None, id="that-of-the-program"),
    ],
)
def test_a_name_that_cannot_be_part_of_the_name_of_a_session_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], agent: str, name: str | None
) -> None:
    assert command.acp_proxy(agent, name=name, store=f"sqlite:///{tmp_path}/store.db") == 2
    assert "--name: the name of the agent may have ASCII letters" in capsys.readouterr().err


def test_an_agent_that_does_not_exist_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.acp_proxy("/nowhere/agent", store=f"sqlite:///{tmp_path}/store.db") == 127
    assert "cannot be started" in capsys.readouterr().err


def test_a_store_that_cannot_be_opened_is_reported_before_the_agent_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.acp_proxy("/nowhere/agent", store=f"sqlite:///{tmp_path}/no/folder.db") == 2
    assert "cannot be started" not in capsys.readouterr().err

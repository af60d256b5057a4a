"""`sideband transcript` and `sideband pending`: what people are shown of a session."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import sideband as sb
from sideband.cli.pending import pending
from sideband.cli.transcript import transcript
from sideband.core.events import Begun
from sideband.core.state import Decided
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust
from sideband.testing import ScriptedModel
from tests.loop_builders import ATool
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import SqliteTwin

Captured = pytest.CaptureFixture[str]
SERVER = Provenance(trust=Trust.SERVER, principal="build-watcher", via="mcp")


def told(tmp_path: Path, act: Callable[[sb.Session], Awaitable[Any]]) -> str:
    """The address of a store with one session, `s`, in which this has happened."""
    url = f"sqlite:///{tmp_path / 'store.db'}"

    async def story() -> None:
        async with sb.open_store(url) as store:
            await act(await store.session("s"))

    asyncio.run(story())
    return url


async def a_turn(session: sb.Session) -> None:
    await session.remind("Never\nforce-push.", dedupe_key="policy", ttl_turns=3)
    call = sb.Reply(text="I look.", tool_calls=(sb.ToolCall(id="c1", name="work", args={"path": "a.py"}),))
    await sb.agent_loop(
        "Fix \x1b[2Jit.", session=session, model=ScriptedModel([call, "Done."]), tools=[ATool()], reminders=False
    )


def test_the_conversation_is_printed_with_calls_results_and_live_reminders(tmp_path: Path, capsys: Captured) -> None:
    assert transcript(store=told(tmp_path, a_turn)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-3] == [
        "session s: idle, turn 2",
        "user",
        "  Fix \\x1b[2Jit.",
        "assistant",
        "  I look.",
        '  calls work {"path":"a.py"}',
        "tool work: ok",
        "  done",
        "assistant",
        "  Done.",
    ]
    assert lines[-3].endswith(", key policy, TTL 1")
    assert lines[-2:] == ["  Never", "  force-push."]


def test_content_of_other_kinds_is_named(tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"

    async def story() -> None:
        async with sb.open_store(url) as store:
            blocks = [{"type": "text", "text": "See:"}, {"type": "image", "data": "x"}, {}]
            other: list[dict[str, Any]] = [{"role": "narrator", "content": 7}, {"role": "user", "content": blocks}]
            # An earlier version stored what `begin` refuses now.
            begun = Begun(messages=tuple(other))
            await store.journal.open("s")
            await store.journal.commit("s", lambda _state: Decided((begun,), None))

    asyncio.run(story())
    assert transcript(store=url) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["narrator", "  7", "user", "  See:", "  [image]", "  [block]"]


def test_pending_is_a_table_of_the_inbox_and_of_what_is_live(tmp_path: Path, capsys: Captured) -> None:
    async def story(session: sb.Session) -> None:
        await a_turn(session)
        watcher = sb.Producer(session, SERVER, surface=Surface.MCP)
        await watcher.remind(
            {"id": "b7", "body": "The build is red since the commit before the last one, on main.", "ttlTurns": 1}
        )
        await session.prompt("And now?")

    assert pending(store=told(tmp_path, story)) == 0
    heading, *rows, total = capsys.readouterr().out.splitlines()
    assert heading.split() == ["state", "kind", "id", "mode", "ttl", "key", "from", "text"]
    assert [row.split()[:2] for row in rows] == [["queued", "reminder"], ["queued", "user"], ["live", "reminder"]]
    assert rows[0].split()[2:7] == ["build-watcher:b7", "finish_step", "1", "b7", "build-watcher"]
    assert rows[0].endswith("The build is red since the commit before the last one, ...")
    assert rows[1].split()[3:] == ["queue", "-", "-", "operator", "And", "now?"]
    assert rows[2].split()[3:] == ["-", "1", "policy", "operator", "Never", "force-push."]
    assert total == "session s: 2 queued, 1 live"


def test_nothing_pending_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    async def story(session: sb.Session) -> None:
        await session.record({"title": "Nothing yet"})

    assert pending(store=told(tmp_path, story)) == 0
    assert capsys.readouterr().out == "session s: 0 queued, 0 live\n"


@pytest.mark.parametrize("command", [pending, transcript])
def test_a_session_that_was_changed_from_outside_is_refused(
    command: Callable[..., int], sqlite: SqliteTwin, capsys: Captured
) -> None:
    async def story() -> None:
        async with sb.open_store(f"sqlite:///{sqlite.path}") as store:
            await store.begin("s")

    asyncio.run(story())
    change(sqlite, "UPDATE journal SET checksum = 0")
    assert command(store=f"sqlite:///{sqlite.path}") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[0] == "error: session 's' cannot be read: row 1 was changed"

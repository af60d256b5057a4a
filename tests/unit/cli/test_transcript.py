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
from tests.programs import run_sideband
from tests.unit.cli.test_timeline import told as timeline_story
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


def test_the_conversation_is_printed_turn_by_turn_with_what_was_told_on_the_side(
    tmp_path: Path, capsys: Captured
) -> None:
    assert transcript(store=told(tmp_path, a_turn)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(", ")[0].rstrip(" ─") if line.startswith("──") else line for line in lines[:-1]] == [
        "session s: idle, turn 2",
        "",
        "user",
        "  Fix \\x1b[2Jit.",
        "",
        "── turn 1",
        "┃ ● T0 operator: policy, as user, for 3 turns",
        "┃   Never",
        "┃   force-push.",
        "assistant",
        "  I look.",
        '  → work {"path":"a.py"}  ok',
        "    done",
        "",
        "── turn 2",
        "┃ ● T0 operator: policy, as user, again",
        "assistant",
        "  Done.",
        "",
        "live: 1",
    ]
    assert lines[-1].startswith("┃ ● T0 operator: policy, 1 turn left, id ")


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
    assert capsys.readouterr().out.splitlines()[1:] == [
        *("", "narrator", "  7"),
        *("", "user", "  See:", "  [image]", "  [block]"),
    ]


def test_a_wide_terminal_has_the_notes_beside_the_conversation(tmp_path: Path, capsys: Captured) -> None:
    url = timeline_story(tmp_path)
    assert transcript(store=url, width=120) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("assistant ") and line.endswith("┃ ● T0 operator: policy, as user") for line in lines)
    assert any(line.startswith("  I look. ") and "┃   Never force-push." in line for line in lines)
    assert all(len(line) <= 120 for line in lines)
    assert transcript(store=url, width=60) == 0
    narrow = capsys.readouterr().out.splitlines()
    assert "┃ ● T0 operator: policy, as user" in narrow
    assert all(len(line) <= 60 for line in narrow)


def test_everything_that_happens_to_a_turn_is_said(tmp_path: Path, capsys: Captured) -> None:
    assert transcript(store=timeline_story(tmp_path)) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    for line in (
        "  → work {}  interrupted",
        "  Batch skipped: interrupted by T0 operator: freeze",
        "    … shortened, 200 bytes in all",
        "┊ ● T3 build-watcher: file_changed:src/app/a_file_with_a_long_name.py, as user, for 2 turns",
        "┃ ◐ left out: T0 operator: big",
        "┃ • told earlier, still there: T0 operator: policy, T0 operator: review:*",
        "The conversation now begins with:",
        "  summary",
        "    In short.",
        "  Use the new API.",
        "queued: 1",
        "on record, never shown to the model: 1",
        "messages that wait: 1",
        "  Then the changelog.",
    ):
        assert line in lines, line
    assert sum(line.startswith("── turn 5") for line in lines) == 2
    assert "── turn 5, void: no reply, and nothing counts as told ─" in out
    assert "── compaction after turn 3, 6 messages archived ─" in out
    # The user's message stands where it was delivered.
    assert out.index("── turn 3") < out.index("Use the new API.") < out.index("── turn 4")


def test_turns_that_are_no_longer_kept_are_told_as_the_conversation_has_them(tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"

    async def story() -> None:
        async with sb.open_store(url, kept_events=5, snapshot_events=1) as store:
            session = await store.begin("s")
            call = sb.Reply(text="I look.", tool_calls=(sb.ToolCall(id="c1", name="work", args={}),))
            tool = ATool(do=lambda _args, _context: "out\n" * 20)
            for task in ("First.", "Second."):
                model = ScriptedModel([call, f"Done: {task}"])
                await sb.agent_loop(task, session=session, model=model, tools=[tool], reminders=False)

    asyncio.run(story())
    assert transcript(store=url) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Earlier turns are no longer kept. Of them, the conversation still has:"
    assert lines[2:4] == ["  user", "    First."]
    assert "  tool work: ok" in lines
    assert "    …" in lines
    assert lines[-1] == "  Done: Second."


def test_a_terminal_without_unicode_gets_a_transcript_in_ascii(tmp_path: Path) -> None:
    answer = run_sideband(
        "transcript", "--store", timeline_story(tmp_path), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.isascii()
    assert "| O T0 operator: policy, as user" in answer.stdout


def test_a_narrow_transcript_is_refused(capsys: Captured) -> None:
    assert transcript(width=39) == 2
    assert "--width must be at least 40 columns, not 39" in capsys.readouterr().err


def test_a_message_that_interrupts_and_one_that_waits_are_named(tmp_path: Path, capsys: Captured) -> None:
    async def story(session: sb.Session) -> None:
        async def line(_view: object) -> sb.Reply:
            await session.inject("Stop.", mode="interrupt_immediate")
            return sb.Reply(tool_calls=(sb.ToolCall(id="c1", name="work", args={"text": "x" * 500}),))

        model = ScriptedModel([line, "Stopped."])
        await sb.agent_loop("Go.", session=session, model=model, tools=[ATool()], reminders=False)
        await session.inject("For the record.", mode="audit_only")

    assert transcript(store=told(tmp_path, story)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  Batch skipped: interrupted by a message of T0 operator" in lines
    assert any(line.endswith("x…  interrupted") for line in lines)
    assert lines[-2].startswith("  audit_only, id ")


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

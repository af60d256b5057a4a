"""`sideband timeline`: what is drawn of a session, at every width, with and without Unicode."""

import asyncio
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import sideband as sb
from sideband.cli.timeline import GLYPHS, can_draw, draw, timeline
from sideband.cli.transcript import ASCII, UNICODE, _Page
from sideband.core.reminder import RoleHint
from sideband.core.surfaces import Surface
from sideband.core.transcript import Transcript
from sideband.core.trust import Provenance, Trust
from sideband.core.turn import Shown
from sideband.inspect.history import SessionHistory, read_timeline
from sideband.inspect.timeline import Timeline, keep_last
from sideband.loop.hooks import Hooks
from sideband.loop.run import Step
from sideband.ports import ModelError
from sideband.providers.registry import Registry
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.runtime.agents import agent_run
from sideband.runtime.session import Session
from sideband.testing import MemoryStore, ScriptedModel
from tests.loop_builders import AScene, ATool, a_reply, a_session
from tests.programs import run_sideband
from tests.unit.inspect.test_timeline import Told, long_histories, sent
from tests.viewed_histories import TOUR, Happening

Captured = pytest.CaptureFixture[str]
WATCHER: Final = Provenance(trust=Trust.SERVER, principal="build-watcher", via="mcp")


class ShowingModel(ScriptedModel):
    """A model that keeps the text of what has no TTL, and leaves out a reminder with the key `big` in its first turn."""

    def plan(self, view: RequestView) -> Plan:
        plan = super().plan(view)
        out = [item.id for item in view.live if item.reminder.dedupe_key == "big" and item.left_out == 0]
        shown = tuple(
            Shown(item.id, "user", carried=item.first_turn is not None and item.reminder.ttl_turns is None)
            for item in view.live
            if item.id not in out
        )
        return msgspec.structs.replace(plan, shown=shown, left_out=tuple(out))


async def a_story(session: Session) -> None:
    """A session with reminders of every fate: an interrupt, a compaction, a void turn, and what waits at the end."""
    await session.remind("Never force-push.", dedupe_key="policy", preserve_on_compact=True)
    await session.remind("Tests run with make.\nAlways \ue000make.", ttl_turns=2)

    async def more(_view: RequestView) -> Any:  # noqa: ANN401 - a line
        await sb.Producer(session, WATCHER, surface=Surface.MCP).remind(
            {"id": "b1", "body": "3 files changed.", "dedupeKey": "file_changed:src/app/a_file_with_a_long_name.py"}
        )
        await session.remind("CI is red.", dedupe_key="ci", ttl_turns=3)
        await session.remind("Goes with the compaction.", dedupe_key=f"review:{'0a' * 8}")
        gone = await session.remind("Never mind.", dedupe_key="oops")
        await session.revoke(gone.reminder_id)
        return a_reply("work", text="I look.")

    async def interrupted(_view: RequestView) -> Any:  # noqa: ANN401 - a line
        await session.remind("Stop.", dedupe_key="freeze", mode="interrupt_immediate")
        await session.remind("CI is green.", dedupe_key="ci", ttl_turns=2)
        await session.remind("For the record.", mode="audit_only")
        return a_reply("work", "work")

    async def steered(_view: RequestView) -> Any:  # noqa: ANN401 - a line
        await session.inject("Use the new API.", mode="steer")
        await session.clear(dedupe_key="freeze")
        await session.remind("Much text.", dedupe_key="big")
        return a_reply("work")

    model = ShowingModel([more, interrupted, steered, a_reply("work"), ModelError("no", status=400)])
    tool = ATool(do=lambda _args, _context: "line\n" * 40)
    run = await agent_run(
        "Fix it.",
        session=session,
        model=model,
        tools=[tool],
        reminders=False,
        hooks=Hooks(),
        providers=Registry(),
        compactor=lambda messages, _reminders: [{"role": "system", "content": "In short."}, *messages[-2:]],
    )
    turns = 0
    while (step := await run.step()) is not None:
        turns += step.name is Step.TOOLS
        if step.name is Step.TOOLS and turns == 3:
            assert await run.compact()
    await sb.agent_loop(None, session=session, model=ShowingModel(["Done."]), reminders=False)
    await session.remind("Reviewers wait.", dedupe_key="review", ttl_turns=4)
    await session.prompt("Then the changelog.")


def told(tmp_path: Path, act: Callable[[sb.Session], Awaitable[Any]] = a_story) -> str:
    url = f"sqlite:///{tmp_path / 'store.db'}"

    async def story() -> None:
        async with sb.open_store(url) as store:
            await act(await store.begin("s", attributes={"title": "A bug"}))

    asyncio.run(story())
    return url


def lines_of(timeline: Timeline, *, width: int, ascii_only: bool = False) -> list[str]:
    return [line.plain for line in draw(timeline, "idle", width=width, ascii_only=ascii_only)]


def lane(lines: list[str], label: str) -> str:
    (found,) = [line for line in lines if line.startswith(label)]
    return found[len(label) :].strip()


# A session of every fate.


def test_each_fate_is_drawn_with_its_mark_and_word(tmp_path: Path, capsys: Captured) -> None:
    assert timeline(store=told(tmp_path), width=140) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "session s: idle, turn 5  A bug"
    assert lane(lines, "turn").split() == ["1", "2", "3", "4", "5"]
    assert lane(lines, "T0 operator: policy").rstrip().endswith("until cleared")
    assert "●" in lane(lines, "T0 operator: policy")
    assert lane(lines, "T0 operator: policy").count("•") == 4
    assert "┤ expired" in lane(lines, 'T0 operator: "Tests run')
    ci = [line for line in lines if line.startswith("T0 operator: ci")]
    assert "» deduped" in ci[0]
    assert "compacted out" in lane(lines, "T0 operator: review:*")
    assert "↶ revoked" in lane(lines, "T0 operator: oops")
    assert "↯" in lane(lines, "T0 operator: freeze")
    assert "× cleared" in lane(lines, "T0 operator: freeze")
    assert "¶ audit" in lane(lines, 'T0 operator: "For the record')
    assert "◐" in lane(lines, "T0 operator: big")
    assert lane(lines, "T3 build-w…: file_changed").count("●")
    assert "compaction" in lane(lines, "run")
    assert "∅" in lane(lines, "run")
    assert "▼" in lane(lines, "user  ")
    assert "live: " in out
    assert "queued: 1, not delivered yet" in lines
    assert lines[-1] == "  queue: Then the changelog."
    assert "\ue000" not in out
    for word in ("told in this turn", "deduped (replaced)", "compaction", "left out (budget)"):
        assert word in out


def test_the_last_turns_that_fit_are_drawn(tmp_path: Path, capsys: Captured) -> None:
    url = told(tmp_path)
    assert timeline(store=url, width=45) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("earlier turns not shown; a wider" in line for line in lines)
    assert any("lanes not shown: ended" in line for line in lines)
    assert "◂" in lane(lines, "T0 operator: p")
    assert timeline(store=url, turns=3, width=140) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lane(lines, "turn").split() == ["4", "5"]
    assert "3 earlier turns not shown." in lines


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path) -> None:
    url = told(tmp_path)
    answer = run_sideband(
        "timeline", "--store", url, "--width", "120", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.isascii()
    assert "?" not in lane(answer.stdout.splitlines(), "T0 operator: policy")
    assert "O told in this turn" in answer.stdout
    coloured = run_sideband("timeline", "--store", url, "--width", "120", env={"FORCE_COLOR": "1"})
    plain = run_sideband("timeline", "--store", url, "--width", "120", env={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert "\x1b[33m" in coloured.stdout
    assert "\x1b[33m" not in plain.stdout


def test_marks_are_distinct_and_one_cell_wide() -> None:
    for chars in ([glyph.char for glyph in GLYPHS.values()], [glyph.ascii for glyph in GLYPHS.values()]):
        assert len({*chars}) == len(chars)
        assert all(cell_len(char) == 1 for char in chars)
    assert "".join(glyph.ascii for glyph in GLYPHS.values()).isascii()
    assert can_draw("utf-8")
    assert not can_draw("latin-1")
    assert not can_draw("no-such-encoding")


def test_json_is_the_timeline_of_the_session(tmp_path: Path, capsys: Captured) -> None:
    url = told(tmp_path)

    async def read() -> Timeline:
        async with sb.open_store(url) as store:
            return await read_timeline(await store.session("s"))

    assert timeline(store=url, json=True) == 0
    assert Timeline.from_json(capsys.readouterr().out) == asyncio.run(read())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": 39}, "--width must be at least 40 columns, not 39"),
        ({"turns": 0}, "--turns must be at least 1, not 0"),
        ({"to": "agent:x"}, "this version cannot reach an agent"),
    ],
)
def test_wrong_options_are_refused(capsys: Captured, options: dict[str, Any], said: str) -> None:
    assert timeline(**options) == 2
    assert said in capsys.readouterr().err


def test_an_empty_session_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    async def nothing(_session: sb.Session) -> None:
        return

    assert timeline(store=told(tmp_path, nothing)) == 0
    assert capsys.readouterr().out == "session s: idle, turn 0  A bug\n"


def test_reminders_before_the_first_turn_are_drawn() -> None:
    async def story() -> Timeline:
        session = a_session()
        await session.remind("Waits.", dedupe_key="k", mode="interrupt_immediate")
        await session.remind("Waits too.", mode="audit_only", ttl_turns=1)
        return await read_timeline(session)

    lines = lines_of(asyncio.run(story()), width=100)
    assert lane(lines, "T0 operator: k").endswith("queued, interrupts")
    assert lane(lines, 'T0 operator: "Waits too."').endswith("queued, audit only")
    assert any("TTL 1, audit_only" in line for line in lines)


def test_reminders_refused_on_arrival_share_a_lane_and_an_inherited_one_says_so() -> None:
    document = msgspec.json.decode(Told(TOUR[:14]).timeline().to_json())
    refused = document["reminders"][0] | {
        "state": "dropped",
        "body": "",
        "dedupeKey": None,
        "atTheDoor": True,
        "count": 3,
        "reason": "rate_limited",
        "sender": {"trust": "server", "principal": "watcher"},
        "ended": {"at": 0.9, "turn": 0},
    }
    document["reminders"] += [refused, {**refused, "count": 1, "reason": "invalid"}]
    lines = lines_of(Timeline.from_json(msgspec.json.encode(document)), width=160)
    refusals = [line for line in lines if "refused" in line]
    assert refusals[0].startswith("T3 watcher: refused")
    assert refusals[0].endswith("dropped, invalid")
    assert any(line.endswith("until compaction, inherited") for line in lines)


def test_a_pruned_session_says_what_is_not_known() -> None:
    async def story() -> Timeline:
        scene = AScene(store=MemoryStore(kept_events=6, snapshot_events=1))
        scene.says(*[a_reply("work")] * 4, "Done.")
        await scene.session.remind("Old.", dedupe_key="old")
        await sent(scene.session, WATCHER, "Of another.", role_hint=RoleHint.SYSTEM)
        await scene.play()
        return await read_timeline(scene.session)

    lines = lines_of(asyncio.run(story()), width=100)
    assert lines[1].startswith("Events up to ")
    assert lane(lines, "T0 operator: old").startswith("◂")


def test_an_open_turn_and_a_question_are_named() -> None:
    async def story() -> Timeline:
        seen: list[Timeline] = []
        scene = AScene()

        async def line(_view: RequestView) -> str:
            seen.append(await read_timeline(scene.session))
            return "Done."

        scene.says(line)
        await scene.play()
        return seen[0]

    found = asyncio.run(story())
    found.permissions = ["c1"]
    lines = lines_of(found, width=80)
    assert lines[0] == "session main: idle, turn 1 open"
    assert "1 question for permission open." in lines


# Laws.


@given(long_histories, st.integers(40, 250), st.booleans(), st.none() | st.integers(1, 4))
def test_every_history_can_be_drawn_at_every_width(
    history: list[Happening],
    width: int,
    ascii_only: bool,  # noqa: FBT001 - drawn
    turns: int | None,
) -> None:
    found = Told(history).timeline()
    if turns is not None:
        keep_last(found, turns)
    for line in draw(found, "running", width=width, ascii_only=ascii_only):
        assert line.cell_len <= width
        assert line.plain.isprintable()
        assert line.plain == line.plain.rstrip()
        assert not ascii_only or line.plain.isascii()


@given(long_histories, st.none() | st.integers(40, 200), st.booleans())
def test_every_history_can_be_printed_as_a_transcript(
    history: list[Happening],
    columns: int | None,
    ascii_only: bool,  # noqa: FBT001 - drawn
) -> None:
    told = Told(history)
    seen = told.views[-1].session
    transcript = Transcript(messages=() if seen is None else seen.messages)
    page = _Page(SessionHistory("idle", told.timeline(), transcript), ASCII if ascii_only else UNICODE, columns or 80)
    console = Console(width=columns or 80, file=StringIO())
    for part in page.parts():
        for line in part.lines(console, columns):
            assert line.plain.isprintable()
            assert columns is None or line.cell_len <= columns
            assert not ascii_only or line.plain.isascii()

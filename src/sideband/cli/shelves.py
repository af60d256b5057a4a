"""The sessions of a store in a line each."""

from collections.abc import Sequence
from typing import Final

import msgspec

from sideband.core.errors import InvalidOption, shown
from sideband.core.state import SessionState
from sideband.runtime.inspecting import inspect_store
from sideband.store.inspection import Inspector, Shelf, Unreadable, restored

# So many sessions are named to somebody who has not said which one.
_NAMED: Final = 10


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands with a session; what is None could not be read."""

    session: str
    state: str
    turn: int | None = None
    pending: int | None = None
    events: int
    last_sequence: int
    last_event: str

    def cells(self) -> tuple[str, ...]:
        """As a row of a table."""
        numbers = (self.turn, self.pending, self.events, self.last_sequence)
        return (
            self.session,
            self.state,
            *("-" if number is None else f"{number:,}" for number in numbers),
            self.last_event,
        )


def summaries(store_url: str) -> Sequence[Summary]:
    """All of them, by name."""
    with inspect_store(store_url) as store:
        return [_summary(store, shelf) for shelf in store.shelves()]


def shelf_of(store: Inspector, name: str | None) -> Shelf:
    """The session of this name, or (None) the only one."""
    shelves = store.shelves()
    if not shelves:
        raise InvalidOption(f"there is no session in {store.place}", field="session")
    for shelf in shelves:
        if shelf.session_id == name or (name is None and len(shelves) == 1):
            return shelf
    more = f" and {len(shelves) - _NAMED:,} more" if len(shelves) > _NAMED else ""
    known = f"{', '.join(shown(shelf.session_id) for shelf in shelves[:_NAMED])}{more}"
    if name is None:
        raise InvalidOption(f"say which session: --session NAME; {store.place} holds {known}", field="session")
    raise InvalidOption(f"there is no session {shown(name)} in {store.place}, which holds {known}", field="session")


def _summary(store: Inspector, shelf: Shelf) -> Summary:
    try:
        state = restored(store, shelf)
    except Unreadable:
        known: dict[str, int] = {}
        word = "damaged"
    else:
        known = {"turn": state.live.turn, "pending": state.inbox.count() + len(state.live)}
        word = _word(state, shelf)
    return Summary(
        session=shelf.session_id,
        state=word,
        events=shelf.events,
        last_sequence=shelf.last or shelf.snapshot_at,
        last_event=shelf.last_word,
        **known,
    )


def _word(state: SessionState, shelf: Shelf) -> str:
    if state.closed:
        return "closed"
    is_attended = shelf.lease is not None and shelf.lease.is_good
    if state.running:
        return "running" if is_attended else "left"
    return "idle"

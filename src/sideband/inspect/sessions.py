"""Open a store for inspection, and show its sessions and how their reminders ended."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.errors import InvalidOption, StoreRefused, shown
from sideband.core.events import AuditRecorded, Deduped, Dropped, Event, Expired, Fired, Revoked
from sideband.core.state import SessionState
from sideband.store.inspector import Inspector, StoredSession, UnreadableSession, restored

# An error message names at most this many sessions.
_NAMED: Final = 10


def inspect_store(url: str) -> AbstractContextManager[Inspector]:
    """Open a read-only view of the store at this address, as it is on entry; `StoreRefused` if there is no store."""
    from sideband.runtime.store import kind_of  # noqa: PLC0415 - the help of a command does not need it

    if url == "memory:":
        raise InvalidOption(
            "a store in memory cannot be inspected, because it exists only in its own process", field="url", value=url
        )
    return _OPENERS[kind_of(url, _OPENERS)](url)


# Each function imports its own kind of store: the other need not be loaded, or even be installed. The runtime is imported
# when a store is opened, so that the help of a command appears fast.


def _sqlite(url: str) -> AbstractContextManager[Inspector]:
    from sideband.runtime.store import sqlite_path  # noqa: PLC0415 - see above
    from sideband.store.sqlite.inspector import inspect_sqlite  # noqa: PLC0415 - see above

    return inspect_sqlite(sqlite_path(url))


def _postgres(url: str) -> AbstractContextManager[Inspector]:
    from sideband.runtime.store import NEEDS_PSYCOPG  # noqa: PLC0415 - see above

    try:
        from sideband.store.postgres.inspector import inspect_postgres  # noqa: PLC0415 - see above
    except ImportError as error:
        raise StoreRefused(NEEDS_PSYCOPG) from error
    return inspect_postgres(url)


_OPENERS: Final[Mapping[str, Callable[[str], AbstractContextManager[Inspector]]]] = MappingProxyType(
    {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
)


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a session; `turn` and `pending` are None if the session cannot be read."""

    session: str
    state: str
    turn: int | None = None
    pending: int | None = None
    events: int
    last_sequence: int
    last_event: str

    def cells(self) -> tuple[str, ...]:
        """The cells of a table row."""
        numbers = (self.turn, self.pending, self.events, self.last_sequence)
        return (
            self.session,
            self.state,
            *("-" if number is None else f"{number:,}" for number in numbers),
            self.last_event,
        )


def summaries(store_url: str) -> Sequence[SessionSummary]:
    """Every session of the store, sorted by name."""
    with inspect_store(store_url) as store:
        return [_summary(store, stored) for stored in listed(store)]


def listed(store: Inspector) -> list[StoredSession]:
    """The sessions that exist, sorted by name; a store also holds traces of deleted sessions."""
    return [stored for stored in store.sessions() if stored.begun]


def stored_session(store: Inspector, name: str | None) -> StoredSession:
    """The session of this name (None: the only session); raises `InvalidOption` with the names if it is not there."""
    sessions = listed(store)
    if not sessions:
        raise InvalidOption(f"there is no session in {store.place}", field="session")
    for stored in sessions:
        if stored.session_id == name or (name is None and len(sessions) == 1):
            return stored
    more = f" and {len(sessions) - _NAMED:,} more" if len(sessions) > _NAMED else ""
    known = f"{', '.join(shown(stored.session_id) for stored in sessions[:_NAMED])}{more}"
    if name is None:
        raise InvalidOption(f"choose a session with --session NAME; {store.place} holds {known}", field="session")
    raise InvalidOption(f"there is no session {shown(name)} in {store.place}, which holds {known}", field="session")


def _summary(store: Inspector, stored: StoredSession) -> SessionSummary:
    try:
        state = restored(store, stored)
    except UnreadableSession:
        known: dict[str, int] = {}
        word = "damaged"
    else:
        known = {"turn": state.live.turn, "pending": len(state.inbox) + len(state.live)}
        word = _word(state, stored)
    return SessionSummary(
        session=stored.session_id,
        state=word,
        events=stored.events,
        last_sequence=stored.last or stored.snapshot_at,
        last_event=stored.last_word,
        **known,
    )


def _word(state: SessionState, stored: StoredSession) -> str:
    if state.closed:
        return "closed"
    is_attended = stored.lease is not None and stored.lease.is_good
    if state.running:
        return "running" if is_attended else "left"
    return "idle"


class ReceiptRow(NamedTuple):
    """In which turns a reminder was shown, and how it ended; exactly one way once its session is closed."""

    label: str
    turns: tuple[int, ...]
    endings: tuple[str, ...]


def receipts(labels: Mapping[str, str], journal: Sequence[Event]) -> list[ReceiptRow]:
    """One receipt for each reminder; `labels` maps reminder ids to the names to show."""
    return [
        ReceiptRow(
            label,
            tuple(event.turn for event in journal if isinstance(event, Fired) and event.reminder_id == reminder_id),
            tuple(_endings(reminder_id, journal)),
        )
        for reminder_id, label in labels.items()
    ]


def _endings(reminder_id: str, journal: Sequence[Event]) -> Iterator[str]:
    for event in journal:
        match event:
            case Expired(reminder_id=gone, reason=reason) if gone == reminder_id:
                yield f"expired ({reason.value})"
            case Dropped(reminder_id=gone, reason=why) if gone == reminder_id:
                yield f"dropped ({why.value})"
            case Deduped(replaced_id=gone) if gone == reminder_id:
                yield "deduped"
            case Revoked(reminder_id=gone) if gone == reminder_id:
                yield "revoked"
            case AuditRecorded(reminder=reminder) if reminder.id == reminder_id:
                yield "audit_recorded"
            case _:
                pass

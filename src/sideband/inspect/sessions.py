"""Open a store for inspection, find its sessions, and show their state."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.errors import InvalidOption, StoreRefused, shown
from sideband.core.events import Closed
from sideband.core.state import SessionState
from sideband.inspect.report import CommandError, printable
from sideband.store.codec import WORDS
from sideband.store.inspector import Inspector, StoredSession, UnreadableSession, restored

# An error lists at most this many sessions.
LISTED: Final = 20
# An error about an unknown id names at most this many similar ones.
NEAR: Final = 5
# The records that say what a session is about; the first that a session has is shown.
_NAMES: Final = ("title", "agent")


def inspect_store(url: str) -> AbstractContextManager[Inspector]:
    """Open a read-only view of the store at this address, as it is on entry; `StoreRefused` if there is no store."""
    return _OPENERS[store_kind(url)](url)


def store_kind(url: str) -> str:
    """The scheme of the address of a store that a command can reach; an error quotes no password of the address."""
    if url == "memory:":
        raise InvalidOption(
            "a store in memory cannot be inspected, because it exists only in its own process", field="url", value=url
        )
    scheme, slashes, _ = url.partition("://")
    if slashes and scheme in _OPENERS:
        return scheme
    # A path alone is the likely mistake; other text may be anything.
    path = url if url.strip() and ":" not in url else "sideband.db"
    raise InvalidOption(
        f"{shown(f'{scheme}://...' if slashes else url)} is not the URL of a store; "
        f"write {shown(f'sqlite:///{path}')} or 'postgresql://host/name'",
        field="url",
    )


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


# Listing sessions.


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a session; `turn` and `pending` are None if the session cannot be read.

    `about` is the record `title` or else `agent` of the session, and `changed` the time of its last event; both are None
    if the store does not have them.
    """

    session: str
    state: str
    turn: int | None = None
    pending: int | None = None
    events: int
    last_sequence: int
    last_event: str
    changed: str | None = None
    about: str | None = None

    def cells(self) -> tuple[str, ...]:
        """The cells of a table row."""
        numbers = (self.turn, self.pending, self.events, self.last_sequence)
        return (
            self.session,
            self.state,
            *("-" if number is None else f"{number:,}" for number in numbers),
            self.last_event,
            self.changed or "-",
            self.about or "",
        )

    def brief(self) -> str:
        """The session on one line, for an error that asks to choose one."""
        known = (self.session, self.state, self.changed and f"changed {self.changed}", self.about)
        return printable("  ".join(word for word in known if word))


def summaries(store_url: str) -> Sequence[SessionSummary]:
    """Every session of the store, sorted by name."""
    with inspect_store(store_url) as store:
        return [_summary(store, stored) for stored in listed(store)]


def listed(store: Inspector) -> list[StoredSession]:
    """The sessions that exist, sorted by name; a store also holds traces of deleted sessions."""
    return [stored for stored in store.sessions() if stored.begun]


def _summary(store: Inspector, stored: StoredSession) -> SessionSummary:
    try:
        state = restored(store, stored)
    except UnreadableSession:
        known: dict[str, int] = {}
        word = "damaged"
    else:
        known = {"turn": state.live.turn, "pending": len(state.inbox) + len(state.live)}
        word = state_word(state, stored)
    return SessionSummary(
        session=stored.session_id,
        state=word,
        events=stored.events,
        last_sequence=_last(stored),
        last_event=stored.last_word,
        changed=_changed(store, stored),
        about=_about(store, stored),
        **known,
    )


def state_word(state: SessionState, stored: StoredSession) -> str:
    """`closed`, `running`, `left` if the process that ran it has died, or `idle`."""
    if state.closed:
        return "closed"
    is_attended = stored.lease is not None and stored.lease.is_good
    if state.running:
        return "running" if is_attended else "left"
    return "idle"


def _last(stored: StoredSession) -> int:
    return stored.last or stored.snapshot_at


def _changed(store: Inspector, stored: StoredSession) -> str | None:
    from sideband.runtime.system import moment  # noqa: PLC0415 - the help of a command does not need it

    last = next(store.entries(stored.session_id, after=stored.last - 1), None) if stored.last else None
    time = stored.begun_at if last is None else last.time
    return moment(time, timespec="seconds") if time else None


def _about(store: Inspector, stored: StoredSession) -> str | None:
    records = _records(store, stored)
    return next((value for name in _NAMES if isinstance(value := records.get(name), str)), None)


def _records(store: Inspector, stored: StoredSession) -> Mapping[str, Any]:
    try:
        records: dict[str, Any] = msgspec.json.decode(store.records(stored.session_id).body)
    except msgspec.DecodeError:
        # A damaged list of sessions; `doctor --verify` reports it.
        return {}
    return records


# Finding one session.


def stored_session(store: Inspector, name: str | None) -> StoredSession:
    """The session of this name; raises `CommandError` if it is not there.

    None is the only open session. Those of sub-agents count only if no other one is open, because they stay open when
    the sub-agent has ended.
    """
    sessions = listed(store)
    if name is None:
        return _only_open(store, sessions)
    for stored in sessions:
        if stored.session_id == name:
            return stored
    raise _unknown(store, sessions, name)


def _only_open(store: Inspector, sessions: Sequence[StoredSession]) -> StoredSession:
    if not sessions:
        raise CommandError(f"there is no session in {store.place}")
    newest = _newest_first(sessions)
    # One more than is listed, to know whether there are more.
    opened = [*islice(_open(store, newest, workers=False), LISTED + 1)] or [
        *islice(_open(store, newest, workers=True), LISTED + 1)
    ]
    if len(opened) == 1:
        return opened[0]
    if opened:
        raise CommandError(
            f"several sessions of {store.place} are open; choose one with --to ID:", _briefs(store, opened)
        )
    raise CommandError(
        f"no session of {store.place} is open; choose a closed one with --to ID:", _briefs(store, newest)
    )


def _open(store: Inspector, sessions: Iterable[StoredSession], *, workers: bool) -> Iterator[StoredSession]:
    """Those that are open and belong to a sub-agent, or do not."""
    from sideband.runtime.workers import WORKER_RECORD  # noqa: PLC0415 - the help of a command does not need it

    for stored in sessions:
        if (WORKER_RECORD in _records(store, stored)) is workers and not _is_closed(store, stored):
            yield stored


def _is_closed(store: Inspector, stored: StoredSession) -> bool:
    """Whether the session is closed; one that cannot be read counts as open, because it may be meant."""
    # Usually the last event tells, so that a store with many closed sessions is not read as a whole.
    if stored.last_word == WORDS[Closed]:
        return True
    try:
        return restored(store, stored).closed
    except UnreadableSession:
        return False


def _unknown(store: Inspector, sessions: Sequence[StoredSession], name: str) -> CommandError:
    what = f"there is no session {shown(name)} in {store.place}"
    if not sessions:
        return CommandError(f"{what}, which has no sessions")
    by_name = {stored.session_id: stored for stored in _newest_first(sessions)}
    # Part of an id is a likely mistake too, because ids are long.
    alike = [other for other in by_name if name and name in other]
    near = [*dict.fromkeys([*alike, *difflib.get_close_matches(name, by_name, n=NEAR)])][:NEAR]
    if near:
        return CommandError(f"{what}; similar ids are:", _briefs(store, [by_name[other] for other in near]))
    return CommandError(f"{what}, which has:", _briefs(store, [*by_name.values()]))


def _newest_first(sessions: Sequence[StoredSession]) -> list[StoredSession]:
    return sorted(sessions, key=_last, reverse=True)


def _briefs(store: Inspector, sessions: Sequence[StoredSession]) -> list[str]:
    lines = [_summary(store, stored).brief() for stored in sessions[:LISTED]]
    return lines if len(sessions) <= LISTED else [*lines, "..."]

"""Reading a PostgreSQL store: sessions, their list and pages of the journal, each in one statement: from one moment."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sideband.core.errors import CursorExpired, StoreDamaged
from sideband.ports import Logged, SessionEntry
from sideband.store.codec import checksum, decode_event, words_of
from sideband.store.feed import PAGE_EVENTS, EventFilter, Span
from sideband.store.postgres.connection import Connection
from sideband.store.postgres.schema import damaged
from sideband.store.replica import Loaded
from sideband.store.tables import read_entry

# The part of a row in `_LOAD`: the counter, the snapshot, or (2) an event after it.
_COUNTER: Final = 0
_SNAPSHOT: Final = 1
_LOAD: Final = """
SELECT 0 AS part, last AS sequence, NULL::bigint AS checksum, NULL::bytea AS body, 0::bigint AS time
FROM sideband.counter
UNION ALL
SELECT 1, sequence, checksum, body, 0 FROM sideband.snapshot WHERE session_id = %(session)s
UNION ALL
SELECT 2, sequence, checksum, body, time FROM sideband.journal
WHERE session_id = %(session)s
AND sequence > coalesce((SELECT sequence FROM sideband.snapshot WHERE session_id = %(session)s), 0)
ORDER BY part, sequence
"""

# The last sequence, pruning and lease of one session, and its events after a sequence.
_SINCE: Final = """
SELECT counter.last, coalesce(held.pruned_through, 0), coalesce(held.attended, false),
    entry.sequence, entry.session_id, entry.checksum, entry.body, entry.time
FROM sideband.counter
LEFT JOIN (
    SELECT pruned_through, expires_at > clock_timestamp() AS attended FROM sideband.session
    WHERE session_id = %(session)s
) AS held ON true
LEFT JOIN LATERAL (
    SELECT sequence, session_id, checksum, body, time FROM sideband.journal
    WHERE session_id = %(session)s AND sequence > %(after)s
) AS entry ON true
ORDER BY entry.sequence
"""

# Conditions are left out if they are not needed; one that is always true would keep an index from being used.
_OF_SESSIONS: Final = "AND session_id = ANY(%(sessions)s)"
_OF_WORDS: Final = "AND word = ANY(%(words)s)"
_PRUNED: Final = "SELECT session_id FROM sideband.session WHERE pruned_through > 0 AND pruned_through > %(after)s"
_PAGE: Final = """
SELECT counter.last, pruning.pruned_through,
    entry.sequence, entry.session_id, entry.checksum, entry.body, entry.time
FROM sideband.counter
CROSS JOIN (
    SELECT coalesce(max(pruned_through), 0) AS pruned_through FROM sideband.session WHERE pruned_through > 0 {sessions}
) AS pruning
LEFT JOIN LATERAL (
    SELECT sequence, session_id, checksum, body, time FROM sideband.journal
    WHERE sequence > %(after)s AND sequence <= %(until)s {sessions} {words}
    ORDER BY sequence LIMIT %(most)s
) AS entry ON true
ORDER BY entry.sequence
"""
_ENTRIES: Final = """
SELECT session.session_id, session.begun, session.begun_at,
    coalesce(
        (SELECT time FROM sideband.journal WHERE journal.session_id = session.session_id ORDER BY sequence DESC LIMIT 1),
        session.changed_at
    ),
    session.records
FROM sideband.session
WHERE session.begun > 0
"""
_OF_SESSION: Final = f"{_ENTRIES} AND session.session_id = %(session)s"
_WITH_RECORD: Final = """
AND session.session_id IN (SELECT session_id FROM sideband.record WHERE name = %(name_{0})s AND key = %(key_{0})s)
"""
# The largest bigint, as an upper bound that excludes no row.
_END: Final = 2**63 - 1


class JournalPage(NamedTuple):
    """A page of the journal, with the last sequence of the store and the last pruned one of the requested sessions."""

    last: int
    pruned_through: int
    entries: Sequence[Logged]

    @property
    def is_full(self) -> bool:
        return len(self.entries) == PAGE_EVENTS


class SinceThen(NamedTuple):
    """The events of one session after a sequence, with the last sequence of the store, and pruning and lease of the session."""

    last: int
    pruned_through: int
    attended: bool
    entries: Sequence[Logged]


class DamagedRow(StoreDamaged):
    """A row of one session is damaged; the other sessions can be read."""

    def __init__(self, session_id: str, why: StoreDamaged) -> None:
        super().__init__(str(why))
        self.session_id = session_id


def logged(sequence: int, session_id: str, expected: int, body: bytes, time: int, *, place: str) -> Logged:
    """Check and decode a row of the journal."""
    if row_sum(session_id, body, time) != expected:
        raise DamagedRow(session_id, damaged(place, f"row {sequence} of the journal was changed"))
    try:
        event = decode_event(body)
    except ValueError as error:
        why = damaged(place, f"row {sequence} of the journal is not an event: {error}")
        raise DamagedRow(session_id, why) from error
    return Logged(sequence=sequence, session_id=session_id, event=event, time=time)


def row_sum(session_id: str, body: bytes, time: int = 0) -> int:
    """The checksum of a row, without its sequence, which is not known before the server has written the row."""
    return checksum(0, session_id, body, time)


async def load(connection: Connection, session_id: str, *, place: str) -> Loaded:
    cursor = await connection.execute(_LOAD, {"session": session_id}, binary=True)
    at, snapshot, size = 0, None, 0
    tail: list[Logged] = []
    for part, sequence, expected, body, time in await cursor.fetchall():
        if part == _COUNTER:
            at = sequence
        elif part == _SNAPSHOT:
            if checksum(sequence, session_id, body) != expected:
                raise damaged(place, f"the snapshot of session {session_id!r} was changed")
            snapshot = body
        else:
            size += len(body)
            tail.append(logged(sequence, session_id, expected, body, time, place=place))
    return Loaded(snapshot, tail, size, at)


async def page(
    connection: Connection,
    span: Span,
    *,
    place: str,
    sessions: Iterable[str] | None = None,
    words: Iterable[str] | None = None,
) -> JournalPage:
    """The first `PAGE_EVENTS` events of a span, of these sessions and words (None: of all)."""
    query = _PAGE.format(
        sessions="" if sessions is None else _OF_SESSIONS,
        words="" if words is None else _OF_WORDS,
    )
    asked: dict[str, Any] = {
        "after": span.after,
        "until": _END if span.until is None else span.until,
        "most": PAGE_EVENTS,
        "sessions": None if sessions is None else list(sessions),
        "words": None if words is None else list(words),
    }
    rows = await (await connection.execute(query.encode(), asked, binary=True)).fetchall()
    last, pruned_through = rows[0][:2]
    entries = [logged(*row[2:], place=place) for row in rows if row[2] is not None]
    return JournalPage(last, pruned_through, entries)


async def pruned_since(connection: Connection, after: int, *, sessions: Iterable[str] | None) -> Collection[str]:
    """The sessions (None: of all) of which events after a sequence were pruned."""
    query = f"{_PRUNED} {'' if sessions is None else _OF_SESSIONS}"
    asked = {"after": after, "sessions": None if sessions is None else list(sessions)}
    rows = await (await connection.execute(query.encode(), asked)).fetchall()
    return frozenset(session_id for (session_id,) in rows)


async def wanted_page(connection: Connection, wanted: EventFilter, span: Span, *, place: str) -> Sequence[Logged]:
    """The first page of matching events of a span; `CursorExpired` if some of them were pruned."""
    sessions = None if wanted.session_id is None else (wanted.session_id,)
    words = words_of(wanted.kind_prefix) if wanted.kind_prefix else None
    found = await page(connection, span, place=place, sessions=sessions, words=words)
    if span.after < found.pruned_through:
        raise CursorExpired(span.after, found.pruned_through)
    return found.entries


async def since(connection: Connection, session_id: str, after: int, *, place: str) -> SinceThen:
    cursor = await connection.execute(_SINCE, {"session": session_id, "after": after}, binary=True)
    rows = await cursor.fetchall()
    last, pruned_through, attended = rows[0][:3]
    found = [logged(*row[3:], place=place) for row in rows if row[3] is not None]
    return SinceThen(last, pruned_through, attended, found)


async def entry(connection: Connection, session_id: str, *, place: str) -> SessionEntry | None:
    """One session of the list; None if it is not listed."""
    row = await (await connection.execute(_OF_SESSION, {"session": session_id}, binary=True)).fetchone()
    return None if row is None else _entry(row, place)


def _entry(row: object, place: str) -> SessionEntry:
    try:
        return read_entry(row)
    except ValueError as error:
        raise damaged(place, f"a row of the table session was changed: {error}") from error


async def entries(
    connection: Connection, *, records: Mapping[str, str], before: int | None, limit: int, place: str
) -> Sequence[SessionEntry]:
    """The newest sessions that were begun before a sequence (None: all) and have all these records."""
    asked: dict[str, Any] = {"before": _END if before is None else before, "limit": limit}
    conditions = ["AND session.begun < %(before)s"]
    for number, (name, value) in enumerate(records.items()):
        conditions.append(_WITH_RECORD.format(number))
        asked |= {f"name_{number}": name, f"key_{number}": value}
    query = f"{_ENTRIES} {' '.join(conditions)} ORDER BY session.begun DESC LIMIT %(limit)s"
    rows = await (await connection.execute(query.encode(), asked, binary=True)).fetchall()
    return [_entry(row, place) for row in rows]


async def last_sequence(connection: Connection) -> int:
    row = await (await connection.execute("SELECT last FROM sideband.counter")).fetchone()
    last: int = 0 if row is None else row[0]
    return last

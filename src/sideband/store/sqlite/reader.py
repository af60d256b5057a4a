"""Reading a SQLite store: sessions and their list, receipts, and pages of the journal. Every row is checked."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from sideband.core.errors import CursorExpired
from sideband.core.inbox import Receipt
from sideband.ports import Logged, SessionEntry
from sideband.store.codec import decode_event, decode_receipt, is_as_written, receipt_sum, words_of
from sideband.store.feed import PAGE_EVENTS, EventFilter, Gap, Span
from sideband.store.replica import Loaded
from sideband.store.sqlite.schema import damaged
from sideband.store.tables import read_entry

_COLUMNS: Final = "SELECT sequence, session_id, checksum, body, time FROM journal"
_ENTRIES: Final = """
SELECT session.session_id, session.begun, session.begun_at,
    coalesce(
        (SELECT time FROM journal WHERE journal.session_id = session.session_id ORDER BY sequence DESC LIMIT 1),
        session.changed_at
    ),
    session.records
FROM session
"""
_WITH_RECORD: Final = """
JOIN record AS record_{0}
ON record_{0}.session_id = session.session_id AND record_{0}.name = ? AND record_{0}.key = ?
"""
# The largest integer of SQLite, as an upper bound that excludes no row.
_END: Final = 2**63 - 1


class _SnapshotRow(NamedTuple):
    """A snapshot (None if there is none), which covers its session up to `sequence`."""

    sequence: int = 0
    body: bytes | None = None


class News(NamedTuple):
    """Events in the order of their sequence; `gap` says which are missing (None: none)."""

    events: Sequence[Logged]
    gap: Gap | None


class SqliteReader:
    """Reads through one connection; `path` is for errors."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def last(self) -> int:
        """The last sequence of the journal."""
        last: int = self._connection.execute("SELECT coalesce(max(sequence), 0) FROM journal").get
        return last

    def load(self, session_id: str) -> Loaded:
        """Read a session, in one transaction."""
        with self._connection:
            kept = self._kept(session_id)
            at, size, tail = self.last(), 0, []
            last = kept.sequence
            for row in self._rows_after(session_id, last):
                if row[0] <= last:
                    raise damaged(self._path, f"row {row[0]} of the journal is listed twice")
                last = row[0]
                tail.append(self._logged(row))
                size += len(row[3])
        return Loaded(kept.body, tail, size, at)

    def tail(self, session_id: str, after: int) -> Sequence[Logged]:
        """The events of a session after a sequence."""
        return [self._logged(row) for row in self._rows_after(session_id, after)]

    def _rows_after(self, session_id: str, after: int) -> apsw.Cursor:
        return self._connection.execute(
            f"{_COLUMNS} WHERE session_id = ? AND sequence > ? ORDER BY sequence", (session_id, after)
        )

    def _kept(self, session_id: str) -> _SnapshotRow:
        row = self._connection.execute(
            "SELECT sequence, checksum, body FROM snapshot WHERE session_id = ?", (session_id,)
        ).get
        if row is None:
            return _SnapshotRow()
        sequence, expected, body = row
        if not is_as_written(sequence, session_id, expected, body):
            raise damaged(self._path, f"the snapshot of session {session_id!r} was changed")
        return _SnapshotRow(sequence, body)

    def news(self, after: int) -> News:
        """The first page of events after a sequence, of all sessions, and the sessions of which some were pruned."""
        with self._connection:
            rows = self._connection.execute(
                f"{_COLUMNS} WHERE sequence > ? ORDER BY sequence LIMIT ?", (after, PAGE_EVENTS)
            )
            events = [self._logged(row) for row in rows]
            for expected, logged in enumerate(events, after + 1):
                if logged.sequence != expected:
                    return News(events, self._explained(expected, after))
        return News(events, None)

    def _explained(self, missing: int, after: int) -> Gap:
        # A process that has not read for long may find that events were pruned meanwhile.
        pruned = self.pruned_through(None)
        if missing > pruned:
            raise damaged(self._path, f"row {missing} of the journal is missing")
        rows: Iterable[Any] = self._connection.execute(
            "SELECT session_id FROM snapshot WHERE pruned_through > ?", (after,)
        )
        return Gap(CursorExpired(after, pruned), frozenset(name for (name,) in rows))

    def page(self, wanted: EventFilter, span: Span) -> Sequence[Logged]:
        """The first page of matching events of a span; `CursorExpired` if some of them were pruned."""
        rows: Iterable[Any]
        conditions = ["sequence > ?", "sequence <= ?"]
        bindings: list[int | str] = [span.after, _END if span.until is None else span.until]
        if wanted.session_id is not None:
            conditions.append("session_id = ?")
            bindings.append(wanted.session_id)
        if wanted.kind_prefix:
            words = words_of(wanted.kind_prefix)
            conditions.append(f"word IN ({', '.join('?' * len(words))})")
            bindings.extend(words)
        with self._connection:
            pruned = self.pruned_through(wanted.session_id)
            if span.after < pruned:
                raise CursorExpired(span.after, pruned)
            rows = self._connection.execute(
                f"{_COLUMNS} WHERE {' AND '.join(conditions)} ORDER BY sequence LIMIT ?", (*bindings, PAGE_EVENTS)
            ).fetchall()
        return [self._logged(row) for row in rows]

    def pruned_through(self, session_id: str | None) -> int:
        """The last sequence that was pruned, of one session or (None) of all."""
        query = "SELECT coalesce(max(pruned_through), 0) FROM snapshot"
        if session_id is None:
            pruned = self._connection.execute(query).get
        else:
            pruned = self._connection.execute(f"{query} WHERE session_id = ?", (session_id,)).get
        if not isinstance(pruned, int):
            raise damaged(self._path, "pruned_through of a snapshot was changed")
        return pruned

    # The list of sessions, and receipts.

    def entry(self, session_id: str) -> SessionEntry | None:
        """One session of the list; None if it is not listed."""
        row = self._connection.execute(f"{_ENTRIES} WHERE session.session_id = ?", (session_id,)).fetchone()
        return None if row is None else self._entry(row)

    def entries(self, *, records: Mapping[str, str], before: int | None, limit: int) -> Sequence[SessionEntry]:
        """The newest sessions that were begun before a sequence (None: all) and have all these records."""
        joins = "".join(_WITH_RECORD.format(place) for place in range(len(records)))
        wanted = [text for pair in records.items() for text in pair]
        rows = self._connection.execute(
            f"{_ENTRIES} {joins} WHERE session.begun < ? ORDER BY session.begun DESC LIMIT ?",
            (*wanted, _END if before is None else before, limit),
        )
        return [self._entry(row) for row in rows]

    def _entry(self, row: object) -> SessionEntry:
        try:
            return read_entry(row)
        except ValueError as error:
            raise damaged(self._path, f"a row of the table session was changed: {error}") from error

    def receipts(self, session_id: str, caller_ids: Sequence[str]) -> Mapping[str, Receipt]:
        """The receipts of these ids; an id that was not used is left out."""
        found = {}
        for caller_id in caller_ids:
            row = self._connection.execute(
                "SELECT checksum, body FROM receipt WHERE session_id = ? AND caller_id = ?", (session_id, caller_id)
            ).fetchone()
            if row is not None:
                found[caller_id] = self._receipt(session_id, caller_id, *row)
        return found

    def _receipt(self, session_id: str, caller_id: str, expected: object, body: object) -> Receipt:
        if not isinstance(body, bytes) or receipt_sum(session_id, caller_id, body) != expected:
            raise damaged(self._path, f"the receipt {caller_id!r} of session {session_id!r} was changed")
        return decode_receipt(body)

    def _logged(self, row: tuple[int, str, int, bytes, int]) -> Logged:
        sequence, session_id, expected, body, time = row
        if not is_as_written(sequence, session_id, expected, body, time):
            raise damaged(self._path, f"row {sequence} of the journal was changed")
        try:
            event = decode_event(body)
        except ValueError as error:
            raise damaged(self._path, f"row {sequence} of the journal is not an event: {error}") from error
        return Logged(sequence=sequence, session_id=session_id, event=event, time=time)

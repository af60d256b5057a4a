"""Reading a SQLite store: a session, a page of the journal, what others have written. Every row is checked."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import apsw

from sideband.core.failures import CursorExpired
from sideband.ports import Logged
from sideband.store.feed import PAGE_EVENTS, Span, Wanted
from sideband.store.records import is_as_written, read, words_of
from sideband.store.replica import Loaded
from sideband.store.sqlite.schema import damaged

_COLUMNS: Final = "SELECT sequence, session_id, checksum, body FROM journal"
# A row of a session whose entry in the index, right before or right behind the others, has the name of another. The key
# of a table has no collation; only with one does SQLite look for both at once, and not go through the whole session.
_MISNAMED: Final = """
SELECT beside.sequence
FROM (
    SELECT sequence, session_id FROM journal INDEXED BY journal_of_session
    WHERE (session_id, sequence) {side} (?1, ?2 COLLATE BINARY)
    ORDER BY session_id {order}, sequence {order} LIMIT 1
) AS beside
WHERE beside.session_id <> ?1
AND EXISTS (SELECT 1 FROM journal NOT INDEXED WHERE sequence = beside.sequence AND session_id = ?1)
"""
MISNAMED_BEFORE: Final = _MISNAMED.format(side="<=", order="DESC")
MISNAMED_BEHIND: Final = _MISNAMED.format(side=">", order="ASC")
# The largest number that SQLite has: there is no row behind it.
_END: Final = 2**63 - 1


class Kept(NamedTuple):
    """A snapshot and how far the journal of its session was pruned behind it."""

    sequence: int = 0
    pruned_through: int = 0
    body: bytes | None = None


class Library:
    """What one connection reads; `path` is what an error names."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def last(self) -> int:
        """The last sequence there is."""
        last: int = self._connection.execute("SELECT coalesce(max(sequence), 0) FROM journal").get
        return last

    def load(self, session_id: str) -> Loaded:
        """A session as it is now; in a transaction, so that all of it is of one moment."""
        with self._connection:
            kept = self._kept(session_id)
            at, size, tail = self.last(), 0, []
            last = kept.sequence
            for row in self._behind(session_id, last):
                if row[0] <= last:
                    raise damaged(self._path, f"row {row[0]} of the journal is listed twice")
                last = row[0]
                tail.append(self._logged(row))
                size += len(row[3])
            self._check_ends(session_id, kept.sequence, last)
        return Loaded(kept.body, kept.sequence, tail, size, at)

    def _check_ends(self, session_id: str, first: int, last: int) -> None:
        """Refuse a session of which the index has lost a row: it would be missing, and nobody told.

        An entry whose name was changed stands where it stood, and is taken for the end of the session.
        """
        for query, sequence in ((MISNAMED_BEFORE, first), (MISNAMED_BEHIND, last)):
            row = self._connection.execute(query, (session_id, sequence)).get
            if row is not None:
                raise damaged(self._path, f"row {row} of the journal is not listed for its session")

    def tail(self, session_id: str, after: int) -> Sequence[Logged]:
        """What a session has logged behind a sequence."""
        return [self._logged(row) for row in self._behind(session_id, after)]

    def _behind(self, session_id: str, after: int) -> apsw.Cursor:
        return self._connection.execute(
            f"{_COLUMNS} WHERE session_id = ? AND sequence > ? ORDER BY sequence", (session_id, after)
        )

    def _kept(self, session_id: str) -> Kept:
        row = self._connection.execute(
            "SELECT sequence, pruned_through, checksum, body FROM snapshot WHERE session_id = ?", (session_id,)
        ).get
        if row is None:
            return Kept()
        sequence, pruned_through, expected, body = row
        if not is_as_written(sequence, session_id, expected, body):
            raise damaged(self._path, f"the snapshot of session {session_id!r} was changed")
        return Kept(sequence, pruned_through, body)

    def news(self, after: int) -> Sequence[Logged]:
        """The next page of what was logged behind a sequence."""
        rows = self._connection.execute(
            f"{_COLUMNS} WHERE sequence > ? ORDER BY sequence LIMIT ?", (after, PAGE_EVENTS)
        )
        news = [self._logged(row) for row in rows]
        for expected, logged in enumerate(news, after + 1):
            if logged.sequence != expected:
                self._explain_gap(expected)
        return news

    def _explain_gap(self, missing: int) -> NoReturn:
        # Whoever has slept for very long may find that what it never read was pruned meanwhile.
        pruned = self.pruned_through(None)
        if missing <= pruned:
            raise CursorExpired(missing - 1, pruned)
        raise damaged(self._path, f"row {missing} of the journal is missing")

    def page(self, wanted: Wanted, span: Span) -> Sequence[Logged]:
        """The next page of what is wanted there; `CursorExpired` where a part of it was pruned."""
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
        """The last sequence that was pruned, of a session or (None) of all of them."""
        query = "SELECT coalesce(max(pruned_through), 0) FROM snapshot"
        if session_id is None:
            pruned = self._connection.execute(query).get
        else:
            pruned = self._connection.execute(f"{query} WHERE session_id = ?", (session_id,)).get
        if not isinstance(pruned, int):
            raise damaged(self._path, "how far the journal was pruned was changed")
        return pruned

    def _logged(self, row: tuple[int, str, int, bytes]) -> Logged:
        sequence, session_id, expected, body = row
        if not is_as_written(sequence, session_id, expected, body):
            raise damaged(self._path, f"row {sequence} of the journal was changed")
        try:
            event = read(body)
        except ValueError as error:
            raise damaged(self._path, f"row {sequence} of the journal is no event: {error}") from error
        return Logged(sequence=sequence, session_id=session_id, event=event)

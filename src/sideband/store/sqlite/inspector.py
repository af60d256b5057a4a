"""Read-only inspection of a store file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import apsw

from sideband.core.errors import StoreRefused
from sideband.store.codec import is_as_written, receipt_sum
from sideband.store.inspector import (
    JournalEntry,
    KeptReceipt,
    KeptRecords,
    KeptSnapshot,
    LeaseRow,
    Missing,
    StoredSession,
    stored_sessions,
    unexplained,
)
from sideband.store.settings import now_ms
from sideband.store.sqlite import file, schema
from sideband.store.sqlite.doorbell import directory_for, is_dead
from sideband.store.sqlite.file import connect
from sideband.store.sqlite.wal import has_torn_commit

BUSY_SECONDS: Final = 10.0
_COUNTED: Final = """
SELECT held.session_id, held.events, held.last, journal.word
FROM (SELECT session_id, count(*) AS events, max(sequence) AS last FROM journal GROUP BY session_id) AS held
JOIN journal ON journal.sequence = held.last
"""
_SNAPSHOTS: Final = "SELECT session_id, sequence, pruned_through FROM snapshot"
_BEGUN: Final = "SELECT session_id, begun, begun_at FROM session"
_LEASES: Final = "SELECT session_id, holder, token, expires_at, address FROM lease"
_GAPS: Final = """
SELECT before + 1, sequence - 1
FROM (SELECT sequence, lag(sequence, 1, 0) OVER (ORDER BY sequence) AS before FROM journal)
WHERE sequence > before + 1
"""


class SqliteInspector:
    """Inspects a file through its own, read-only connection; made by `inspect_sqlite`."""

    def __init__(self, path: Path, connection: apsw.Connection, *, now_ms: int) -> None:
        self._path = path
        self._connection = connection
        self._now_ms = now_ms

    @property
    def place(self) -> str:
        return str(self._path)

    def begin(self) -> Self:
        """Check that the file is a store of the current schema."""
        with self._explained():
            self._connection.pragma("query_only", "on")
            if self._connection.pragma("application_id") != schema.APPLICATION_ID:
                raise StoreRefused(f"{self._path} is a SQLite file, but not a store of Sideband")
            version = self._version()
            schema.refuse_newer(version, self._path)
            if version < schema.latest():
                raise StoreRefused(
                    f"{self._path} has tables of an older version; open it once with open_store() to migrate them"
                )
        return self

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except schema.UNREADABLE as error:
            raise schema.refusal(error, self._path) from error

    def _version(self) -> int:
        version: int = self._connection.pragma("user_version")
        return version

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        """Begin a read transaction, so that all reads see the same moment."""
        with self._explained():
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN")
            yield self._connection

    def facts(self) -> Mapping[str, int | str]:
        with self._reading() as connection:
            rows, last = connection.execute("SELECT count(*), coalesce(max(sequence), 0) FROM journal").get
            return {
                "file": self.place,
                "bytes": self._path.stat().st_size,
                "version of its tables": self._version(),
                "events": rows,
                "last sequence": last,
            }

    def faults(self) -> Iterable[str]:
        with self._explained():
            # The log cannot be checked inside a transaction.
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")
            try:
                report: list[Any] = [*self._connection.execute("PRAGMA integrity_check(20)")]
            except apsw.CorruptError as error:
                # The file is too damaged for the check itself.
                return [str(error)]
            # One result may have several lines, of which the first is a heading.
            lines = [line for (text,) in report for line in text.splitlines()]
            found = [line for line in lines if line != "ok" and not line.startswith("***")]
            if has_torn_commit(self._connection, self._log):
                found.append(f"a commit in {self._log.name} cannot be read, and later commits follow it")
        return found

    def missing(self) -> Sequence[Missing]:
        with self._reading() as connection:
            query = "SELECT coalesce(max(pruned_through), 0) FROM snapshot"
            ((pruned,),) = self._typed("snapshot", connection.execute(query), int)
            return unexplained(connection.execute(_GAPS), pruned_through=pruned)

    def sessions(self) -> Sequence[StoredSession]:
        with self._reading() as connection:
            snapshots = self._typed("snapshot", connection.execute(_SNAPSHOTS), str, int, int)
            leases = self._typed("lease", connection.execute(_LEASES), str, str, int, int, str)
            counted = self._typed("journal", connection.execute(_COUNTED), str, int, int, str)
            begun = self._typed("session", connection.execute(_BEGUN), str, int, int)
            return stored_sessions(
                counted,
                {name: sequence for name, sequence, _ in snapshots},
                {name: pruned for name, _, pruned in snapshots if pruned},
                {name: self._lease(*lease) for name, *lease in leases if lease[0]},
                {name: (first, first_at) for name, first, first_at in begun},
            )

    def _typed(self, table: str, rows: Iterable[Any], *types: type) -> list[Any]:
        """Check the types of the values, because SQLite does so only when it writes."""
        found = [*rows]
        if not all(isinstance(value, kind) for row in found for value, kind in zip(row, types, strict=True)):
            raise schema.damaged(self._path, f"a row of the table {table} was changed")
        return found

    def _lease(self, holder: str, token: int, until: int, address: str) -> LeaseRow:
        is_orphaned = is_dead(directory_for(self._path), address)
        return LeaseRow(holder, token, until, has_lapsed=until <= self._now_ms, is_orphaned=is_orphaned)

    def kept(self, session_id: str) -> KeptSnapshot | None:
        with self._reading() as connection:
            row = connection.execute(
                "SELECT sequence, checksum, body FROM snapshot WHERE session_id = ?", (session_id,)
            ).get
        if row is None:
            return None
        sequence, expected, body = row
        return KeptSnapshot(sequence, body, is_whole=is_as_written(sequence, session_id, expected, body))

    def entries(self, session_id: str, *, after: int = 0) -> Iterator[JournalEntry]:
        with self._reading() as connection:
            for sequence, word, expected, body, time in connection.execute(
                "SELECT sequence, word, checksum, body, time FROM journal "
                "WHERE session_id = ? AND sequence > ? ORDER BY sequence",
                (session_id, after),
            ):
                is_whole = is_as_written(sequence, session_id, expected, body, time)
                yield JournalEntry(sequence, word, body, is_whole, time)

    def records(self, session_id: str) -> KeptRecords:
        with self._reading() as connection:
            held = connection.execute("SELECT records FROM session WHERE session_id = ?", (session_id,)).get
            keys: Iterable[Any] = connection.execute("SELECT name, key FROM record WHERE session_id = ?", (session_id,))
            return KeptRecords("{}" if held is None else held, dict(keys))

    def receipts(self, session_id: str) -> Mapping[str, KeptReceipt]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT caller_id, checksum, body FROM receipt WHERE session_id = ?", (session_id,)
            )
            return {
                caller_id: KeptReceipt(
                    body, isinstance(body, bytes) and receipt_sum(session_id, caller_id, body) == expected
                )
                for caller_id, expected, body in rows
            }

    @property
    def _log(self) -> Path:
        return Path(f"{self._path}{file.WAL}")

    def close(self) -> None:
        # Closing the last connection checkpoints the log into the file. Inspection changes nothing, so that is turned off.
        is_used = self._log.exists() and self._log.stat().st_size > 0
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(is_used))
        self._connection.close(force=True)


@contextmanager
def inspect_sqlite(path: str) -> Iterator[SqliteInspector]:
    """Inspect a store file; a file that is missing or is not a store is refused."""
    place = file.place_of(path)
    if not place.exists():
        raise StoreRefused(
            f"there is no store: {place} does not exist. `sideband serve`, `sideband facts add` or a program with "
            "open_store() creates it; name another store with --store"
        )
    try:
        connection = connect(place, busy_seconds=BUSY_SECONDS)
    except apsw.Error as error:
        raise schema.refusal(error, place) from error
    inspector = SqliteInspector(place, connection, now_ms=now_ms())
    try:
        yield inspector.begin()
    finally:
        inspector.close()

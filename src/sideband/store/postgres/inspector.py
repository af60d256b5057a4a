"""Read-only inspection of a store in a database."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from sideband.core.errors import StoreError, StoreRefused, StoreUnavailable
from sideband.store.codec import checksum, receipt_sum
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
from sideband.store.postgres import schema
from sideband.store.postgres.connection import ServerAddress, address_of
from sideband.store.postgres.reader import row_sum

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_IS_THERE: Final = "SELECT to_regclass('sideband.version') IS NOT NULL"
_FACTS: Final = """
SELECT (SELECT version FROM sideband.version), count(*), coalesce(max(sequence), 0),
    (SELECT last FROM sideband.counter), pg_total_relation_size('sideband.journal')
FROM sideband.journal
"""
_COUNTED: Final = """
SELECT held.session_id, held.events, held.last, journal.word
FROM (SELECT session_id, count(*) AS events, max(sequence) AS last FROM sideband.journal GROUP BY session_id) AS held
JOIN sideband.journal ON journal.sequence = held.last
"""
_GAPS: Final = """
SELECT before + 1, sequence - 1
FROM (SELECT sequence, lag(sequence, 1, 0::bigint) OVER (ORDER BY sequence) AS before FROM sideband.journal) AS placed
WHERE sequence > before + 1 ORDER BY sequence
"""
_LEASES: Final = """
SELECT session_id, holder, token, (extract(epoch FROM expires_at) * 1000)::bigint, expires_at <= clock_timestamp()
FROM sideband.session WHERE holder <> ''
"""
_BEGUN: Final = "SELECT session_id, begun, begun_at FROM sideband.session WHERE begun > 0"
_ENTRIES: Final = """
SELECT sequence, word, checksum, body, time FROM sideband.journal
WHERE session_id = %s AND sequence > %s ORDER BY sequence
"""


class PostgresInspector:
    """Inspects a database in one read-only transaction; made by `inspect_postgres`."""

    def __init__(self, address: ServerAddress, connection: psycopg.Connection[Any]) -> None:
        self._address = address
        self._connection = connection

    @property
    def place(self) -> str:
        return self._address.shown

    def facts(self) -> Mapping[str, int | str]:
        version, rows, last, _, size = self._facts()
        return {
            "database": self.place,
            "bytes": size,
            "version of its tables": version,
            "events": rows,
            "last sequence": last,
        }

    def faults(self) -> Iterable[str]:
        _, _, last, counted, _ = self._facts()
        if counted != last:
            return [f"its counter says {counted}, and the last row of the journal is {last}"]
        return []

    def _facts(self) -> tuple[int, int, int, int, int]:
        (row,) = self._rows(_FACTS)
        version, rows, last, counted, size = row
        return version, rows, last, counted, size

    def missing(self) -> Sequence[Missing]:
        ((pruned,),) = self._rows("SELECT coalesce(max(pruned_through), 0) FROM sideband.session")
        return unexplained(self._rows(_GAPS), pruned_through=pruned)

    def sessions(self) -> Sequence[StoredSession]:
        return stored_sessions(
            self._rows(_COUNTED),
            dict(self._rows("SELECT session_id, sequence FROM sideband.snapshot")),
            dict(self._rows("SELECT session_id, pruned_through FROM sideband.session WHERE pruned_through > 0")),
            {row[0]: LeaseRow(*row[1:]) for row in self._rows(_LEASES)},
            {row[0]: (row[1], row[2]) for row in self._rows(_BEGUN)},
        )

    def kept(self, session_id: str) -> KeptSnapshot | None:
        rows = self._rows("SELECT sequence, checksum, body FROM sideband.snapshot WHERE session_id = %s", session_id)
        for sequence, expected, body in rows:
            return KeptSnapshot(sequence, body, is_whole=checksum(sequence, session_id, body) == expected)
        return None

    def entries(self, session_id: str, *, after: int = 0) -> Iterator[JournalEntry]:
        # A server-side cursor, so that a long journal is not loaded at once.
        with explained(self._address), self._connection.cursor(name="entries") as cursor:
            cursor.execute(_ENTRIES, (session_id, after))
            for sequence, word, expected, body, time in cursor:
                yield JournalEntry(sequence, word, body, row_sum(session_id, body, time) == expected, time)

    def records(self, session_id: str) -> KeptRecords:
        held = self._rows("SELECT records FROM sideband.session WHERE session_id = %s", session_id)
        keys = self._rows("SELECT name, key FROM sideband.record WHERE session_id = %s", session_id)
        return KeptRecords(held[0][0] if held else "{}", dict(keys))

    def receipts(self, session_id: str) -> Mapping[str, KeptReceipt]:
        rows = self._rows("SELECT caller_id, checksum, body FROM sideband.receipt WHERE session_id = %s", session_id)
        return {
            caller_id: KeptReceipt(body, receipt_sum(session_id, caller_id, body) == expected)
            for caller_id, expected, body in rows
        }

    def _rows(self, query: str, *values: object) -> list[Any]:
        with explained(self._address):
            return self._connection.execute(query.encode(), values or None).fetchall()

    def close(self) -> None:
        self._connection.close()


@contextmanager
def explained(address: ServerAddress) -> Iterator[None]:
    """Turns errors of PostgreSQL into `StoreError`."""
    try:
        yield
    except psycopg.Error as error:
        raise _refusal(error, address) from error


def _refusal(error: psycopg.Error, address: ServerAddress) -> StoreError:
    # The messages of libpq have several lines.
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return StoreUnavailable(f"{address.shown} cannot be used now: {what}")


@contextmanager
def inspect_postgres(url: str) -> Iterator[PostgresInspector]:
    """Inspect a database; one without a store is refused."""
    address = address_of(url)
    with explained(address):
        connection = psycopg.connect(autocommit=True, **address.parameters)
    inspector = PostgresInspector(address, connection)
    try:
        with explained(address):
            connection.execute(_BEGIN)
            _refuse_other(connection, address.shown)
        yield inspector
    finally:
        inspector.close()


def _refuse_other(connection: psycopg.Connection[Any], place: str) -> None:
    row = connection.execute(_IS_THERE).fetchone()
    if row is None or not row[0]:
        raise StoreRefused(
            f"there is no store in {place}; `sideband serve`, `sideband facts add` or a program with open_store() creates it"
        )
    found = connection.execute("SELECT version FROM sideband.version").fetchone()
    if found is None:
        raise schema.damaged(place, "the version of its tables is missing")
    schema.refuse_newer(found[0], place)
    if found[0] < schema.latest():
        raise StoreRefused(f"{place} has tables of an older version; open it once with open_store() to migrate them")

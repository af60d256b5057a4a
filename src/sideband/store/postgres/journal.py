"""The statements of one batch: locking and reading its sessions, writing its rows, and checking a lost commit."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import psycopg

from sideband.core.inbox import Receipt
from sideband.ports import Logged
from sideband.store.batch import Batch, Standing
from sideband.store.codec import decode_receipt, encode_receipt, receipt_sum
from sideband.store.postgres.connection import Connection
from sideband.store.postgres.reader import logged, row_sum
from sideband.store.postgres.schema import damaged, refuse_newer
from sideband.store.replica import Replica
from sideband.store.tables import SessionChanges

CHANNEL: Final = "sideband"
# The payload of a notification is limited; a longer session name is cut off, which is enough for a hint.
HINT_LETTERS: Final = 1_000

# Planned once for each connection.
_PREPARE: Final = """
PREPARE sideband_mine (text) AS
SELECT writer_id FROM sideband.writer WHERE writer_id = $1 FOR UPDATE;

PREPARE sideband_sessions (text[]) AS
SELECT session_id, token, expires_at > clock_timestamp(), pruned_through,
    (SELECT last FROM sideband.counter), (SELECT version FROM sideband.version)
FROM sideband.session WHERE session_id = ANY($1) ORDER BY session_id FOR UPDATE;

PREPARE sideband_news (text[], bigint[]) AS
SELECT entry.sequence, entry.session_id, entry.checksum, entry.body, entry.time
FROM unnest($1, $2) AS known (session_id, at)
CROSS JOIN LATERAL (
    SELECT sequence, session_id, checksum, body, time FROM sideband.journal
    WHERE journal.session_id = known.session_id AND journal.sequence > known.at
) AS entry
ORDER BY entry.sequence;

PREPARE sideband_receipts (text[], text[]) AS
SELECT receipt.session_id, receipt.caller_id, receipt.checksum, receipt.body
FROM unnest($1, $2) AS asked (session_id, caller_id)
JOIN sideband.receipt ON receipt.session_id = asked.session_id AND receipt.caller_id = asked.caller_id;

PREPARE sideband_empty (text[]) AS
WITH records AS (
    DELETE FROM sideband.record WHERE session_id = ANY($1)
), receipts AS (
    DELETE FROM sideband.receipt WHERE session_id = ANY($1)
)
UPDATE sideband.session SET begun = 0, begun_at = 0, changed_at = 0, records = '{}' WHERE session_id = ANY($1);

PREPARE sideband_unrecord (jsonb) AS
DELETE FROM sideband.record USING jsonb_array_elements($1) AS given (value)
WHERE session_id = given.value ->> 0 AND name = given.value ->> 1;

PREPARE sideband_record (jsonb) AS
INSERT INTO sideband.record (session_id, name, key)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_array_elements($1) AS given (value)
WHERE value ->> 2 IS NOT NULL;

PREPARE sideband_hold (jsonb) AS
UPDATE sideband.session SET records = given.value ->> 1 FROM jsonb_array_elements($1) AS given (value)
WHERE session.session_id = given.value ->> 0;

PREPARE sideband_receipt (jsonb) AS
INSERT INTO sideband.receipt (session_id, caller_id, checksum, body)
SELECT value ->> 0, value ->> 1, (value ->> 2)::bigint, convert_to(value ->> 3, 'UTF8')
FROM jsonb_array_elements($1) AS given (value)
ON CONFLICT (session_id, caller_id) DO UPDATE SET checksum = excluded.checksum, body = excluded.body;

PREPARE sideband_begin (jsonb, bigint, bigint) AS
UPDATE sideband.session SET begun = counter.last - $2 + (given.value ->> 1)::bigint, begun_at = $3
FROM sideband.counter, jsonb_array_elements($1) AS given (value)
WHERE session.session_id = given.value ->> 0;

PREPARE sideband_append (jsonb, bigint, text, bigint, bigint) AS
WITH entry AS MATERIALIZED (
    SELECT place, value ->> 0 AS session_id, value ->> 1 AS word, (value ->> 2)::bigint AS checksum,
        convert_to(value ->> 3, 'UTF8') AS body
    FROM jsonb_array_elements($1) WITH ORDINALITY AS given (value, place)
), raised AS (
    UPDATE sideband.counter SET last = last + $2 RETURNING last - $2 AS behind
), written AS (
    INSERT INTO sideband.journal (sequence, session_id, word, checksum, body, time)
    SELECT raised.behind + entry.place, entry.session_id, entry.word, entry.checksum, entry.body, $5 FROM raised, entry
), marked AS (
    UPDATE sideband.writer SET batch = $4, behind = raised.behind, written_at = clock_timestamp()
    FROM raised WHERE writer_id = $3
), hint AS (
    SELECT session_id, max(place) AS place FROM entry GROUP BY session_id
)
SELECT raised.behind,
    count(pg_notify('sideband', (raised.behind + hint.place) || ' ' || left(hint.session_id, 1000)))
FROM raised, hint GROUP BY raised.behind
"""

# In one round trip; each sees what was committed before it started. First the row of this process, by
# which it can find out later whether the transaction was committed. Then the rows of the sessions, which serialise the
# decisions about them; they are locked in the order of their ids, so that two processes cannot deadlock. Last the events
# of other processes, and the receipts that the decisions need.
_BEGIN: Final = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
EXECUTE sideband_mine (%(writer)s);
EXECUTE sideband_sessions (%(sessions)s::text[]);
EXECUTE sideband_news (%(sessions)s::text[], %(known)s::bigint[])
"""
_RECEIPTS: Final = "; EXECUTE sideband_receipts (%(receipt_sessions)s::text[], %(caller_ids)s::text[])"

# One round trip again: from the update of the counter until the commit, every other writer waits, so what does not need
# the sequences comes first. A notification carries only sequence and session; its receivers read the journal.
_EMPTY: Final = "EXECUTE sideband_empty (%(emptied)s::text[])"
_RECORD: Final = "EXECUTE sideband_unrecord (%(keys)s::jsonb); EXECUTE sideband_record (%(keys)s::jsonb)"
_HOLD: Final = "EXECUTE sideband_hold (%(records)s::jsonb)"
_RECEIPT: Final = "EXECUTE sideband_receipt (%(receipts)s::jsonb)"
_APPEND: Final = "EXECUTE sideband_append (%(entries)s::jsonb, %(count)s, %(writer)s, %(batch)s, %(time)s)"
_LIST: Final = "EXECUTE sideband_begin (%(begun)s::jsonb, %(count)s, %(time)s)"

# A transaction that is still running holds a lock on this row, so the statement waits for it.
_FIND_OUT: Final = """
INSERT INTO sideband.writer AS mine (writer_id, batch, behind, written_at)
VALUES (%(writer)s, 0, 0, clock_timestamp())
ON CONFLICT (writer_id) DO UPDATE SET written_at = clock_timestamp()
RETURNING mine.batch, mine.behind
"""


class StoredReceipt(NamedTuple):
    """A receipt as it was read; it is checked when a decision needs it, so that a damaged one fails that decision only."""

    checksum: int
    body: bytes


class LockedSessions(NamedTuple):
    """What a batch is decided on: lease and pruning of each session, new events of other processes, and receipts."""

    last: int
    standings: Mapping[str, Standing]
    pruned_through: Mapping[str, int]
    news: Sequence[Logged]
    receipts: Mapping[tuple[str, str], StoredReceipt]

    def receipts_of(self, session_id: str, caller_ids: Sequence[str], *, place: str) -> Mapping[str, Receipt]:
        """The receipts of these ids, which must be among those that the batch named."""
        found = {}
        for caller_id in caller_ids:
            row = self.receipts.get((session_id, caller_id))
            if row is not None:
                if receipt_sum(session_id, caller_id, row.body) != row.checksum:
                    raise damaged(place, f"the receipt {caller_id!r} of session {session_id!r} was changed")
                found[caller_id] = decode_receipt(row.body)
        return found


class BatchId(NamedTuple):
    """Identifies a transaction: the process, and a number that it uses once."""

    writer_id: str
    batch: int


async def prepare(connection: Connection) -> None:
    """Prepare the statements; once per connection."""
    # Statements that psycopg prepares itself are deallocated at a ROLLBACK, and all others with them.
    connection.prepare_threshold = None
    await psycopg.AsyncClientCursor(connection).execute(_PREPARE)


async def insert_rows(connection: Connection, batch_id: BatchId, session_ids: Sequence[str]) -> None:
    """Insert rows for this process and these sessions, unless they exist."""
    await find_out(connection, batch_id)
    await connection.execute(
        "INSERT INTO sideband.session (session_id) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING",
        (sorted(session_ids),),
    )


async def begin(
    connection: Connection,
    replicas: Sequence[Replica],
    batch_id: BatchId,
    *,
    named: Sequence[tuple[str, str]],
    place: str,
) -> LockedSessions | None:
    """Begin a transaction that locks these sessions; None if one of the rows of `insert_rows` is missing.

    `named` are the receipts to read: pairs of a session and an id that a caller chose.
    """
    cursor = psycopg.AsyncClientCursor(connection)
    asked = {
        "writer": batch_id.writer_id,
        "sessions": [replica.session_id for replica in replicas],
        "known": [replica.at for replica in replicas],
        "receipt_sessions": [session_id for session_id, _ in named],
        "caller_ids": [caller_id for _, caller_id in named],
    }
    await cursor.execute(f"{_BEGIN}{_RECEIPTS}" if named else _BEGIN, asked)
    found = []
    while cursor.nextset():
        found.append(await cursor.fetchall())
    writers, held, entries, *others = found
    if not writers or len(held) != len(replicas):
        return None
    *_, last, version = held[0]
    if last is None or version is None:
        raise damaged(place, "its counter or its version is missing")
    refuse_newer(version, place)
    return LockedSessions(
        last,
        {row[0]: Standing(row[1], row[2]) for row in held},
        {row[0]: row[3] for row in held},
        [logged(*row, place=place) for row in entries],
        {(row[0], row[1]): StoredReceipt(*row[2:]) for rows in others for row in rows},
    )


async def append(connection: Connection, batch: Batch, batch_id: BatchId) -> int:
    """Write the rows of a batch, commit, and return the sequence that they follow."""
    entries = [
        (
            row.session_id,
            row.record.word,
            row_sum(row.session_id, row.record.body, batch.time),
            row.record.body.decode(),
        )
        for row in batch.rows
    ]
    emptied, keys, records, receipts, begun = _table_rows(batch.changes)
    steps = {_EMPTY: emptied, _RECORD: keys, _HOLD: records, _RECEIPT: receipts, _APPEND: entries, _LIST: begun}
    cursor = psycopg.AsyncClientCursor(connection)
    await cursor.execute(
        ";\n".join([*(statement for statement, rows in steps.items() if rows), "COMMIT"]),
        {
            "emptied": emptied,
            "keys": _as_json(keys),
            "records": _as_json(records),
            "receipts": _as_json(receipts),
            "entries": _as_json(entries),
            "begun": _as_json(begun),
            "count": len(batch.rows),
            "writer": batch_id.writer_id,
            "batch": batch_id.batch,
            "time": batch.time,
        },
    )
    # Only the append returns a row.
    while cursor.description is None:
        cursor.nextset()
    ((base, _),) = await cursor.fetchall()
    return int(base)


class _TableRows(NamedTuple):
    """What a batch changes in the tables besides the journal, as arrays for the server."""

    emptied: list[str]
    keys: list[tuple[str, str, str | None]]
    records: list[tuple[str, str]]
    receipts: list[tuple[str, str, int, str]]
    begun: list[tuple[str, int]]


def _table_rows(changes: Mapping[str, SessionChanges]) -> _TableRows:
    rows = _TableRows([], [], [], [], [])
    for session_id, change in changes.items():
        if change.empties:
            rows.emptied.append(session_id)
        if change.begun:
            rows.begun.append((session_id, change.begun))
        if change.records is not None:
            rows.records.append((session_id, change.records))
        rows.keys.extend((session_id, name, key) for name, key in change.keys.items())
        for caller_id, receipt in change.receipts.items():
            body = encode_receipt(receipt)
            rows.receipts.append((session_id, caller_id, receipt_sum(session_id, caller_id, body), body.decode()))
    return rows


def _as_json(rows: Sequence[object]) -> str:
    return msgspec.json.encode(rows).decode()


async def find_out(connection: Connection, batch_id: BatchId) -> int | None:
    """The sequence that the rows of this batch follow; None if it was not committed."""
    row = await (await connection.execute(_FIND_OUT, {"writer": batch_id.writer_id})).fetchone()
    return row[1] if row is not None and row[0] == batch_id.batch else None

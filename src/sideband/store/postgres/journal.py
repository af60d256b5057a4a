"""The statements of one batch: locking and reading its sessions, appending its rows, and checking a lost commit."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import psycopg

from sideband.ports import Logged
from sideband.store.batch import NewRow, Standing
from sideband.store.postgres.connection import Connection
from sideband.store.postgres.reader import logged, row_sum
from sideband.store.postgres.schema import damaged, refuse_newer
from sideband.store.replica import Replica

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
SELECT entry.sequence, entry.session_id, entry.checksum, entry.body
FROM unnest($1, $2) AS known (session_id, at)
CROSS JOIN LATERAL (
    SELECT sequence, session_id, checksum, body FROM sideband.journal
    WHERE journal.session_id = known.session_id AND journal.sequence > known.at
) AS entry
ORDER BY entry.sequence;

PREPARE sideband_append (jsonb, bigint, text, bigint) AS
WITH entry AS MATERIALIZED (
    SELECT place, value ->> 0 AS session_id, value ->> 1 AS word, (value ->> 2)::bigint AS checksum,
        convert_to(value ->> 3, 'UTF8') AS body
    FROM jsonb_array_elements($1) WITH ORDINALITY AS given (value, place)
), raised AS (
    UPDATE sideband.counter SET last = last + $2 RETURNING last - $2 AS behind
), written AS (
    INSERT INTO sideband.journal (sequence, session_id, word, checksum, body)
    SELECT raised.behind + entry.place, entry.session_id, entry.word, entry.checksum, entry.body FROM raised, entry
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

# Four statements in one round trip; each sees what was committed before it started. First the row of this process, by
# which it can find out later whether the transaction was committed. Then the rows of the sessions, which serialise the
# decisions about them; they are locked in the order of their ids, so that two processes cannot deadlock. Last the events
# of other processes.
_BEGIN: Final = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
EXECUTE sideband_mine (%(writer)s);
EXECUTE sideband_sessions (%(sessions)s::text[]);
EXECUTE sideband_news (%(sessions)s::text[], %(known)s::bigint[])
"""

# One round trip again: from the update of the counter until the commit, every other writer waits. A notification carries
# only sequence and session; its receivers read the journal.
_APPEND: Final = """
EXECUTE sideband_append (%(entries)s::jsonb, %(count)s, %(writer)s, %(batch)s);
COMMIT
"""

# A transaction that is still running holds a lock on this row, so the statement waits for it.
_FIND_OUT: Final = """
INSERT INTO sideband.writer AS mine (writer_id, batch, behind, written_at)
VALUES (%(writer)s, 0, 0, clock_timestamp())
ON CONFLICT (writer_id) DO UPDATE SET written_at = clock_timestamp()
RETURNING mine.batch, mine.behind
"""


class LockedSessions(NamedTuple):
    """What a batch is decided on: lease and pruning of each session, and the new events of other processes."""

    last: int
    standings: Mapping[str, Standing]
    pruned_through: Mapping[str, int]
    news: Sequence[Logged]


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
    connection: Connection, replicas: Sequence[Replica], batch_id: BatchId, *, place: str
) -> LockedSessions | None:
    """Begin a transaction that locks these sessions; None if one of the rows of `insert_rows` is missing."""
    cursor = psycopg.AsyncClientCursor(connection)
    asked = {
        "writer": batch_id.writer_id,
        "sessions": [replica.session_id for replica in replicas],
        "known": [replica.at for replica in replicas],
    }
    await cursor.execute(_BEGIN, asked)
    found = []
    while cursor.nextset():
        found.append(await cursor.fetchall())
    writers, held, entries = found
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
    )


async def append(connection: Connection, rows: Sequence[NewRow], batch_id: BatchId) -> int:
    """Write the rows of a batch, commit, and return the sequence that they follow."""
    entries = [
        (row.session_id, row.record.word, row_sum(row.session_id, row.record.body), row.record.body.decode())
        for row in rows
    ]
    cursor = psycopg.AsyncClientCursor(connection)
    await cursor.execute(
        _APPEND,
        {
            "entries": msgspec.json.encode(entries).decode(),
            "count": len(rows),
            "writer": batch_id.writer_id,
            "batch": batch_id.batch,
        },
    )
    ((base, _),) = await cursor.fetchall()
    return int(base)


async def find_out(connection: Connection, batch_id: BatchId) -> int | None:
    """The sequence that the rows of this batch follow; None if it was not committed."""
    row = await (await connection.execute(_FIND_OUT, {"writer": batch_id.writer_id})).fetchone()
    return row[1] if row is not None and row[0] == batch_id.batch else None

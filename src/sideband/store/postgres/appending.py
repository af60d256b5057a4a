"""The statements of one batch: the ground it is decided on, its rows, and what came of it when the answer was lost."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import psycopg

from sideband.ports import Logged
from sideband.store.batch import Row, Standing
from sideband.store.postgres.link import Connection
from sideband.store.postgres.reading import logged, row_sum
from sideband.store.postgres.schema import damaged, refuse_newer
from sideband.store.replica import Replica

CHANNEL: Final = "sideband"
# What a notification may hold is limited, and it is only a hint: a longer name is cut off.
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

# One message to the server, four statements; what each of them sees begins behind the one before. First the row by
# which this process can find out later what became of the transaction. Then those of the sessions: whoever has them
# decides alone, and in the order of their ids two processes that want the same ones never wait for each other crosswise.
# At last what others have logged of them.
_BEGIN: Final = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
EXECUTE sideband_mine (%(writer)s);
EXECUTE sideband_sessions (%(sessions)s::text[]);
EXECUTE sideband_news (%(sessions)s::text[], %(known)s::bigint[])
"""

# One message again: from the moment in which the numbers are taken every other process that writes has to wait, and the
# server does not wait for this one in between. A hint names session and sequence and nothing else; whoever gets it reads
# the journal.
_APPEND: Final = """
EXECUTE sideband_append (%(entries)s::jsonb, %(count)s, %(writer)s, %(batch)s);
COMMIT
"""

# A transaction that is not over yet has this row, and is waited for.
_FIND_OUT: Final = """
INSERT INTO sideband.writer AS mine (writer_id, batch, behind, written_at)
VALUES (%(writer)s, 0, 0, clock_timestamp())
ON CONFLICT (writer_id) DO UPDATE SET written_at = clock_timestamp()
RETURNING mine.batch, mine.behind
"""


class Ground(NamedTuple):
    """What a batch is decided on: how it stands with each session, how far it was pruned, and what others have logged."""

    last: int
    standings: Mapping[str, Standing]
    pruned_through: Mapping[str, int]
    news: Sequence[Logged]


class Numbered(NamedTuple):
    """A transaction of one process, by a number that it uses once."""

    writer_id: str
    batch: int


async def prepare(connection: Connection) -> None:
    """Have the statements at hand; needed once, before anything else here."""
    # What psycopg prepares by itself it throws away at every ROLLBACK, and with it whatever else is prepared.
    connection.prepare_threshold = None
    await psycopg.AsyncClientCursor(connection).execute(_PREPARE)


async def introduce(connection: Connection, numbered: Numbered, session_ids: Sequence[str]) -> None:
    """Have a row for this process, and for each of these sessions."""
    await find_out(connection, numbered)
    await connection.execute(
        "INSERT INTO sideband.session (session_id) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING",
        (sorted(session_ids),),
    )


async def begin(
    connection: Connection, replicas: Sequence[Replica], numbered: Numbered, *, place: str
) -> Ground | None:
    """Begin a transaction that has these sessions to itself; None where somebody has to be introduced again."""
    cursor = psycopg.AsyncClientCursor(connection)
    asked = {
        "writer": numbered.writer_id,
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
    return Ground(
        last,
        {row[0]: Standing(row[1], row[2]) for row in held},
        {row[0]: row[3] for row in held},
        [logged(*row, place=place) for row in entries],
    )


async def append(connection: Connection, rows: Sequence[Row], numbered: Numbered) -> int:
    """Write the rows of a batch and commit; the sequence behind which they stand now."""
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
            "writer": numbered.writer_id,
            "batch": numbered.batch,
        },
    )
    ((behind, _),) = await cursor.fetchall()
    return int(behind)


async def find_out(connection: Connection, numbered: Numbered) -> int | None:
    """The sequence behind which this batch stands; None where it was not made, and never will be."""
    row = await (await connection.execute(_FIND_OUT, {"writer": numbered.writer_id})).fetchone()
    return row[1] if row is not None and row[0] == numbered.batch else None

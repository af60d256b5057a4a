"""Snapshots as rows, and pruning: what is taken from the journal is always behind one."""

from typing import Final

from sideband.store.postgres.link import Connection
from sideband.store.records import checksum

# A later one that another process has made stays.
_KEEP: Final = """
INSERT INTO sideband.snapshot (session_id, sequence, checksum, body)
VALUES (%(session)s, %(sequence)s, %(checksum)s, %(body)b)
ON CONFLICT (session_id) DO UPDATE
SET sequence = excluded.sequence, checksum = excluded.checksum, body = excluded.body
WHERE excluded.sequence > snapshot.sequence
"""
# The last row of the store stays, whosever it is: it shows that the counter is right.
_EDGE: Final = """
SELECT least(sequence, (SELECT last FROM sideband.counter) - 1) FROM sideband.journal
WHERE session_id = %(session)s
AND sequence <= (SELECT sequence FROM sideband.snapshot WHERE session_id = %(session)s)
ORDER BY sequence DESC LIMIT 1 OFFSET %(keep)s
"""


async def keep_snapshot(connection: Connection, session_id: str, sequence: int, body: bytes) -> None:
    """All of a session up to a sequence."""
    await connection.execute(
        _KEEP,
        {
            "session": session_id,
            "sequence": sequence,
            "checksum": checksum(sequence, session_id, body),
            "body": body,
        },
    )


async def prune(connection: Connection, session_id: str, *, keep: int) -> int:
    """Of what its snapshot holds, leave a session the last `keep` events; how many rows are gone."""
    async with connection.transaction():
        await connection.execute("SELECT FROM sideband.session WHERE session_id = %s FOR UPDATE", (session_id,))
        edge = await (await connection.execute(_EDGE, {"session": session_id, "keep": keep})).fetchone()
        if edge is None:
            return 0
        gone = await connection.execute(
            "DELETE FROM sideband.journal WHERE session_id = %s AND sequence <= %s", (session_id, edge[0])
        )
        await connection.execute(
            "UPDATE sideband.session SET pruned_through = greatest(pruned_through, %s) WHERE session_id = %s",
            (edge[0], session_id),
        )
    return gone.rowcount

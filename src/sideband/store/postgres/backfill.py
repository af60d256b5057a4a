"""Fills the tables that earlier versions of Sideband did not have, when a database is migrated."""

from collections.abc import Mapping
from typing import Final

from sideband.core.inbox import Receipt
from sideband.store.backfill import first_sequences, receipt_in_row, receipts_in_snapshot
from sideband.store.codec import checksum, encode_receipt, receipt_sum
from sideband.store.postgres.connection import Connection

_OLDEST: Final = """
SELECT session_id, min(oldest) FROM (
    SELECT session_id, min(sequence) AS oldest FROM sideband.journal GROUP BY session_id
    UNION ALL
    SELECT session_id, pruned_through FROM sideband.session WHERE pruned_through > 0
) AS known GROUP BY session_id ORDER BY 2 DESC
"""
_LIST: Final = """
INSERT INTO sideband.session (session_id, begun) SELECT * FROM unnest(%s::text[], %s::bigint[])
ON CONFLICT (session_id) DO UPDATE SET begun = excluded.begun
"""
# The snapshot of a session that never had an event; it would make the session exist without being listed.
_BLANK: Final = """
DELETE FROM sideband.snapshot
WHERE NOT EXISTS (SELECT FROM sideband.journal WHERE journal.session_id = snapshot.session_id)
AND NOT EXISTS (
    SELECT FROM sideband.session WHERE session.session_id = snapshot.session_id AND pruned_through > 0
)
"""
_RECEIPT: Final = """
INSERT INTO sideband.receipt (session_id, caller_id, checksum, body) VALUES (%s, %s, %s, %s)
ON CONFLICT (session_id, caller_id) DO UPDATE SET checksum = excluded.checksum, body = excluded.body
"""


async def fill(connection: Connection) -> None:
    """Fill the list of sessions and the receipts. Damaged rows are left out; reading their session reports them."""
    await connection.execute(_BLANK)
    begun = [*first_sequences(await (await connection.execute(_OLDEST)).fetchall())]
    await connection.execute(_LIST, ([name for name, _ in begun], [sequence for _, sequence in begun]))
    # Server-side cursors, so that a long journal is not loaded at once.
    async with connection.cursor(name="snapshots", binary=True) as snapshots:
        await snapshots.execute("SELECT session_id, sequence, checksum, body FROM sideband.snapshot")
        async for session_id, sequence, expected, body in snapshots:
            if checksum(sequence, session_id, body) == expected:
                await _write_receipts(connection, session_id, receipts_in_snapshot(body))
    async with connection.cursor(name="queued", binary=True) as queued:
        await queued.execute("SELECT session_id, checksum, body FROM sideband.journal WHERE word = 'queued'")
        async for session_id, expected, body in queued:
            found = receipt_in_row(body) if checksum(0, session_id, body) == expected else None
            if found is not None:
                await _write_receipts(connection, session_id, {found.caller_id: found.receipt})


async def _write_receipts(connection: Connection, session_id: str, receipts: Mapping[str, Receipt]) -> None:
    for caller_id, receipt in receipts.items():
        body = encode_receipt(receipt)
        await connection.execute(_RECEIPT, (session_id, caller_id, receipt_sum(session_id, caller_id, body), body))

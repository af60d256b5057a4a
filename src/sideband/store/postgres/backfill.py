"""Fills the tables that earlier versions of Sideband did not have, when a database is migrated."""

from collections.abc import Mapping
from typing import Final

from sideband.core.inbox import Receipt
from sideband.store.backfill import first_sequences, receipt_in_row, receipts_in_snapshot
from sideband.store.codec import checksum, encode_receipt, receipt_sum
from sideband.store.postgres.connection import Connection

_OLDEST: Final = "SELECT session_id, min(sequence) FROM sideband.journal GROUP BY session_id"
_PRUNED: Final = """
SELECT session_id, pruned_through FROM sideband.session
WHERE pruned_through > 0 AND NOT EXISTS (SELECT FROM sideband.journal WHERE journal.session_id = session.session_id)
"""
_LIST: Final = """
INSERT INTO sideband.session (session_id, begun) SELECT * FROM unnest(%s::text[], %s::bigint[])
ON CONFLICT (session_id) DO UPDATE SET begun = excluded.begun
"""
_RECEIPT: Final = """
INSERT INTO sideband.receipt (session_id, caller_id, checksum, body)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bytea[])
ON CONFLICT (session_id, caller_id) DO UPDATE SET checksum = excluded.checksum, body = excluded.body
"""
# Snapshots of earlier versions lack the ids of messages; if all rows of the session are there, they have them.
_DISCARD_SNAPSHOTS: Final = """
DELETE FROM sideband.snapshot WHERE session_id <> ALL(%s) AND NOT EXISTS (
    SELECT FROM sideband.session WHERE session.session_id = snapshot.session_id AND pruned_through > 0
)
"""
_PAGE_ROWS: Final = 1_000


async def fill(connection: Connection) -> None:
    """Fill the list of sessions and the receipts. Damaged rows are left out; reading their session reports them."""
    oldest = await (await connection.execute(_OLDEST)).fetchall()
    pruned = await (await connection.execute(_PRUNED)).fetchall()
    begun = [*first_sequences(oldest, pruned)]
    await connection.execute(_LIST, ([name for name, _ in begun], [sequence for _, sequence in begun]))
    # Server-side cursors, so that a long journal is not loaded at once.
    async with connection.cursor(name="snapshots", binary=True) as snapshots:
        await snapshots.execute("SELECT session_id, sequence, checksum, body FROM sideband.snapshot")
        async for session_id, sequence, expected, body in snapshots:
            if checksum(sequence, session_id, body) == expected:
                kept = receipts_in_snapshot(body)
                await _write(connection, {(session_id, caller_id): receipt for caller_id, receipt in kept.items()})
    damaged = set[str]()
    async with connection.cursor(name="rows", binary=True) as rows:
        await rows.execute("SELECT session_id, word, checksum, body FROM sideband.journal")
        while page := await rows.fetchmany(_PAGE_ROWS):
            found: dict[tuple[str, str], Receipt] = {}
            for session_id, word, expected, body in page:
                if checksum(0, session_id, body) != expected:
                    damaged.add(session_id)
                elif word == "queued" and (old := receipt_in_row(body)) is not None:
                    found[session_id, old.caller_id] = old.receipt
            await _write(connection, found)
    await connection.execute(_DISCARD_SNAPSHOTS, ([*damaged],))


async def _write(connection: Connection, receipts: Mapping[tuple[str, str], Receipt]) -> None:
    """Write the receipts of these sessions and caller-supplied ids in one statement."""
    if not receipts:
        return
    bodies = [encode_receipt(receipt) for receipt in receipts.values()]
    sums = [receipt_sum(*key, body) for key, body in zip(receipts, bodies, strict=True)]
    names = [session_id for session_id, _ in receipts], [caller_id for _, caller_id in receipts]
    await connection.execute(_RECEIPT, (*names, sums, bodies))

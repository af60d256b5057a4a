"""Fills the tables that earlier versions of Sideband did not have, when a store file is migrated."""

from typing import Any, Final

import apsw

from sideband.store.backfill import first_sequences, receipt_in_row, receipts_in_snapshot
from sideband.store.codec import is_as_written
from sideband.store.sqlite.tables import write_receipts

_OLDEST: Final = """
SELECT session_id, min(oldest) FROM (
    SELECT session_id, min(sequence) AS oldest FROM journal GROUP BY session_id
    UNION ALL
    SELECT session_id, pruned_through FROM snapshot WHERE pruned_through > 0
) GROUP BY session_id ORDER BY 2 DESC
"""
# The snapshot of a session that never had an event; it would make the session exist without being listed.
_BLANK: Final = """
DELETE FROM snapshot
WHERE pruned_through = 0 AND NOT EXISTS (SELECT 1 FROM journal WHERE journal.session_id = snapshot.session_id)
"""


def fill(connection: apsw.Connection) -> None:
    """Fill the list of sessions and the receipts. Damaged rows are left out; reading their session reports them."""
    connection.execute(_BLANK)
    oldest: list[Any] = connection.execute(_OLDEST).fetchall()
    connection.executemany(
        "INSERT INTO session (session_id, begun, begun_at) VALUES (?, ?, 0)",
        first_sequences(oldest),
    )
    for sequence, session_id, total, body in connection.execute(
        "SELECT sequence, session_id, checksum, body FROM snapshot"
    ):
        if is_as_written(sequence, session_id, total, body):
            write_receipts(connection, session_id, receipts_in_snapshot(body))
    for sequence, session_id, total, body in connection.execute(
        "SELECT sequence, session_id, checksum, body FROM journal WHERE word = 'queued'"
    ):
        found = receipt_in_row(body) if is_as_written(sequence, session_id, total, body) else None
        if found is not None:
            write_receipts(connection, session_id, {found.caller_id: found.receipt})

"""Fills the tables that earlier versions of Sideband did not have, when a store file is migrated."""

from typing import Any, Final

import apsw

from sideband.store.backfill import first_sequences, receipt_in_row, receipts_in_snapshot
from sideband.store.codec import is_as_written
from sideband.store.sqlite.tables import write_receipts

_OLDEST: Final = "SELECT session_id, min(sequence) FROM journal GROUP BY session_id"
_PRUNED: Final = """
SELECT session_id, pruned_through FROM snapshot
WHERE pruned_through > 0 AND NOT EXISTS (SELECT 1 FROM journal WHERE journal.session_id = snapshot.session_id)
"""


def fill(connection: apsw.Connection) -> None:
    """Fill the list of sessions and the receipts. Damaged rows are left out; reading their session reports them."""
    oldest: Any = connection.execute(_OLDEST).fetchall()
    pruned: Any = connection.execute(_PRUNED).fetchall()
    connection.executemany(
        "INSERT INTO session (session_id, begun, begun_at) VALUES (?, ?, 0)", first_sequences(oldest, pruned)
    )
    for sequence, session_id, total, body in connection.execute(
        "SELECT sequence, session_id, checksum, body FROM snapshot"
    ):
        if is_as_written(sequence, session_id, total, body):
            write_receipts(connection, session_id, receipts_in_snapshot(body))
    damaged = set[str]()
    for sequence, session_id, word, total, body in connection.execute(
        "SELECT sequence, session_id, word, checksum, body FROM journal"
    ):
        if not is_as_written(sequence, session_id, total, body):
            damaged.add(session_id)
        elif word == "queued" and (found := receipt_in_row(body)) is not None:
            write_receipts(connection, session_id, {found.caller_id: found.receipt})
    _discard_snapshots(connection, damaged)


def _discard_snapshots(connection: apsw.Connection, damaged: set[str]) -> None:
    """Discard the snapshots of sessions that have all their rows.

    Snapshots of earlier versions lack the ids of messages; the rows have them.
    """
    whole: Any = connection.execute("SELECT session_id FROM snapshot WHERE pruned_through = 0").fetchall()
    connection.executemany(
        "DELETE FROM snapshot WHERE session_id = ?", [(name,) for (name,) in whole if name not in damaged]
    )

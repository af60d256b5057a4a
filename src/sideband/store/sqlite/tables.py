"""The list of sessions, their named records and their receipts: the rows that a batch changes besides the journal."""

from collections.abc import Mapping
from typing import Final

import apsw

from sideband.core.inbox import Receipt
from sideband.store.codec import encode_receipt, receipt_sum
from sideband.store.tables import SessionChanges

_EMPTY: Final = (
    "DELETE FROM session WHERE session_id = ?",
    "DELETE FROM record WHERE session_id = ?",
    "DELETE FROM receipt WHERE session_id = ?",
)


def write(connection: apsw.Connection, changes: Mapping[str, SessionChanges], *, time: int) -> None:
    """Write what a batch changes; `time` is that of its events."""
    for session_id, change in changes.items():
        if change.empties:
            for statement in _EMPTY:
                connection.execute(statement, (session_id,))
        if change.begun:
            connection.execute(
                "INSERT INTO session (begun, session_id, begun_at) VALUES (?, ?, ?)", (change.begun, session_id, time)
            )
        if change.records is not None:
            connection.execute("UPDATE session SET records = ? WHERE session_id = ?", (change.records, session_id))
        for name, key in change.keys.items():
            if key is None:
                connection.execute("DELETE FROM record WHERE session_id = ? AND name = ?", (session_id, name))
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO record (session_id, name, key) VALUES (?, ?, ?)", (session_id, name, key)
                )
        write_receipts(connection, session_id, change.receipts)


def write_receipts(connection: apsw.Connection, session_id: str, receipts: Mapping[str, Receipt]) -> None:
    for caller_id, receipt in receipts.items():
        body = encode_receipt(receipt)
        connection.execute(
            "INSERT OR REPLACE INTO receipt (session_id, caller_id, checksum, body) VALUES (?, ?, ?, ?)",
            (session_id, caller_id, receipt_sum(session_id, caller_id, body), body),
        )

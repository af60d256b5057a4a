"""Snapshots as rows, and pruning: what is taken from the journal is always behind one."""

import apsw

from sideband.store.records import checksum


def keep_snapshot(connection: apsw.Connection, session_id: str, sequence: int, body: bytes) -> None:
    """All of a session up to a sequence; a later one that another process has made stays."""
    connection.execute(
        "INSERT INTO snapshot (session_id, sequence, checksum, body) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (session_id) DO UPDATE SET sequence = excluded.sequence, checksum = excluded.checksum, "
        "body = excluded.body WHERE excluded.sequence > snapshot.sequence",
        (session_id, sequence, checksum(sequence, session_id, body), body),
    )


def prune(connection: apsw.Connection, session_id: str, *, keep: int) -> int:
    """Of what its snapshot holds, leave a session the last `keep` events; how many rows are gone.

    The last row of the store stays, whosever it is: its number is what the next one counts from.
    """
    newest_to_go = connection.execute(
        "SELECT min(sequence, (SELECT max(sequence) FROM journal) - 1) FROM journal WHERE session_id = ?1 "
        "AND sequence <= (SELECT sequence FROM snapshot WHERE session_id = ?1) "
        "ORDER BY sequence DESC LIMIT 1 OFFSET ?2",
        (session_id, keep),
    ).get
    if newest_to_go is None:
        return 0
    connection.execute("DELETE FROM journal WHERE session_id = ? AND sequence <= ?", (session_id, newest_to_go))
    gone = connection.changes()
    if gone:
        connection.execute(
            "UPDATE snapshot SET pruned_through = max(pruned_through, ?) WHERE session_id = ?",
            (newest_to_go, session_id),
        )
    return gone

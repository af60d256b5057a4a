-- The state of a session at one sequence, and the last sequence of the session that was pruned.
CREATE TABLE snapshot (
    session_id TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    pruned_through INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

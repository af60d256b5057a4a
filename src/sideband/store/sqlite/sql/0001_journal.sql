-- The journal: every event of every session, in one sequence without gaps. All other tables can be derived from it.
-- The next sequence is the highest one here plus one; the last row is never pruned, so that sequences are not reused.
CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    word TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- An index of SQLite ends in the key of its table, so the rows of a session are found in order.
CREATE INDEX journal_of_session ON journal (session_id);

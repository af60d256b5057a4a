-- The only truth: every event of every session, in one sequence without gaps.
-- The sequence is the highest number here plus one; so that it never goes back, the last row is never pruned.
CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    word TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- An index ends in the key of its table: within a session the rows are found in their order.
CREATE INDEX journal_of_session ON journal (session_id);

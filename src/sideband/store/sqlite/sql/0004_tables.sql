-- When a row was committed, in milliseconds since the epoch; 0 in rows of earlier versions.
ALTER TABLE journal ADD COLUMN time INTEGER NOT NULL DEFAULT 0;

-- The list of sessions. A session is in it from its first event, which is `begun`, until it is deleted.
-- The time of its last event is in the journal; `changed_at` replaces it when all rows of the session were pruned.
-- All its named records are one JSON object, so that a list needs no further table.
CREATE TABLE session (
    begun INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    begun_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL DEFAULT 0,
    records TEXT NOT NULL DEFAULT '{}'
) STRICT;

-- The records by which sessions are looked up: those whose value is a short string.
CREATE TABLE record (
    session_id TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX record_by_key ON record (name, key);

-- The replies to requests whose id the caller chose. They outlive the rows of the journal from which they follow.
CREATE TABLE receipt (
    session_id TEXT NOT NULL,
    caller_id TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (session_id, caller_id)
) STRICT, WITHOUT ROWID;

-- When a row was committed, in milliseconds since the epoch; 0 in rows of earlier versions.
ALTER TABLE journal ADD COLUMN time INTEGER NOT NULL DEFAULT 0;

-- The list of sessions. A session is in it from its first event, which is `begun`, until it is deleted.
-- The time of its last event is in the journal; `changed_at` replaces it when all rows of the session were pruned.
CREATE TABLE session (
    begun INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    begun_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The named records of the sessions, as JSON. A short string is also the key by which sessions are looked up.
CREATE TABLE record (
    session_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    key TEXT,
    PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX record_by_key ON record (name, key) WHERE key IS NOT NULL;

-- The replies to requests whose id the caller chose. They outlive the rows of the journal from which they follow.
CREATE TABLE receipt (
    session_id TEXT NOT NULL,
    caller_id TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (session_id, caller_id)
) STRICT, WITHOUT ROWID;

-- When a row was committed, in milliseconds since the epoch by the clock of its writer; 0 in rows of earlier versions.
ALTER TABLE sideband.journal ADD COLUMN time bigint NOT NULL DEFAULT 0;

-- The list of sessions: `begun` is the first event of the session; 0 if there is none, or the session was deleted.
-- The time of its last event is in the journal; `changed_at` replaces it when all rows of the session were pruned.
-- All its named records are one JSON object, so that a list needs no further table.
ALTER TABLE sideband.session
    ADD COLUMN begun bigint NOT NULL DEFAULT 0,
    ADD COLUMN begun_at bigint NOT NULL DEFAULT 0,
    ADD COLUMN changed_at bigint NOT NULL DEFAULT 0,
    ADD COLUMN records text NOT NULL DEFAULT '{}';

CREATE INDEX session_by_begun ON sideband.session (begun) WHERE begun > 0;

-- The records by which sessions are looked up: those whose value is a short string.
CREATE TABLE sideband.record (
    session_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (session_id, name)
);

CREATE INDEX record_by_key ON sideband.record (name, key);

-- The replies to requests whose id the caller chose. They outlive the rows of the journal from which they follow.
CREATE TABLE sideband.receipt (
    session_id text COLLATE "C" NOT NULL,
    caller_id text COLLATE "C" NOT NULL,
    checksum bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (session_id, caller_id)
);

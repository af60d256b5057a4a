-- The state of a session at one sequence.
CREATE TABLE sideband.snapshot (
    session_id text COLLATE "C" PRIMARY KEY,
    sequence bigint NOT NULL,
    checksum bigint NOT NULL,
    body bytea NOT NULL
);

-- The last sequence of the session that was pruned.
ALTER TABLE sideband.session ADD COLUMN pruned_through bigint NOT NULL DEFAULT 0;

CREATE INDEX session_by_pruning ON sideband.session (pruned_through) WHERE pruned_through > 0;

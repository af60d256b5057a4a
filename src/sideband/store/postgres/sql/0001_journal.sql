-- The journal: every event of every session, in one sequence without gaps. All other tables can be derived from it.
-- The checksum covers session and body; the sequence of a row is not known yet when it is computed.
CREATE TABLE sideband.journal (
    sequence bigint PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    word text NOT NULL,
    checksum bigint NOT NULL,
    body bytea NOT NULL
);

CREATE INDEX journal_of_session ON sideband.journal (session_id, sequence);

-- The last sequence that was assigned. A writer updates it in the last statement of its transaction, which locks the row
-- until the commit: sequences become visible in order, and those of a rolled-back transaction are assigned again.
CREATE TABLE sideband.counter (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    last bigint NOT NULL
);

INSERT INTO sideband.counter (last) VALUES (0);

-- One row for each session that was ever written to or run; commits of the session lock its row.
CREATE TABLE sideband.session (
    session_id text COLLATE "C" PRIMARY KEY
);

-- The last transaction of each process. A process that lost its connection during a commit reads here whether it was made.
CREATE TABLE sideband.writer (
    writer_id text PRIMARY KEY,
    batch bigint NOT NULL,
    behind bigint NOT NULL,
    written_at timestamptz NOT NULL
);

-- The only truth: every event of every session, in one sequence without gaps.
-- The checksum is over session and body; the place of a row is not known yet when it is computed.
CREATE TABLE sideband.journal (
    sequence bigint PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    word text NOT NULL,
    checksum bigint NOT NULL,
    body bytea NOT NULL
);

CREATE INDEX journal_of_session ON sideband.journal (session_id, sequence);

-- The last sequence that was given away. Whoever writes raises it in the last statement of its transaction and holds
-- the row until the commit: numbers become visible in their order, and one that was not committed is given away again.
CREATE TABLE sideband.counter (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    last bigint NOT NULL
);

INSERT INTO sideband.counter (last) VALUES (0);

-- One row for each session that was ever written to or run; whoever decides about it holds the row.
CREATE TABLE sideband.session (
    session_id text COLLATE "C" PRIMARY KEY
);

-- The last transaction of each process. One that lost its connection while it committed looks here what came of it.
CREATE TABLE sideband.writer (
    writer_id text PRIMARY KEY,
    batch bigint NOT NULL,
    behind bigint NOT NULL,
    written_at timestamptz NOT NULL
);

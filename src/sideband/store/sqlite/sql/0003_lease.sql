-- The holder of a session. The token rises with every change of holder, so that a stale lease is recognised.
-- The address is that of the doorbell of its process; it is empty if there is none.
CREATE TABLE lease (
    session_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    address TEXT NOT NULL,
    token INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX lease_of_address ON lease (address);

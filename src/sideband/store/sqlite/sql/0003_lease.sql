-- Who runs a session. The token rises with every change of hands, so that whoever had it before can be told apart.
-- The address is where its process can be woken; it is empty where that is not possible.
CREATE TABLE lease (
    session_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    address TEXT NOT NULL,
    token INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX lease_of_address ON lease (address);

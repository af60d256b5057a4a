-- Who runs a session. The token rises with every change of hands, so that whoever had it before can be told apart.
ALTER TABLE sideband.session
    ADD COLUMN holder text NOT NULL DEFAULT '',
    ADD COLUMN token bigint NOT NULL DEFAULT 0,
    ADD COLUMN expires_at timestamptz NOT NULL DEFAULT '-infinity';

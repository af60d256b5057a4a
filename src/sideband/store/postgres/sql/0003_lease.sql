-- The holder of a session. The token rises with every change of holder, so that a stale lease is recognised.
ALTER TABLE sideband.session
    ADD COLUMN holder text NOT NULL DEFAULT '',
    ADD COLUMN token bigint NOT NULL DEFAULT 0,
    ADD COLUMN expires_at timestamptz NOT NULL DEFAULT '-infinity';

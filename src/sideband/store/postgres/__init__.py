"""Sessions on a PostgreSQL server."""

from sideband.store.postgres.store import PostgresStore, open_postgres

__all__ = ["PostgresStore", "open_postgres"]

"""Sessions on a PostgreSQL server."""

from sideband.store.postgres.store import PostgresStore, open_postgres
from sideband.store.settings import PostgresSettings

__all__ = ["PostgresSettings", "PostgresStore", "open_postgres"]

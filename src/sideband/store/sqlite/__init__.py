"""Sessions in one SQLite file."""

from sideband.store.sqlite.store import SqliteStore, open_sqlite

__all__ = ["SqliteStore", "open_sqlite"]

"""Sessions in one SQLite file."""

from sideband.store.settings import SqliteSettings
from sideband.store.sqlite.store import SqliteStore, open_sqlite

__all__ = ["SqliteSettings", "SqliteStore", "open_sqlite"]

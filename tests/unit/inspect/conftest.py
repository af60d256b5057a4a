"""Stores for tests that inspect them."""

from tests.unit.store.conftest import durable, no_server_stays, postgres, sqlite

__all__ = ["durable", "no_server_stays", "postgres", "sqlite"]

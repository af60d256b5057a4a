"""Stores with an address that several processes can open."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from sideband.ports import Journal
from sideband.store.postgres import PostgresSettings, open_postgres
from sideband.store.sqlite import SqliteSettings, open_sqlite
from tests.postgres import Server, the_server

# Frequent snapshots, and leases of killed processes that lapse soon.
SNAPSHOT_EVENTS: Final = 25
LEASE_SECONDS: Final = 0.1


class Place(Protocol):
    """A file or a database."""

    @property
    def address(self) -> str: ...

    def remove(self) -> None:
        """End of the test."""


class SqlitePlace:
    """A file."""

    def __init__(self, directory: Path) -> None:
        self.address = str(directory / "store.db")

    def remove(self) -> None:
        """The file is removed with its directory."""


class PostgresPlace:
    """A database."""

    def __init__(self, _directory: Path, server: Server | None = None) -> None:
        self.server = server or the_server()
        self.name = self.server.take()
        self.address = self.server.url(self.name)

    def remove(self) -> None:
        self.server.give_back(self.name)


PLACES: Final[Mapping[str, Callable[[Path], Place]]] = {"sqlite": SqlitePlace, "postgres": PostgresPlace}


@asynccontextmanager
async def opened(address: str, *, vfs: str = "", lease_seconds: float = LEASE_SECONDS) -> AsyncIterator[Journal]:
    """Open the store at an address for this process."""
    store: Journal
    if address.startswith("postgresql:"):
        store = await open_postgres(
            address,
            PostgresSettings(snapshot_events=SNAPSHOT_EVENTS, kept_events=None, lease_seconds=lease_seconds),
        )
    else:
        store = await open_sqlite(
            address,
            SqliteSettings(snapshot_events=SNAPSHOT_EVENTS, kept_events=None, lease_seconds=lease_seconds, vfs=vfs),
        )
    try:
        yield store
    finally:
        await store.close()

"""Stores that crash and are opened again, in an event loop that outlives the crash."""

import asyncio
import itertools
import shutil
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sideband.core.errors import StoreError
from sideband.ports import Journal
from sideband.store.memory import MemoryStore
from sideband.store.postgres import PostgresSettings, open_postgres
from sideband.store.sqlite import SqliteSettings, open_sqlite
from tests.decisions import saying
from tests.faults.disks import WatchedDisk
from tests.postgres import the_server

_Value = TypeVar("_Value")
SNAPSHOT_EVENTS: Final = 10
# After this many sessions a new store is opened, so that none grows too long.
SESSIONS_EACH: Final = 25


class Home(Protocol):
    """A store that can crash."""

    async def open(self) -> Journal:
        """Open the store."""

    async def crash(self, journal: Journal) -> Journal:
        """The process dies, and another takes its place."""

    async def leave(self) -> None:
        """End of the test."""


class MemoryHome:
    """Memory does not outlive a process, so a crash changes only the user of the store."""

    def __init__(self, _directory: Path) -> None:
        self._store = MemoryStore()

    async def open(self) -> Journal:
        return self._store

    async def crash(self, journal: Journal) -> Journal:
        return journal

    async def leave(self) -> None: ...


class SqliteHome:
    """A process that dies leaves its file, and the log beside it, as they are."""

    def __init__(self, directory: Path) -> None:
        self._quick = WatchedDisk(syncs=False)
        self._directory = directory
        self._numbers = itertools.count()
        self._path = self._next_path()

    def _next_path(self) -> Path:
        return self._directory / f"store-{next(self._numbers)}.db"

    async def open(self) -> Journal:
        self._path = self._next_path()
        return await self._open()

    async def _open(self) -> Journal:
        return await open_sqlite(
            self._path, SqliteSettings(vfs=self._quick.name, snapshot_events=SNAPSHOT_EVENTS, kept_events=None)
        )

    async def crash(self, journal: Journal) -> Journal:
        # Work that follows a commit is finished when the next commit is.
        await journal.commit("other", saying())
        self._copy()
        await journal.close()
        return await self._open()

    def _copy(self) -> None:
        left, self._path = self._path, self._next_path()
        for suffix in ("", "-wal"):
            if Path(f"{left}{suffix}").exists():
                shutil.copyfile(f"{left}{suffix}", f"{self._path}{suffix}")

    async def leave(self) -> None:
        self._quick.unregister()


class PostgresHome:
    """A process that dies loses its connections."""

    def __init__(self, _directory: Path) -> None:
        self._server = the_server()
        self._name = self._server.take()

    async def open(self) -> Journal:
        return await open_postgres(
            self._server.url(self._name), PostgresSettings(snapshot_events=SNAPSHOT_EVENTS, kept_events=None)
        )

    async def crash(self, journal: Journal) -> Journal:
        await asyncio.to_thread(self._server.disconnect, self._name)
        with suppress(StoreError):
            await journal.close()
        return await self.open()

    async def leave(self) -> None:
        await asyncio.to_thread(self._server.give_back, self._name)


HOMES: Final[Mapping[str, Callable[[Path], Home]]] = {
    "memory": MemoryHome,
    "sqlite": SqliteHome,
    "postgres": PostgresHome,
}


class House:
    """One store for all examples of a test; each example has its own session."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._runner = asyncio.Runner()
        self.sessions = 0
        self.journal: Journal | None = None

    def run(self, doing: Coroutine[Any, Any, _Value]) -> _Value:
        return self._runner.run(doing)

    def move_in(self) -> str:
        """The name of a new session."""
        if self.journal is None or self.sessions % SESSIONS_EACH == 0:
            if self.journal is not None:
                self.run(self.journal.close())
            self.journal = self.run(self._home.open())
        self.sessions += 1
        return f"s{self.sessions}"

    def crash(self) -> None:
        assert self.journal is not None
        self.journal = self.run(self._home.crash(self.journal))

    def close(self) -> None:
        if self.journal is not None:
            self.run(self.journal.close())
        self.run(self._home.leave())
        self._runner.close()

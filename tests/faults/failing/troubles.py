"""What can go wrong with a store, at one moment of its life."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import apsw

from sideband.core.failures import StoreUnavailable
from sideband.ports import Committed, Decision, Journal, Lease
from sideband.store.memory import MemoryStore
from sideband.store.postgres import open_postgres
from sideband.store.sqlite import open_sqlite
from sideband.store.sqlite.committing import SqliteSettings
from tests.faults.disks import SpendingDisk, WatchedDisk
from tests.faults.journals import PassingOn
from tests.postgres import the_server
from tests.postgres_proxy import Loss, Proxy

_Value = TypeVar("_Value")
# Whoever finds the file taken gives up soon.
BUSY_SECONDS: Final = 0.02
# Longer than anybody needs the file who does not mean to keep it.
PATIENCE_MS: Final = 10_000


class Trouble(Protocol):
    """Comes at one moment; `came` tells whether it has."""

    @property
    def came(self) -> bool: ...

    async def open(self) -> Journal:
        """The store that has it."""

    async def end(self) -> None:
        """The story is over."""


# At an operation of the disk.


class FailingDisk(SpendingDisk):
    """Its `at`th operation fails, and that alone."""

    def __init__(self, at: int, error: type[apsw.Error]) -> None:
        super().__init__()
        self._left = at
        self._error = error
        self.came = False

    def spend(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.came = True
            raise self._error


class DiskTrouble:
    """A disk that is full, or broken, for a moment."""

    def __init__(self, directory: Path, at: int, error: type[apsw.Error]) -> None:
        self._path = directory / f"store-{at}.db"
        self._disk = FailingDisk(at, error)

    @property
    def came(self) -> bool:
        return self._disk.came

    async def open(self) -> Journal:
        return await open_sqlite(self._path, SqliteSettings(vfs=self._disk.name, snapshot_events=12))

    async def end(self) -> None:
        self._disk.unregister()


# At a call of the store.


class TroubledJournal(PassingOn):
    """At the `at`th call, `meet` makes of it what it likes."""

    def __init__(self, behind: Journal, trouble: "CallTrouble") -> None:
        super().__init__(behind)
        self._trouble = trouble

    async def open(self, session_id: str) -> object:
        return await self._trouble.met(lambda: self.behind.open(session_id))

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        return await self._trouble.met(lambda: self.behind.commit(session_id, decide, lease=lease))

    async def acquire(self, session_id: str, holder: str) -> Lease:
        return await self._trouble.met(lambda: self.behind.acquire(session_id, holder))

    async def renew(self, lease: Lease) -> Lease:
        return await self._trouble.met(lambda: self.behind.renew(lease))

    async def release(self, lease: Lease) -> None:
        await self._trouble.met(lambda: self.behind.release(lease))


class CallTrouble:
    """What all that come at a call have in common; the store is in memory where nothing else is said."""

    def __init__(self, _directory: Path, at: int) -> None:
        self._left = at
        self.came = False
        self._memory = MemoryStore()

    async def met(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        self._left -= 1
        if self._left != 0:
            return await call()
        self.came = True
        return await self.meet(call)

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        """What becomes of the one call."""
        return await call()

    async def store(self) -> Journal:
        return self._memory

    async def open(self) -> Journal:
        return TroubledJournal(await self.store(), self)

    async def end(self) -> None: ...


class Unavailable(CallTrouble):
    """The store says that it cannot."""

    async def meet(self, _call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        raise StoreUnavailable("not now")


class Cancelled(CallTrouble):
    """Whoever asked is cancelled while it waits."""

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return await call()


class OnAFile(CallTrouble):
    """The same with a file."""

    def __init__(self, directory: Path, at: int) -> None:
        super().__init__(directory, at)
        self._path = directory / f"store-{at}.db"
        self._quick = WatchedDisk(syncs=False)

    async def store(self) -> Journal:
        settings = SqliteSettings(vfs=self._quick.name, busy_seconds=BUSY_SECONDS, snapshot_events=12)
        return await open_sqlite(self._path, settings)

    async def end(self) -> None:
        self._quick.unregister()


class Busy(OnAFile):
    """Somebody else has the file for too long."""

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        other = apsw.Connection(str(self._path))
        # The store may be tidying up behind its last answer.
        other.set_busy_timeout(PATIENCE_MS)
        other.execute("BEGIN IMMEDIATE")
        try:
            return await call()
        finally:
            other.execute("ROLLBACK")
            other.close()


class CancelledOnAFile(Cancelled, OnAFile): ...


class OnAServer(CallTrouble):
    """The same with a server, and something between that may lose what is said."""

    def __init__(self, directory: Path, at: int) -> None:
        super().__init__(directory, at)
        self._server = the_server()
        self._name = self._server.take()
        self._proxy: Proxy | None = None
        self._stack = AsyncExitStack()

    async def store(self) -> Journal:
        if self._proxy is None:
            self._proxy = await self._stack.enter_async_context(Proxy(self._server).running())
        return await open_postgres(self._proxy.url(self._name))

    async def end(self) -> None:
        await self._stack.aclose()
        await asyncio.to_thread(self._server.give_back, self._name)


class CancelledOnAServer(Cancelled, OnAServer): ...


class Disconnected(OnAServer):
    """The server ends every connection."""

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        await asyncio.to_thread(self._server.disconnect, self._name)
        return await call()


class QuestionLost(OnAServer):
    """The next commit never reaches the server."""

    loss = Loss.QUESTION

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        assert self._proxy is not None
        self._proxy.losses.append(self.loss)
        return await call()


class AnswerLost(QuestionLost):
    """The server makes the next commit, and nobody hears of it."""

    loss = Loss.ANSWER

"""Injected failures of a store: each happens once, at a chosen moment."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import apsw

from sideband.core.errors import StoreUnavailable
from sideband.core.state import Decision
from sideband.ports import Journal, Lease, Logged
from sideband.store.memory import MemoryStore
from sideband.store.postgres import open_postgres
from sideband.store.sqlite import SqliteSettings, open_sqlite
from tests.faults.disks import SpendingDisk, WatchedDisk
from tests.faults.journals import ForwardingJournal
from tests.postgres import the_server
from tests.postgres_proxy import Loss, Proxy

_Value = TypeVar("_Value")
# A process that finds the file locked gives up soon.
BUSY_SECONDS: Final = 0.02
TOO_LONG: Final = 3 * BUSY_SECONDS
# Longer than any process holds the file, except the one that locks it on purpose.
PATIENCE_MS: Final = 10_000
# One of this many entries of a journal is read with a failure.
EACH_ENTRY: Final = 20


class Trouble(Protocol):
    """Happens at one moment; `came` says whether it has, `struck` whether it affected an operation."""

    @property
    def came(self) -> bool: ...

    @property
    def struck(self) -> bool: ...

    async def open(self) -> Journal:
        """Open the store with the failure."""

    async def end(self) -> None:
        """End of the story."""


# At an operation of the disk.


class FailingDisk(SpendingDisk):
    """Only its `at`th operation fails."""

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
    """A disk that is full or broken for one operation."""

    def __init__(self, directory: Path, at: int, error: type[apsw.Error]) -> None:
        self._path = directory / f"store-{at}.db"
        self._disk = FailingDisk(at, error)

    @property
    def came(self) -> bool:
        return self._disk.came

    @property
    def struck(self) -> bool:
        return self.came

    async def open(self) -> Journal:
        return await open_sqlite(self._path, SqliteSettings(vfs=self._disk.name, snapshot_events=12))

    async def end(self) -> None:
        self._disk.unregister()


# At a call of the store.


class TroubledJournal(ForwardingJournal):
    """`meet` handles the `at`th call."""

    def __init__(self, inner: Journal, trouble: "CallTrouble") -> None:
        super().__init__(inner)
        self._trouble = trouble

    async def open(self, session_id: str) -> object:
        return await self._trouble.met(lambda: self.inner.open(session_id))

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        return await self._trouble.met(lambda: self.inner.commit(session_id, decide, lease=lease, receipts=receipts))

    async def acquire(self, session_id: str, holder: str) -> Lease:
        return await self._trouble.met(lambda: self.inner.acquire(session_id, holder))

    async def renew(self, lease: Lease) -> Lease:
        return await self._trouble.met(lambda: self.inner.renew(lease))

    async def release(self, lease: Lease) -> None:
        await self._trouble.met(lambda: self.inner.release(lease))

    async def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        async for logged in self._told(super().subscribe(session_id=session_id, kind_prefix=kind_prefix, after=after)):
            yield logged

    async def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        async for logged in self._told(super().history(session_id=session_id, kind_prefix=kind_prefix, after=after)):
            yield logged

    async def _told(self, source: AsyncGenerator[Logged, None]) -> AsyncGenerator[Logged, None]:
        """The trouble may come when the first entry is asked for, and at some of those that follow."""
        async with aclosing(source):
            for place in count():
                met = self._trouble.met if place % EACH_ENTRY == 0 else _undisturbed
                logged = await met(lambda: _next(source))
                if logged is None:
                    return
                yield logged


async def _next(source: AsyncGenerator[Logged, None]) -> Logged | None:
    return await anext(source, None)


async def _undisturbed(call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
    return await call()


class CallTrouble:
    """Common part of the failures of a call; by default the store is in memory."""

    def __init__(self, _directory: Path, at: int) -> None:
        self._left = at
        self.came = False
        self._memory = MemoryStore()

    @property
    def struck(self) -> bool:
        return self.came

    async def met(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        self._left -= 1
        if self._left != 0:
            return await call()
        self.came = True
        return await self.meet(call)

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        """Handle the affected call."""
        return await call()

    async def store(self) -> Journal:
        return self._memory

    async def open(self) -> Journal:
        return TroubledJournal(await self.store(), self)

    async def end(self) -> None: ...


class Unavailable(CallTrouble):
    """The store raises `StoreUnavailable`."""

    async def meet(self, _call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        raise StoreUnavailable("not now")


class Cancelled(CallTrouble):
    """The caller is cancelled while it waits."""

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
        settings = SqliteSettings(vfs=self._quick.name, patience_seconds=BUSY_SECONDS, snapshot_events=12)
        return await open_sqlite(self._path, settings)

    async def end(self) -> None:
        self._quick.unregister()


class Busy(OnAFile):
    """Another process locks the file for too long."""

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        other = apsw.Connection(str(self._path))
        # The store may still write a snapshot after its last reply.
        other.set_busy_timeout(PATIENCE_MS)
        other.execute("BEGIN IMMEDIATE")
        asked = asyncio.ensure_future(call())
        try:
            # A subscriber may wait for a process that cannot write now.
            await asyncio.wait([asked], timeout=TOO_LONG)
        finally:
            other.execute("ROLLBACK")
            other.close()
        return await asked


class CancelledOnAFile(Cancelled, OnAFile): ...


class OnAServer(CallTrouble):
    """The same with a server behind a proxy that may drop messages."""

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

    @property
    def struck(self) -> bool:
        return self.came and self._proxy is not None and not self._proxy.losses

    async def meet(self, call: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
        assert self._proxy is not None
        self._proxy.losses.append(self.loss)
        return await call()


class AnswerLost(QuestionLost):
    """The server makes the next commit, and its reply is lost."""

    loss = Loss.ANSWER

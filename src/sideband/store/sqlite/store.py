"""Sessions in one SQLite file, which any number of processes of one machine may have open."""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from sideband.core.failures import StoreClosed, StoreError
from sideband.core.state import SessionState
from sideband.ports import Committed, Decision, Lease, Logged
from sideband.store.batch import Order, tell
from sideband.store.feed import Feed, Span, Wanted, pages
from sideband.store.names import check_name
from sideband.store.replica import Loaded, Replica
from sideband.store.roster import Roster
from sideband.store.sqlite import disk, schema
from sideband.store.sqlite.committing import Committer
from sideband.store.sqlite.connection import connect
from sideband.store.sqlite.delivery import Delivery
from sideband.store.sqlite.reading import Library
from sideband.store.sqlite.settings import SqliteSettings
from sideband.store.sqlite.wakeup import Doorbell
from sideband.store.sqlite.writer import Errand, EventLoop, Finish, Stop, Writer

DEFAULT_SETTINGS: Final = SqliteSettings()
_Result = TypeVar("_Result")


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


async def open_sqlite(
    path: str | Path, settings: SqliteSettings = DEFAULT_SETTINGS, *, now_ms: Callable[[], int] = now_ms
) -> "SqliteStore":
    """Open a store file, or make one where there is none. A file that is damaged, newer or not a store is refused."""
    store = SqliteStore(disk.place_of(path), settings)
    await store.start(now_ms)
    return store


class SqliteStore:
    """Belongs to the event loop it was opened on; `open_sqlite` makes one."""

    def __init__(self, path: Path, settings: SqliteSettings) -> None:
        self.path = path
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._feed = Feed(0, subscriber_events=settings.subscriber_events)
        self._held: dict[str, Lease] = {}
        # What runs here is read at any moment.
        self._replicas: Roster[Replica] = Roster(
            settings.sessions_at_hand, needed=lambda replica: replica.session_id in self._held
        )
        self._bell: Doorbell | None = None
        self._is_rung = False
        self._closing: asyncio.Future[None] | None = None
        self._is_closed = False
        reach = EventLoop(self._post, self._deliver, self._feed.end)
        self._writer = Writer(reach, poll_seconds=settings.poll_seconds)
        # Reading long histories has a thread and a connection of its own: it keeps nobody waiting who writes.
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sideband-reader")
        self._connection: apsw.Connection | None = None

    # Opening and closing.

    async def start(self, now_ms: Callable[[], int]) -> None:
        """Open the file; nothing else may be asked of the store before."""
        bell = Doorbell.beside(self.path)
        begin = functools.partial(Committer, self.path, self._settings, bell=bell, now_ms=now_ms)
        started: asyncio.Future[int] = self._loop.create_future()
        self._writer.start(begin, _settle(started))
        try:
            self._feed.announced = await started
        except BaseException:
            # Whoever gave up waiting may have left the thread behind at its work.
            self._writer.put(Stop(_settle(self._loop.create_future())))
            self._is_closed = True
            if bell is not None:
                bell.close()
            raise
        self._bell = bell
        if bell is not None:
            # Not every event loop can watch a socket; the file is looked at all the same.
            with contextlib.suppress(NotImplementedError):
                self._loop.add_reader(bell.fileno(), self._answer)

    async def close(self) -> None:
        """Finish what was asked for, and let go of the file; sessions stay as they are."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._let_go())
        # Somebody else may wait for it too, and whoever gives up leaves nothing half closed.
        await asyncio.shield(self._closing)

    async def _let_go(self) -> None:
        if self._is_closed:
            return
        for lease in tuple(self._held.values()):
            with contextlib.suppress(StoreError):
                await self.release(lease)
        self._is_closed = True
        stopped: asyncio.Future[None] = self._loop.create_future()
        self._writer.put(Stop(_settle(stopped)))
        await stopped
        self._writer.join()
        if self._connection is not None:
            # The last one to leave takes the log into the file; where that fails it stays beside it, and nothing is lost.
            with contextlib.suppress(apsw.Error):
                await self._loop.run_in_executor(self._reader, self._connection.close)
        self._reader.shutdown()
        if self._bell is not None:
            with contextlib.suppress(NotImplementedError):
                self._loop.remove_reader(self._bell.fileno())
            self._bell.close()
        self._feed.end()

    # Sessions.

    async def open(self, session_id: str) -> Replica:
        """Have a session at hand. What it takes depends on that session alone, and little on how long it is."""
        replica = self._replica(session_id)
        if not replica.is_open:
            loaded, ahead, seen = await self._read(lambda library: _restored(library.load(session_id)))
            await self._ask(lambda committer: committer.adopt(replica, loaded, ahead, seen))
        return replica

    def state(self, session_id: str) -> SessionState:
        """The state of an open session as it is on the disk. Read it; only commits change it."""
        return self._replica(session_id).seen

    def nothing_waits(self, session_id: str) -> bool:  # noqa: ARG002 - of no session this process knows
        """No: another process may have put something there."""
        return False

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        """Decide and make durable; the reply comes when what was decided survives a power cut."""
        if self._is_closed:
            raise StoreClosed
        done: asyncio.Future[Committed] = self._loop.create_future()
        replica = self._replicas.get(session_id) or self._replica(session_id)
        self._writer.put(Order(replica, decide, lease, done))
        return await done

    def _replica(self, session_id: str) -> Replica:
        replica = self._replicas.get(session_id)
        if replica is None:
            check_name(session_id)
            replica = self._replicas.add(session_id, Replica(session_id))
        return replica

    # Leases.

    async def acquire(self, session_id: str, holder: str) -> Lease:
        """Take a session on lease. Where the process that had it has died, it is free at once."""
        check_name(session_id)
        lease = await self._ask(lambda committer: committer.acquire(session_id, holder))
        self._held[session_id] = lease
        return lease

    async def renew(self, lease: Lease) -> Lease:
        """The same lease for as long again."""
        renewed = await self._ask(lambda committer: committer.renew(lease))
        self._held[lease.session_id] = renewed
        return renewed

    async def release(self, lease: Lease) -> None:
        """Give it back."""
        held = self._held.get(lease.session_id)
        if held is not None and held.token == lease.token:
            del self._held[lease.session_id]
        await self._ask(lambda committer: committer.release(lease))

    # News.

    def wake(self, session_id: str) -> asyncio.Event:
        """Set at each commit of the session, whichever process made it; whoever waits for one clears it first."""
        return self._feed.wake(session_id)

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What was and will be logged behind `after`, by whichever process."""
        return self._feed.subscribe(self._page, Wanted(session_id, kind_prefix), after)

    async def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What is logged behind `after` now: for exports."""
        until = await self._read(lambda library: library.last())
        async with contextlib.aclosing(pages(self._page, Wanted(session_id, kind_prefix), Span(after, until))) as past:
            async for logged in past:
                yield logged

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Write a snapshot of a session and take from the journal all but its last events; how many are gone."""
        replica = self._replica(session_id)
        return await self._ask(lambda committer: committer.prune(replica, keep=keep_events))

    # Other threads.

    async def _page(self, wanted: Wanted, span: Span) -> Sequence[Logged]:
        return await self._read(lambda library: library.page(wanted, span))

    async def _read(self, read: Callable[[Library], _Result]) -> _Result:
        self._refuse_closed()
        return await self._loop.run_in_executor(self._reader, self._read_now, read)

    def _read_now(self, read: Callable[[Library], _Result]) -> _Result:
        try:
            if self._connection is None:
                self._connection = connect(self.path, busy_seconds=self._settings.busy_seconds, vfs=self._settings.vfs)
                self._connection.pragma("query_only", "on")
            return read(Library(self._connection, self.path))
        except schema.UNREADABLE as error:
            if isinstance(error, apsw.IOError) and self._connection is not None:
                # It may work again for somebody who opens it anew.
                self._connection.close(force=True)
                self._connection = None
            raise schema.refusal(error, self.path) from error

    async def _ask(self, run: Callable[[Committer], _Result]) -> _Result:
        self._refuse_closed()
        done: asyncio.Future[_Result] = self._loop.create_future()
        self._writer.put(Errand(run, _settle(done)))
        return await done

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreClosed

    def _post(self, function: Callable[..., None], *args: object) -> None:
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *args)

    # On the event loop.

    def _deliver(self, delivery: Delivery) -> None:
        for replica, state, at in delivery.opened:
            if delivery.lost is not None or not replica.is_open:
                replica.show(state, at)
        peek = self._replicas.peek
        for logged in delivery.news:
            followed = peek(logged.session_id)
            if followed is not None:
                followed.show_news((logged,))
        if delivery.lost is not None:
            self._feed.skip(delivery.lost)
        self._feed.pass_on(delivery.news)
        tell(delivery.answers)

    def _answer(self) -> None:
        if self._bell is not None:
            self._bell.answer()
        # However often it rings, one look behind the last ring is enough.
        if not self._is_rung:
            self._is_rung = True
            self._writer.put(Errand(self._look, _ignore))

    def _look(self, committer: Committer) -> None:
        self._is_rung = False
        committer.look()


def _restored(loaded: Loaded) -> tuple[Loaded, SessionState, SessionState]:
    return loaded, loaded.restore(), loaded.restore()


def _settle(future: "asyncio.Future[Any]") -> Finish:
    def finish(result: object, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    return finish


def _ignore(_result: object, _error: Exception | None) -> None:
    """Whoever commits next is told the same."""

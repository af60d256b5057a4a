"""Sessions in one SQLite file, which several processes of one machine can have open."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import apsw

from sideband.core.errors import StoreClosed, StoreError
from sideband.core.state import Decision, SessionState, ValueT
from sideband.ports import NO_RECORDS, AsOf, Lease, Logged, SessionEntry
from sideband.store.batch import Order, resolve
from sideband.store.cache import SessionCache
from sideband.store.codec import check_name, indexed
from sideband.store.feed import EventFilter, Feed, Span, pages
from sideband.store.replica import Loaded, Replica
from sideband.store.settings import SqliteSettings, now_ms
from sideband.store.sqlite import file, schema
from sideband.store.sqlite.committer import Delivery, SqliteCommitter
from sideband.store.sqlite.doorbell import Doorbell
from sideband.store.sqlite.file import connect
from sideband.store.sqlite.reader import SqliteReader
from sideband.store.sqlite.writer import Finish, LoopCallbacks, SqliteErrand, SqliteWriter, Stop

DEFAULT_SETTINGS: Final = SqliteSettings()


async def open_sqlite(
    path: str | Path, settings: SqliteSettings = DEFAULT_SETTINGS, *, now_ms: Callable[[], int] = now_ms
) -> "SqliteStore":
    """Open a store file, which is created if it does not exist.

    A file that is cut short, newer or not a store is refused; damaged rows are refused when they are read.
    """
    store = SqliteStore(file.place_of(path), settings)
    await store.start(now_ms)
    return store


class SqliteStore:
    """A store on a file, bound to the event loop on which it was opened; made by `open_sqlite`."""

    def __init__(self, path: Path, settings: SqliteSettings) -> None:
        self.path = path
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._feed = Feed(0, subscriber_events=settings.subscriber_events)
        self._held: dict[str, Lease] = {}
        # A session that is leased here stays in memory, because its run reads it all the time.
        self._replicas: SessionCache[Replica] = SessionCache(
            settings.sessions_at_hand, needed=lambda replica: replica.session_id in self._held
        )
        self._bell: Doorbell | None = None
        self._is_rung = False
        self._closing: asyncio.Future[None] | None = None
        self._is_closed = False
        reach = LoopCallbacks(self._post, self._deliver, self._feed.end)
        self._writer = SqliteWriter(reach, poll_seconds=settings.poll_seconds)
        # Long reads have their own thread and connection, so that commits do not wait for them.
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sideband-reader")
        self._connection: apsw.Connection | None = None

    # Opening and closing.

    async def start(self, now_ms: Callable[[], int]) -> None:
        """Open the file; call this before anything else."""
        bell = Doorbell.beside(self.path)
        begin = functools.partial(SqliteCommitter, self.path, self._settings, bell=bell, now_ms=now_ms)
        started: asyncio.Future[int] = self._loop.create_future()
        self._writer.start(begin, _settle(started))
        try:
            self._feed.announced = await started
        except BaseException:
            # If the caller was cancelled, the thread is still running.
            self._writer.put(Stop(_settle(self._loop.create_future())))
            self._is_closed = True
            if bell is not None:
                bell.close()
            raise
        self._bell = bell
        if bell is not None:
            # An event loop without add_reader relies on polling.
            with contextlib.suppress(NotImplementedError):
                self._loop.add_reader(bell.fileno(), self._answer)

    async def close(self) -> None:
        """Finish all requested commits, release the leases and close the file."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        # Shielded: a cancelled caller must not leave the store half closed.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
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
            # Closing the last connection checkpoints the log into the file. If that fails, the log stays and nothing is lost.
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
        """Load a session; see `Journal.open`."""
        replica = self._replica(session_id)
        if not replica.is_open:
            loaded, ahead, seen = await self._read(lambda reader: _restored(reader.load(session_id)))
            await self._ask(lambda committer: committer.adopt(replica, loaded, ahead, seen))
        return replica

    def state(self, session_id: str) -> SessionState:
        """The durable state of an open session. Read it only; commits change it."""
        return self._replica(session_id).seen

    def nothing_waits(self, session_id: str) -> bool:  # noqa: ARG002 - the same for every session
        """Always False, because another process may have added something."""
        return False

    async def commit(
        self,
        session_id: str,
        decide: Decision[ValueT],
        *,
        lease: Lease | None = None,
        receipts: Sequence[str] = (),
    ) -> ValueT:
        """Decide and commit; returns when the events are on the disk. See `Journal.commit`."""
        if self._is_closed:
            raise StoreClosed
        done: asyncio.Future[ValueT] = self._loop.create_future()
        replica = self._replicas.get(session_id) or self._replica(session_id)
        self._writer.put(Order(replica, decide, lease, done, receipts))
        return await done

    async def read(self, session_id: str, look: Callable[[SessionState], ValueT]) -> AsOf[ValueT]:
        """Look at the newest state on the writer's thread, which has read what other processes committed."""
        replica = self._replica(session_id)
        return await self._ask(lambda committer: committer.read(replica, look))

    async def entry(self, session_id: str) -> SessionEntry | None:
        check_name(session_id)
        return await self._read(lambda reader: reader.entry(session_id))

    async def sessions(
        self, *, records: Mapping[str, str] = NO_RECORDS, before: int | None = None, limit: int = 100
    ) -> Sequence[SessionEntry]:
        if any(indexed(value) is None for value in records.values()):
            return ()
        return await self._read(lambda reader: reader.entries(records=records, before=before, limit=limit))

    def _replica(self, session_id: str) -> Replica:
        replica = self._replicas.get(session_id)
        if replica is None:
            check_name(session_id)
            replica = self._replicas.add(session_id, Replica(session_id))
        return replica

    # Leases.

    async def acquire(self, session_id: str, holder: str) -> Lease:
        """Lease a session; the lease of a process that has died is free at once."""
        check_name(session_id)
        lease = await self._ask(lambda committer: committer.acquire(session_id, holder))
        self._held[session_id] = lease
        return lease

    async def renew(self, lease: Lease) -> Lease:
        renewed = await self._ask(lambda committer: committer.renew(lease))
        self._held[lease.session_id] = renewed
        return renewed

    async def release(self, lease: Lease) -> None:
        held = self._held.get(lease.session_id)
        if held is not None and held.token == lease.token:
            del self._held[lease.session_id]
        await self._ask(lambda committer: committer.release(lease))

    # News.

    def wake(self, session_id: str) -> asyncio.Event:
        """An event that is set at each commit of the session, by any process; clear it before waiting for the next one."""
        return self._feed.wake(session_id)

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """Past and future events after `after`, of all processes."""
        return self._feed.subscribe(self._page, EventFilter(session_id, kind_prefix), after)

    async def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """The events after `after` that are in the journal now."""
        until = await self._read(lambda reader: reader.last())
        async with contextlib.aclosing(
            pages(self._page, EventFilter(session_id, kind_prefix), Span(after, until))
        ) as past:
            async for logged in past:
                yield logged

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Write a snapshot of a session, delete all but its last events, and return the number of deleted ones."""
        replica = self._replica(session_id)
        return await self._ask(lambda committer: committer.prune(replica, keep=keep_events))

    # Other threads.

    async def _page(self, wanted: EventFilter, span: Span) -> Sequence[Logged]:
        return await self._read(lambda reader: reader.page(wanted, span))

    async def _read(self, read: Callable[[SqliteReader], ValueT]) -> ValueT:
        self._refuse_closed()
        return await self._loop.run_in_executor(self._reader, self._read_now, read)

    def _read_now(self, read: Callable[[SqliteReader], ValueT]) -> ValueT:
        try:
            if self._connection is None:
                self._connection = connect(
                    self.path, busy_seconds=self._settings.patience_seconds, vfs=self._settings.vfs
                )
                self._connection.pragma("query_only", "on")
            return read(SqliteReader(self._connection, self.path))
        except schema.UNREADABLE as error:
            if isinstance(error, apsw.IOError) and self._connection is not None:
                # A new connection may work again.
                self._connection.close(force=True)
                self._connection = None
            raise schema.refusal(error, self.path) from error

    async def _ask(self, run: Callable[[SqliteCommitter], ValueT]) -> ValueT:
        self._refuse_closed()
        done: asyncio.Future[ValueT] = self._loop.create_future()
        self._writer.put(SqliteErrand(run, _settle(done)))
        return await done

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreClosed

    def _post(self, function: Callable[..., None], *args: object) -> None:
        # If the event loop is closed, there is no caller left to tell.
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
        resolve(delivery.answers)

    def _answer(self) -> None:
        if self._bell is not None:
            self._bell.answer()
        # Several datagrams need only one read, after the last of them.
        if not self._is_rung:
            self._is_rung = True
            self._writer.put(SqliteErrand(self._look, _ignore))

    def _look(self, committer: SqliteCommitter) -> None:
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
    """The next commit reports the same error."""

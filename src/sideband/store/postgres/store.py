"""Sessions on a PostgreSQL server, which processes of many machines can have open."""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from sideband.core.errors import StoreClosed, StoreError
from sideband.core.state import Decision, SessionState, ValueT
from sideband.ports import NO_RECORDS, AsOf, Lease, Logged, SessionEntry
from sideband.store.batch import Order
from sideband.store.cache import SessionCache
from sideband.store.codec import check_name, indexed
from sideband.store.feed import EventFilter, Feed, Gap, Span, pages
from sideband.store.postgres import lease as leases
from sideband.store.postgres import reader, schema
from sideband.store.postgres.committer import PostgresCommitter, PostgresRound
from sideband.store.postgres.connection import Connection, Link, ServerAddress, address_of
from sideband.store.postgres.listener import Interest, Listener
from sideband.store.postgres.reader import DamagedRow, JournalPage, last_sequence, load, wanted_page
from sideband.store.postgres.schema import refuse_pooler
from sideband.store.postgres.writer import PostgresErrand, PostgresWriter
from sideband.store.replica import Loaded, Replica
from sideband.store.settings import PostgresSettings, now_ms

DEFAULT_SETTINGS: Final = PostgresSettings()


def new_writer_id() -> str:
    return secrets.token_hex(16)


async def open_postgres(
    url: str,
    settings: PostgresSettings = DEFAULT_SETTINGS,
    *,
    new_writer_id: Callable[[], str] = new_writer_id,
    now_ms: Callable[[], int] = now_ms,
) -> "PostgresStore":
    """Open the store of a database, which is created if it does not exist.

    A store that is incomplete or newer is refused; damaged rows are refused when they are read.
    """
    store = PostgresStore(address_of(url), settings, writer_id=new_writer_id(), now_ms=now_ms)
    await store.start()
    return store


class PostgresStore:
    """A store in a database, bound to the event loop on which it was opened; made by `open_postgres`."""

    def __init__(
        self, address: ServerAddress, settings: PostgresSettings, *, writer_id: str, now_ms: Callable[[], int]
    ) -> None:
        self.address = address
        self._settings = settings
        self._held: dict[str, Lease] = {}
        # A session that is leased here stays in memory, because its run reads it all the time.
        self._replicas: SessionCache[Replica] = SessionCache(
            settings.sessions_at_hand, needed=lambda replica: replica.session_id in self._held
        )
        self._views = SessionViews(self._replicas, place=address.shown)
        self._feed = Feed(0, subscriber_events=settings.subscriber_events)
        self._followers = 0
        self._unreadable: set[str] = set()
        self._is_behind = False
        self._catching_up: asyncio.Task[None] | None = None
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None
        # Four connections, so that commits and lease renewals do not wait for reads.
        self._reading, self._leasing, self._writing, listening = (self._link() for _ in range(4))
        self._listener = Listener(listening, self, poll_seconds=settings.poll_seconds)
        self._writer = PostgresWriter(
            PostgresCommitter(self._writing, settings, writer_id=writer_id, now_ms=now_ms), deliver=self._deliver
        )

    def _link(self) -> Link:
        return Link(self.address, patience_seconds=self._settings.patience_seconds)

    # Opening and closing.

    async def start(self) -> None:
        """Prepare the tables and begin to listen; call this before anything else."""
        try:
            await self._reading.at_once(functools.partial(schema.prepare, place=self.address.shown))
            await refuse_pooler(self._reading, self._leasing)
            self._feed.announced = await self._listener.listen()
        except BaseException:
            self._is_closed = True
            await self._stop()
            raise
        self._listener.start(self._feed.end)

    async def close(self) -> None:
        """Finish all requested commits, release the leases and close the connections.

        Cancelling the caller does not stop it.
        """
        if self._closing is None:
            self._is_closed = True
            self._closing = asyncio.create_task(self._close(), name="sideband-closing")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for lease in tuple(self._held.values()):
            # A lease that cannot be released expires.
            with contextlib.suppress(StoreError):
                await self._leasing.at_once(functools.partial(leases.release, lease=lease))
        await self._stop()
        self._feed.end()

    async def _stop(self) -> None:
        await self._writer.stop()
        await self._listener.stop()
        if self._catching_up is not None:
            self._catching_up.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._catching_up
        for link in (self._reading, self._leasing, self._writing):
            await link.shut()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreClosed

    # Sessions.

    async def open(self, session_id: str) -> Replica:
        """Load a session; its state follows the commits of all processes."""
        self._refuse_closed()
        replica = self._replica(session_id)
        if not replica.is_open:
            loaded = await self._views.read(replica, self._reading.run)
            if not replica.is_loaded:
                self._writer.committer.fetched[replica] = loaded
        return replica

    def state(self, session_id: str) -> SessionState:
        """The state of an open session, as far as this process has read it. Read it only; commits change it."""
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
        """Decide and commit; returns when the events are on the disk of the server. See `Journal.commit`."""
        self._refuse_closed()
        replica = self._replicas.get(session_id) or self._replica(session_id)
        self._views.expect(replica)
        done: asyncio.Future[ValueT] = asyncio.get_running_loop().create_future()
        self._writer.put(Order(replica, decide, lease, done, receipts))
        return await done

    async def read(self, session_id: str, look: Callable[[SessionState], ValueT]) -> AsOf[ValueT]:
        """Read the events since the last ones that were shown, then look at the state that is shown."""
        replica = await self.open(session_id)
        while True:
            news = await self._reading.run(
                functools.partial(reader.since, session_id=session_id, after=replica.seen_at, place=self.address.shown)
            )
            if replica.is_open and replica.seen_at >= news.pruned_through:
                replica.show_news(news.entries)
            if replica.is_open and replica.seen_at >= news.pruned_through:
                replica.seen.attended = news.attended
                # Commits of this process may have been shown since the events were read.
                return AsOf(look(replica.seen), max(news.last, replica.seen_at))
            # Events were pruned before they were read here, or do not fit: load the session again, or report the damage.
            await self._views.read(replica, self._reading.run)

    async def entry(self, session_id: str) -> SessionEntry | None:
        self._refuse_closed()
        check_name(session_id)
        return await self._reading.run(functools.partial(reader.entry, session_id=session_id, place=self.address.shown))

    async def sessions(
        self, *, records: Mapping[str, str] = NO_RECORDS, before: int | None = None, limit: int = 100
    ) -> Sequence[SessionEntry]:
        self._refuse_closed()
        if any(indexed(value) is None for value in records.values()):
            return ()
        return await self._reading.run(
            functools.partial(reader.entries, records=records, before=before, limit=limit, place=self.address.shown)
        )

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Write a snapshot of a session, delete all but its last events, and return the number of deleted ones."""
        self._refuse_closed()
        check_name(session_id)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writer.put(PostgresErrand(lambda committer: committer.prune(session_id, keep=keep_events), done))
        return await done

    def _replica(self, session_id: str) -> Replica:
        replica = self._replicas.get(session_id)
        if replica is None:
            check_name(session_id)
            replica = self._replicas.add(session_id, Replica(session_id))
        return replica

    # Leases.

    async def acquire(self, session_id: str, holder: str) -> Lease:
        self._refuse_closed()
        check_name(session_id)
        lease = await self._leasing.run(
            functools.partial(
                leases.acquire, session_id=session_id, holder=holder, seconds=self._settings.lease_seconds
            )
        )
        self._held[session_id] = lease
        return lease

    async def renew(self, lease: Lease) -> Lease:
        self._refuse_closed()
        renewed = await self._leasing.run(
            functools.partial(leases.renew, lease=lease, seconds=self._settings.lease_seconds)
        )
        self._held[lease.session_id] = renewed
        return renewed

    async def release(self, lease: Lease) -> None:
        self._refuse_closed()
        held = self._held.get(lease.session_id)
        if held is not None and held.token == lease.token:
            del self._held[lease.session_id]
        await self._leasing.run(functools.partial(leases.release, lease=lease))

    # Events.

    def wake(self, session_id: str) -> asyncio.Event:
        """An event that is set at each commit of the session, by any process; clear it before waiting for the next one."""
        return self._feed.wake(session_id)

    async def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """Past and future events after `after`, of all processes."""
        self._refuse_closed()
        # The first subscriber makes the listener read all sessions; before that, skipping ahead is cheap.
        if not self._followers:
            await self._reading.run(self._listener.read)
        self._followers += 1
        try:
            told = self._feed.subscribe(self._page, EventFilter(session_id, kind_prefix), after)
            async with contextlib.aclosing(told):
                async for entry in told:
                    yield entry
        finally:
            self._followers -= 1

    async def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """The events after `after` that are in the journal now."""
        self._refuse_closed()
        until = await self._reading.run(last_sequence)
        async with contextlib.aclosing(
            pages(self._page, EventFilter(session_id, kind_prefix), Span(after, until))
        ) as past:
            async for entry in past:
                yield entry

    async def _page(self, wanted: EventFilter, span: Span) -> Sequence[Logged]:
        self._refuse_closed()
        return await self._reading.run(
            functools.partial(wanted_page, wanted=wanted, span=span, place=self.address.shown)
        )

    # For the writer and the listener.

    @property
    def announced(self) -> int:
        """The last sequence up to which all events of interest were delivered."""
        return self._feed.announced

    def interest(self) -> Interest:
        """All sessions if the store has subscribers, else those that are in memory or waited for."""
        if self._wants_all:
            return Interest(None)
        followed = {replica.session_id for replica in self._replicas} | self._feed.awaited
        return Interest(followed - self._unreadable)

    @property
    def _wants_all(self) -> bool:
        return bool(self._followers) and not self._unreadable

    def wants(self, session_id: str) -> bool:
        """Whether the events of one session are needed."""
        is_followed = session_id in self._feed.awaited or self._replicas.peek(session_id) is not None
        return self._wants_all or (is_followed and session_id not in self._unreadable)

    def is_own(self, backend: int) -> bool:
        """Whether this server process is that of the writer."""
        return backend == self._writing.backend

    def deliver(self, news: JournalPage, through: int) -> None:
        """Deliver events of this or other processes."""
        self._views.tell(news.entries)
        self._feed.announce(news.entries)
        self._feed.announced = max(self._feed.announced, through)

    async def on_gap(self, gap: Gap, connection: Connection) -> None:
        """Events were pruned before they were read: load their sessions again; subscribers to them get an error."""
        for session_id in gap.sessions:
            replica = self._replicas.peek(session_id)
            if replica is not None and replica.is_open:
                await self._views.read(replica, lambda work: work(connection))
        self._feed.skip(gap)

    def on_damage(self, error: DamagedRow) -> None:
        """A row is damaged: end all subscriptions. Waiters of the session are woken, and its next commit raises the error."""
        self._unreadable.add(error.session_id)
        self._feed.end(error)
        self._feed.wake(error.session_id).set()

    def _deliver(self, done: PostgresRound) -> None:
        self._views.deliver(done)
        if self._feed.announced == done.base:
            self._feed.pass_on(done.written)
        elif done.written:
            # Other processes have committed in between, and events are delivered in the order of the journal.
            self._is_behind = True
            if self._catching_up is None:
                self._catching_up = asyncio.create_task(self._catch_up(), name="sideband-catching-up")

    async def _catch_up(self) -> None:
        while self._is_behind:
            self._is_behind = False
            # What cannot be read now, the listener reads later.
            with contextlib.suppress(StoreError):
                await self._reading.run(self._listener.read)
        self._catching_up = None


Run: TypeAlias = Callable[[Callable[[Connection], Awaitable[Loaded]]], Awaitable[Loaded]]


class SessionViews:
    """The states that the program reads, on the event loop. Events that arrive while a session is loaded are added after."""

    def __init__(self, replicas: SessionCache[Replica], *, place: str) -> None:
        self._replicas = replicas
        self._place = place
        # The events that arrived since each running load of a session began.
        self._aside: dict[str, dict[int, list[Logged]]] = {}
        # The events that arrived for sessions that a commit loads, and that are shown together with it.
        self._unseen: WeakKeyDictionary[Replica, list[Logged]] = WeakKeyDictionary()

    async def read(self, replica: Replica, run: Run) -> Loaded:
        """Load and show a session, including the events that arrive meanwhile."""
        meanwhile: list[Logged] = []
        readers = self._aside.setdefault(replica.session_id, {})
        readers[id(meanwhile)] = meanwhile
        try:
            loaded = await run(functools.partial(load, session_id=replica.session_id, place=self._place))
            state = await asyncio.to_thread(loaded.restore)
        finally:
            del readers[id(meanwhile)]
            if not readers:
                self._aside.pop(replica.session_id, None)
        replica.show(state, loaded.at)
        replica.show_news(meanwhile)
        return loaded

    def expect(self, replica: Replica) -> None:
        """Announce a commit: if the session is not shown yet, the commit will load it."""
        if not replica.is_open:
            self._unseen.setdefault(replica, [])

    def deliver(self, done: PostgresRound) -> None:
        """Show what a group of commits has loaded and written."""
        for fresh in done.loaded:
            # The answer to a commit may arrive after later events of other processes.
            if not fresh.replica.is_open or fresh.replica.seen_at <= fresh.at:
                fresh.replica.show(fresh.state, fresh.at)
        self.tell(done.news)
        self.tell(done.written)
        for fresh in done.loaded:
            meanwhile = self._unseen.pop(fresh.replica, ())
            if fresh.replica.is_open:
                fresh.replica.show_news(meanwhile)

    def tell(self, entries: Iterable[Logged]) -> None:
        """Add events to the sessions that are shown or being loaded."""
        news: dict[str, list[Logged]] = {}
        for entry in entries:
            news.setdefault(entry.session_id, []).append(entry)
        for session_id, logged in news.items():
            for meanwhile in self._aside.get(session_id, {}).values():
                meanwhile.extend(logged)
            replica = self._replicas.peek(session_id)
            if replica is None:
                continue
            if replica.is_open:
                replica.show_news(logged)
            elif replica in self._unseen:
                self._unseen[replica].extend(logged)

"""Sessions on a PostgreSQL server, which any number of processes on any number of machines may have open."""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from sideband.core.failures import StoreClosed, StoreError
from sideband.core.state import SessionState
from sideband.ports import Committed, Decision, Lease, Logged
from sideband.store.batch import Order
from sideband.store.feed import Feed, Gap, Span, Wanted, pages
from sideband.store.names import check_name
from sideband.store.postgres import lease as leases
from sideband.store.postgres import schema
from sideband.store.postgres.committing import Committer, PostgresSettings, Round
from sideband.store.postgres.link import Address, Connection, Link, address_of
from sideband.store.postgres.listener import Interest, Listener
from sideband.store.postgres.pooler import refuse_pooler
from sideband.store.postgres.reading import DamagedRow, Page, last_sequence, wanted_page
from sideband.store.postgres.showing import Show
from sideband.store.postgres.writer import Errand, Writer
from sideband.store.replica import Replica
from sideband.store.roster import Roster

DEFAULT_SETTINGS: Final = PostgresSettings()


def new_writer_id() -> str:
    """A name that no other process has."""
    return secrets.token_hex(16)


async def open_postgres(
    url: str, settings: PostgresSettings = DEFAULT_SETTINGS, *, new_writer_id: Callable[[], str] = new_writer_id
) -> "PostgresStore":
    """Open the store of a database, or make one where there is none; one that is damaged or newer is refused."""
    store = PostgresStore(address_of(url), settings, writer_id=new_writer_id())
    await store.start()
    return store


class PostgresStore:
    """Belongs to the event loop it was opened on; `open_postgres` makes one."""

    def __init__(self, address: Address, settings: PostgresSettings, *, writer_id: str) -> None:
        self.address = address
        self._settings = settings
        self._held: dict[str, Lease] = {}
        # What runs here is read at any moment.
        self._replicas: Roster[Replica] = Roster(
            settings.sessions_at_hand, needed=lambda replica: replica.session_id in self._held
        )
        self._show = Show(self._replicas, place=address.shown)
        self._feed = Feed(0, subscriber_events=settings.subscriber_events)
        self._followers = 0
        self._unreadable: set[str] = set()
        self._is_behind = False
        self._catching_up: asyncio.Task[None] | None = None
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None
        # Each has a connection of its own, so that nobody who writes or renews a lease waits for somebody who reads.
        self._reading, self._leasing, self._writing, listening = (self._link() for _ in range(4))
        self._listener = Listener(listening, self, poll_seconds=settings.poll_seconds)
        self._writer = Writer(Committer(self._writing, settings, writer_id=writer_id), deliver=self._deliver)

    def _link(self) -> Link:
        return Link(self.address, patience_seconds=self._settings.patience_seconds)

    # Opening and closing.

    async def start(self) -> None:
        """Have the tables, and listen; nothing else may be asked of the store before."""
        try:
            await self._reading.at_once(functools.partial(schema.prepare, place=self.address.shown))
            await refuse_pooler(self._reading, self._leasing)
            self._feed.announced = await self._listener.listen()
        except BaseException:
            self._is_closed = True
            await self._let_go()
            raise
        self._listener.start(self._feed.end)

    async def close(self) -> None:
        """Finish what was asked for, and let go of the server; sessions stay as they are.

        Whoever gives up waiting for that does not keep it from being done.
        """
        if self._closing is None:
            self._is_closed = True
            self._closing = asyncio.create_task(self._close(), name="sideband-closing")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for lease in tuple(self._held.values()):
            # A lease that cannot be given back lapses.
            with contextlib.suppress(StoreError):
                await self._leasing.at_once(functools.partial(leases.release, lease=lease))
        await self._let_go()
        self._feed.end()

    async def _let_go(self) -> None:
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
        """Have a session at hand; its state follows what others log of it."""
        self._refuse_closed()
        replica = self._replica(session_id)
        if not replica.is_open:
            loaded = await self._show.read(replica, self._reading.run)
            if not replica.is_loaded:
                self._writer.committer.fetched[replica] = loaded
        return replica

    def state(self, session_id: str) -> SessionState:
        """The state of an open session as far as this process has been told. Read it; only commits change it."""
        return self._replica(session_id).seen

    def nothing_waits(self, session_id: str) -> bool:  # noqa: ARG002 - of no session this process knows
        """No: another process may have put something there."""
        return False

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        """Decide and make durable; the reply comes when what was decided is on the server's disk."""
        self._refuse_closed()
        replica = self._replicas.get(session_id) or self._replica(session_id)
        self._show.expect(replica)
        done: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._writer.put(Order(replica, decide, lease, done))
        return await done

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Write a snapshot of a session and take from the journal all but its last events; how many are gone."""
        self._refuse_closed()
        check_name(session_id)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writer.put(Errand(lambda committer: committer.prune(session_id, keep=keep_events), done))
        return await done

    def _replica(self, session_id: str) -> Replica:
        replica = self._replicas.get(session_id)
        if replica is None:
            check_name(session_id)
            replica = self._replicas.add(session_id, Replica(session_id))
        return replica

    # Leases.

    async def acquire(self, session_id: str, holder: str) -> Lease:
        """Take a session on lease."""
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
        """The same lease for as long again."""
        self._refuse_closed()
        renewed = await self._leasing.run(
            functools.partial(leases.renew, lease=lease, seconds=self._settings.lease_seconds)
        )
        self._held[lease.session_id] = renewed
        return renewed

    async def release(self, lease: Lease) -> None:
        """Give it back."""
        self._refuse_closed()
        held = self._held.get(lease.session_id)
        if held is not None and held.token == lease.token:
            del self._held[lease.session_id]
        await self._leasing.run(functools.partial(leases.release, lease=lease))

    # Those who want news.

    def wake(self, session_id: str) -> asyncio.Event:
        """Set at each commit of the session, whichever process made it; whoever waits for one clears it first."""
        return self._feed.wake(session_id)

    async def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What was and will be logged behind `after`, by whichever process."""
        self._refuse_closed()
        # Before there is somebody to tell it all to, catching up is cheap.
        if not self._followers:
            await self._reading.run(self._listener.read)
        self._followers += 1
        try:
            told = self._feed.subscribe(self._page, Wanted(session_id, kind_prefix), after)
            async with contextlib.aclosing(told):
                async for entry in told:
                    yield entry
        finally:
            self._followers -= 1

    async def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What is logged behind `after` now: for exports."""
        self._refuse_closed()
        until = await self._reading.run(last_sequence)
        async with contextlib.aclosing(pages(self._page, Wanted(session_id, kind_prefix), Span(after, until))) as past:
            async for entry in past:
                yield entry

    async def _page(self, wanted: Wanted, span: Span) -> Sequence[Logged]:
        self._refuse_closed()
        return await self._reading.run(
            functools.partial(wanted_page, wanted=wanted, span=span, place=self.address.shown)
        )

    # What the writer and the listener tell.

    @property
    def announced(self) -> int:
        """Up to where everybody here was told what they want to know."""
        return self._feed.announced

    def interest(self) -> Interest:
        """Somebody who follows the store wants everything; a session is followed while it is at hand."""
        if self._wants_all:
            return Interest(None)
        followed = {replica.session_id for replica in self._replicas} | self._feed.awaited
        return Interest(followed - self._unreadable)

    @property
    def _wants_all(self) -> bool:
        return bool(self._followers) and not self._unreadable

    def wants(self, session_id: str) -> bool:
        """The same of one session."""
        is_followed = session_id in self._feed.awaited or self._replicas.peek(session_id) is not None
        return self._wants_all or (is_followed and session_id not in self._unreadable)

    def is_own(self, backend: int) -> bool:
        """Whether that is the writer's."""
        return backend == self._writing.backend

    def hear(self, news: Page, through: int) -> None:
        """Others, or we ourselves, have logged this."""
        self._show.tell(news.entries)
        self._feed.announce(news.entries)
        self._feed.announced = max(self._feed.announced, through)

    async def miss(self, gap: Gap, connection: Connection) -> None:
        """What was pruned before it was read here is in the snapshots; whoever follows the journal is told."""
        for replica in self._replicas:
            if replica.is_open:
                await self._show.read(replica, lambda work: work(connection))
        self._feed.skip(gap)

    def lose(self, error: DamagedRow) -> None:
        """Nobody can follow everything any longer; whoever waits for that session finds out with its next commit."""
        self._unreadable.add(error.session_id)
        self._feed.end(error)
        self._feed.wake(error.session_id).set()

    def _deliver(self, done: Round) -> None:
        self._show.deliver(done)
        if self._feed.announced == done.behind:
            self._feed.pass_on(done.written)
        elif done.written:
            # Others have written in between, and everybody is told in the order of the journal.
            self._is_behind = True
            if self._catching_up is None:
                self._catching_up = asyncio.create_task(self._catch_up(), name="sideband-catching-up")

    async def _catch_up(self) -> None:
        while self._is_behind:
            self._is_behind = False
            # What cannot be read now the listener reads when it can.
            with contextlib.suppress(StoreError):
                await self._reading.run(self._listener.read)
        self._catching_up = None

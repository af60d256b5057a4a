"""The stores, which must behave alike, and helpers for the tests that run on all of them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sideband.core.accept import Accepted, accept
from sideband.core.events import Event, Started
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.reminder import Draft
from sideband.core.state import Decided, Decision, SessionState
from sideband.core.trust import Provenance
from sideband.ports import Journal, Lease, Logged
from sideband.store.memory import MemoryStore
from sideband.store.postgres import PostgresSettings, PostgresStore, open_postgres
from sideband.store.postgres.reader import last_sequence
from sideband.store.sqlite import SqliteSettings, SqliteStore, open_sqlite
from sideband.testing import FakeClock
from tests.builders import counting_ids
from tests.decisions import saying
from tests.postgres import the_server
from tests.sessions import CLIENT
from tests.waiting import until

_Value = TypeVar("_Value")

# A test that takes longer has failed.
PATIENCE: Final = 60.0


class Twin(Protocol):
    """A file or database that several processes can open, each with its own store object."""

    def open(self) -> AbstractAsyncContextManager[Journal]:
        """Open it as another process would."""

    async def let_leases_lapse(self, store: Journal) -> None:
        """Let every lease expire."""

    def remove(self) -> None:
        """The test is over."""


class MemoryTwin:
    """There is only one process that can have it."""

    def __init__(self, _directory: Path) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(now_ms=self.clock.now_ms, lease_seconds=30)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[MemoryStore]:
        yield self.store
        await self.store.close()

    async def let_leases_lapse(self, _store: Journal) -> None:
        self.clock.advance(3_600)

    def remove(self) -> None:
        """Nothing is left of it."""


class SqliteTwin:
    """A file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "store.db"
        self.clock = FakeClock()
        self.now_ms = self.clock.now_ms

    @asynccontextmanager
    async def open(self, settings: SqliteSettings | None = None) -> AsyncIterator[SqliteStore]:
        store = await open_sqlite(self.path, settings or SqliteSettings(), now_ms=self.now_ms)
        try:
            yield store
        finally:
            await store.close()

    async def let_leases_lapse(self, _store: Journal) -> None:
        self.clock.advance(3_600)

    def remove(self) -> None:
        """Nothing is left of it."""


class PostgresTwin:
    """A database."""

    def __init__(self, _directory: Path) -> None:
        self.server = the_server()
        self.name = self.server.take()
        self.url = self.server.url(self.name)
        self.clock = FakeClock()
        self.now_ms = self.clock.now_ms

    @asynccontextmanager
    async def open(
        self, settings: PostgresSettings | None = None, *, url: str | None = None
    ) -> AsyncIterator[PostgresStore]:
        """Open it at its own address, or at that of a proxy."""
        store = await open_postgres(url or self.url, settings or PostgresSettings(), now_ms=self.now_ms)
        try:
            yield store
        finally:
            # A store that cannot be closed fails its test, and does not block the other tests.
            await asyncio.wait_for(store.close(), PATIENCE)

    async def let_leases_lapse(self, _store: Journal) -> None:
        self.execute("UPDATE sideband.session SET expires_at = expires_at - interval '1 hour'")

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement directly in the database, without a store."""
        return self.server.execute(statement, *values, database=self.name)

    def is_waited_for(self) -> None:
        """Returns when a connection waits for a lock."""
        self.server.wait_for(
            "SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()",
            database=self.name,
        )

    def is_left(self) -> None:
        """Returns when no connection is open."""
        self.server.wait_for(
            "SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = %s)", self.name, database="postgres"
        )

    def remove(self) -> None:
        self.server.give_back(self.name)


TWINS: Final[Mapping[str, Callable[[Path], Twin]]] = {
    "memory": MemoryTwin,
    "sqlite": SqliteTwin,
    "postgres": PostgresTwin,
}
# The stores that several processes can open, and that outlive them.
DURABLE: Final = tuple(name for name in TWINS if name != "memory")


@asynccontextmanager
async def two_of(twin: Twin) -> AsyncIterator[tuple[Journal, Journal]]:
    """The stores of two processes; in memory, both are the same store."""
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(twin.open())
        yield here, here if isinstance(twin, MemoryTwin) else await stack.enter_async_context(twin.open())


def played(story: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
    """Run the coroutine to its end, with a time-out."""
    return asyncio.run(asyncio.wait_for(story(), PATIENCE))


async def is_followed(store: Any, *, by: int = 1) -> None:  # noqa: ANN401 - inside, all stores have the same
    """Returns when `by` subscribers have read the past events and wait for new ones."""
    await until(lambda: store._feed.subscribers >= by)


async def took(source: AsyncGenerator[Logged, None], count: int) -> list[Logged]:
    """The next `count` events."""
    return [await anext(source) for _ in range(count)]


async def told(store: Journal, **wanted: Any) -> list[Logged]:  # noqa: ANN401 - those of history
    """All events that are in the journal now."""
    async with aclosing(store.history(**wanted)) as source:
        return [logged async for logged in source]


a_start: Final = saying(Started())


def so_many(count: int) -> Decision[tuple[Event, ...]]:
    """A decision for that many events."""
    return saying(*[Started()] * count)


async def written_at(store: Journal, session_id: str, decide: Decision[object], *, lease: Lease | None = None) -> int:
    """Commit; the last sequence of the store afterwards."""
    await store.commit(session_id, decide, lease=lease)
    return await last_of(store)


async def last_of(store: Journal) -> int:
    """The last sequence of a store."""
    match store:
        case MemoryStore():
            return store._last
        case SqliteStore():
            return await store._read(lambda reader: reader.last())
        case PostgresStore():
            return await store._reading.run(last_sequence)
    raise TypeError(type(store))


class Witness:
    """A decision that records a view of the state, and always returns the same events."""

    def __init__(self, look: Callable[[SessionState], object], *events: Event) -> None:
        self.seen: list[object] = []
        self._look = look
        self._events = events

    def __call__(self, state: SessionState) -> Decided[None]:
        self.seen.append(self._look(state))
        return Decided(self._events, None)


class Sender:
    """Sends reminders, and keeps the answers."""

    def __init__(self, store: Journal, provenance: Provenance = CLIENT, *, name: str = "r") -> None:
        self.store = store
        self.provenance = provenance
        self.new_id = counting_ids(f"{name}-")
        self.answers: list[Accepted] = []

    async def send(self, draft: Draft, *, session_id: str = "s", limits: Limits = DEFAULT_LIMITS) -> Accepted:
        new_id = self.new_id()
        accepted = await self.store.commit(
            session_id,
            lambda state: accept(state, draft, self.provenance, new_id=new_id, limits=limits),
            receipts=() if draft.caller_id is None else (draft.caller_id,),
        )
        self.answers.append(accepted)
        return self.answers[-1]

"""The sessions that a process keeps in memory: a limited number, and the others are loaded again when needed."""

import asyncio
import gc
from contextlib import AbstractAsyncContextManager
from weakref import ref

import pytest

from sideband.core.events import Started
from sideband.store.postgres import PostgresSettings, PostgresStore
from sideband.store.replica import Replica
from sideband.store.sqlite import SqliteSettings, SqliteStore
from tests.builders import a_draft
from tests.decisions import saying
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import PostgresTwin, Sender, SqliteTwin, Twin, a_start, played, told
from tests.waiting import until


def opened(twin: Twin, at_hand: int = 3) -> AbstractAsyncContextManager[SqliteStore | PostgresStore]:
    """A store that keeps `at_hand` sessions in memory."""
    if isinstance(twin, PostgresTwin):
        return twin.open(PostgresSettings(sessions_at_hand=at_hand, snapshot_events=5))
    assert isinstance(twin, SqliteTwin)
    return twin.open(SqliteSettings(sessions_at_hand=at_hand, snapshot_events=5))


def replicas() -> int:
    gc.collect()
    return sum(isinstance(thing, Replica) for thing in gc.get_objects())


async def visit(store: SqliteStore | PostgresStore, count: int) -> None:
    for number in range(count):
        await store.open(f"visited-{number}")
        await store.commit(f"visited-{number}", a_start)


def test_idle_sessions_do_not_stay_in_memory(durable: Twin) -> None:
    async def story() -> None:
        async with opened(durable) as store:
            before = replicas()
            await visit(store, 20)
            # The threads of the store may still hold a session for a moment.
            await until(lambda: replicas() - before <= 3)
            assert len(store._feed._wakes) == 0

    played(story)


def test_a_session_that_was_forgotten_is_as_it_was(durable: Twin) -> None:
    async def story() -> None:
        async with opened(durable) as store:
            sender = Sender(store)
            first = await sender.send(a_draft(dedupe_key="k"))
            await visit(store, 5)
            with pytest.raises(LookupError, match="await open"):
                store.state("s")
            # A commit loads the session again.
            again = await sender.send(a_draft(dedupe_key="k"))
            assert again.deduped_count == 1
            await store.open("s")
            assert [item.id for item in store.state("s").inbox.items()] == [again.reminder_id]
            assert first.reminder_id != again.reminder_id

    played(story)


def test_a_session_that_is_referenced_stays_and_gets_every_event(durable: Twin) -> None:
    async def story() -> None:
        async with opened(durable) as store, durable.open() as other:
            hold = await store.open("s")
            await visit(store, 5)
            wake = store.wake("s")
            await other.commit("s", a_start)
            await wake.wait()
            assert store.state("s").running
            gone = ref(hold)
            del hold
            await visit(store, 5)
            gc.collect()
            assert gone() is None

    played(story)


def test_a_session_that_runs_here_stays(durable: Twin) -> None:
    async def story() -> None:
        async with opened(durable) as store:
            await store.open("s")
            lease = await store.acquire("s", "me")
            await visit(store, 10)
            await store.commit("s", a_start, lease=lease)
            assert store.state("s").running
            await store.release(lease)
            await visit(store, 10)
            with pytest.raises(LookupError):
                store.state("s")

    played(story)


def test_many_at_once_find_one_session_however_few_are_at_hand(durable: Twin) -> None:
    async def story() -> None:
        async with opened(durable, 1) as store:

            async def work(name: str) -> None:
                for _ in range(10):
                    await store.open(name)
                    await store.commit(name, saying(Started()))

            await asyncio.gather(*(work(f"s{number % 4}") for number in range(12)))
            assert [entry.sequence for entry in await told(store)] == list(range(1, 121))
            hold = await store.open("s0")
            async with durable.open() as other:
                await other.open("s0")
                assert facts(store.state("s0")) == facts(other.state("s0"))
            del hold

    played(story)

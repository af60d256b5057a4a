"""What a store has in memory, keeps and leases, how that is configured, and what it refuses rather than lose."""

import asyncio
import gc
from contextlib import suppress

import pytest

from sideband.core.errors import CursorExpired, NotStorable, SessionBusy, StoreDamaged, StoreUnavailable
from sideband.core.events import Started
from sideband.loop.run import LoopStatus
from sideband.ports import Lease
from sideband.runtime.store import open_store
from sideband.store.replica import Replica
from sideband.testing import MemoryStore, run_schedule
from tests.agents import AnAgent
from tests.stored_agents import address
from tests.unit.store.twins import MemoryTwin, SqliteTwin, Twin, a_start, played, so_many, told


def url_of(twin: Twin) -> str:
    return "memory:" if isinstance(twin, MemoryTwin) else address(twin)


def replicas() -> int:
    """How many sessions this process has in memory."""
    gc.collect()
    return sum(isinstance(thing, Replica) for thing in gc.get_objects())


# Memory and retention.


@pytest.mark.requirement("store:bounded:idle-sessions-leave-memory")
def test_unreferenced_sessions_leave_memory_and_are_as_they_were(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        before = replicas()
        async with open_store(address(sqlite), sessions_at_hand=3) as store:
            held = await store.session("held")
            await held.remind("held")
            for number in range(20):
                await (await store.session(f"s{number}")).remind(f"fact {number}")
            assert replicas() - before <= 3 + 1
            assert [entry.reminder.body for entry in await held.pending()] == ["held"]
            for number in range(20):
                waiting = await (await store.session(f"s{number}")).pending()
                assert [entry.reminder.body for entry in waiting] == [f"fact {number}"]

    played(story)


@pytest.mark.requirement("store:bounded:retention-is-configuration")
def test_how_much_is_kept_is_said_where_the_store_is_opened(twin: Twin) -> None:
    async def story() -> None:
        async with open_store(url_of(twin), kept_events=5, snapshot_events=10) as store:
            for _ in range(6):
                await store.journal.commit("s", so_many(40))
            await store.journal.commit("other", a_start)
            with pytest.raises(CursorExpired) as expired:
                await told(store.journal)
            assert expired.value.oldest >= 160
            assert len(await told(store.journal, session_id="s", after=expired.value.oldest)) >= 5

    played(story)


# Leases.


@pytest.mark.requirement("store:lease:time-is-configuration")
def test_how_long_a_lease_holds_is_said_where_the_store_is_opened(twin: Twin) -> None:
    async def story() -> None:
        async with open_store(url_of(twin), lease_seconds=0.001) as store:
            await store.journal.acquire("s", "one")
            # As long as that takes: the lease lapses meanwhile.
            while True:
                with suppress(SessionBusy):
                    taken = await store.journal.acquire("s", "another")
                    break
            assert (taken.holder, taken.token) == ("another", 2)

    played(story)


class Unreachable(MemoryStore):
    """Leases lapse, and none can be renewed."""

    def __init__(self) -> None:
        super().__init__(now_ms=lambda: int(asyncio.get_running_loop().time() * 1_000), lease_seconds=30)

    async def renew(self, lease: Lease) -> Lease:
        raise StoreUnavailable(f"the lease on {lease.session_id} cannot be renewed now")


@pytest.mark.requirement("store:lease:lapsed-ends-the-run")
def test_a_run_whose_lease_cannot_be_renewed_ends_when_it_has_lapsed() -> None:
    ended: list[float] = []

    async def line(_view: object) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(asyncio.get_running_loop().time())
        return "never"

    agent = AnAgent(line)
    store = Unreachable()
    agent.session.talk.journal = store

    async def main() -> None:
        result = await agent.play("Work.")
        assert result.status is LoopStatus.LEASE_LOST
        # The request that it began is still open for the next process.
        assert store.state(agent.session.id).request is not None

    run_schedule(1, main)
    assert ended == [30]


# Refusing rather than losing.


@pytest.mark.requirement("store:isolation:one-bad-session-fails-alone")
def test_a_session_that_cannot_be_used_fails_alone(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            bad, good = await asyncio.gather(
                store.commit("half \ud800", a_start), store.commit("good", a_start), return_exceptions=True
            )
            assert isinstance(bad, NotStorable)
            assert good == (Started(),)
            assert len(await told(store)) == 1

    played(story)


@pytest.mark.requirement("store:open:moved-file-accepts-nothing")
def test_a_file_that_is_taken_away_accepts_nothing_more(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with open_store(address(sqlite)) as store:
            session = await store.session("s")
            await session.remind("kept")
            aside = sqlite.path.rename(sqlite.path.with_name("aside.db"))
            with pytest.raises(StoreDamaged, match="removed or replaced"):
                await session.remind("lost")
            aside.rename(sqlite.path)
            assert [entry.reminder.body for entry in await session.pending()] == ["kept"]

    played(story)

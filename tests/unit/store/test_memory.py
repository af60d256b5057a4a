"""The store in memory, where it differs from the others."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.apply import fold
from sideband.core.errors import CursorExpired
from sideband.core.events import ResultRecorded, Revoked
from sideband.store.memory import MemoryStore
from sideband.testing import FakeClock
from tests.builders import a_draft
from tests.decisions import saying
from tests.loop_builders import others
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import Sender, a_start, so_many, told, written_at


def test_a_session_begins_with_its_first_mention() -> None:
    store = MemoryStore()
    state = store.state("s")
    assert not state.running
    assert store.state("s") is state
    assert store.state("other") is not state


def test_closing_it_changes_nothing() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.close()
        assert await written_at(store, "s", a_start) == 1

    asyncio.run(main())


def test_a_subscriber_that_goes_away_is_forgotten() -> None:
    store = MemoryStore()

    async def main() -> None:
        source = store.subscribe()
        waiting = asyncio.ensure_future(anext(source))
        await others()
        assert store.subscribers == 1
        await store.commit("a", a_start)
        assert (await waiting).sequence == 1
        await source.aclose()
        assert store.subscribers == 0

    asyncio.run(main())


def test_a_cancelled_waiter_is_forgotten_too() -> None:
    store = MemoryStore()

    async def main() -> None:
        source = store.subscribe()
        waiting = asyncio.ensure_future(anext(source))
        await others()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert store.subscribers == 0

    asyncio.run(main())


# How much is kept.


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=40), st.integers(0, 12), st.integers(1, 12)
)
def test_of_every_session_the_last_events_are_kept_and_no_number_is_used_twice(
    commits: list[tuple[str, int]], kept: int, look: int
) -> None:
    clock = FakeClock()
    store = MemoryStore(kept_events=kept, snapshot_events=look, now_ms=clock.now_ms)
    whole = MemoryStore(kept_events=None, now_ms=clock.now_ms)

    async def main() -> None:
        for name, count in commits:
            decide = so_many(count)
            assert await written_at(store, name, decide) == await written_at(whole, name, decide)
        for name in "abc":
            mine = [entry for entry in whole.journal if entry.session_id == name]
            left = [entry for entry in store.journal if entry.session_id == name]
            assert left == mine[len(mine) - len(left) :], "only from the beginning"
            assert len(left) >= min(kept, len(mine))
        assert store.journal[-1:] == whole.journal[-1:]

    asyncio.run(main())
    # What is kept is no more than what was to be kept, and what was logged since the last look.
    assert len(store.journal) <= 2 * (3 * kept + look) + 9


def test_a_session_of_which_something_is_gone_goes_on_as_before() -> None:
    async def main() -> None:
        store, whole = MemoryStore(kept_events=2, snapshot_events=4), MemoryStore(kept_events=None)
        for journal in (store, whole):
            sender = Sender(journal)
            for number in range(20):
                await sender.send(a_draft(dedupe_key=f"k{number % 3}"))
        assert len(store.journal) < len(whole.journal)
        before = facts(store.state("s"))
        assert before == facts(fold(entry.event for entry in whole.journal))
        with pytest.raises(KeyError):
            await store.commit("s", saying(Revoked(reminder_id="nobody")))
        assert facts(store.state("s")) == before, "rebuilt from what was kept of it"

    asyncio.run(main())


def test_a_cursor_before_pruned_events_is_expired() -> None:
    async def main() -> None:
        store = MemoryStore()
        for name in ("a", "b"):
            await store.commit(name, so_many(10))
        assert await store.prune("a", keep_events=4) == 6
        with pytest.raises(CursorExpired, match="after=6"):
            await told(store, after=5)
        assert [entry.sequence for entry in await told(store, after=6)] == list(range(7, 21))
        assert len(await told(store, session_id="b")) == 10
        assert await store.prune("b") == 9, "the last row stays: the next one counts from it"
        assert (await store.prune("b"), await store.prune("unknown")) == (0, 0)
        assert await written_at(store, "c", a_start) == 21

    asyncio.run(main())


def test_what_could_not_be_written_down_keeps_its_journal() -> None:
    async def main() -> None:
        store = MemoryStore(kept_events=0, snapshot_events=1)
        odd = ResultRecorded(call_id="c", status="ok", message={"role": "tool", "content": object()})
        for _ in range(3):
            await store.commit("s", saying(odd))
        assert len(store.journal) == 3

    asyncio.run(main())

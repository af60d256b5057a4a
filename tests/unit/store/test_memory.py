"""Sessions in memory: commits are all or nothing, and subscribers see one order without gaps."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

import pytest

from sideband.core.events import Event, Idled, Injected, Started
from sideband.core.lifecycle import inject
from sideband.core.state import SessionState
from sideband.ports import Logged
from sideband.store.memory import SUBSCRIBER_EVENTS, CursorLost, MemoryStore
from tests.builders import a_reminder
from tests.loop_builders import others


async def took(source: AsyncGenerator[Logged, None], count: int) -> list[Logged]:
    """The next so many."""
    return [await anext(source) for _ in range(count)]


def a_start(_state: SessionState) -> Iterable[Event]:
    return (Started(),)


# Commits.


def test_a_session_begins_with_its_first_mention() -> None:
    store = MemoryStore()
    state = store.state("s")
    assert not state.running
    assert store.state("s") is state
    assert store.state("other") is not state


def test_what_was_decided_is_applied_and_logged_in_one_sequence() -> None:
    store = MemoryStore()

    async def main() -> None:
        first = await store.commit("a", lambda _: (Started(), Idled()))
        second = await store.commit("b", a_start)
        assert (first.events, first.sequence) == ((Started(), Idled()), 2)
        assert (second.events, second.sequence) == ((Started(),), 3)

    asyncio.run(main())
    assert [(entry.sequence, entry.session_id) for entry in store.journal] == [(1, "a"), (2, "a"), (3, "b")]
    assert (store.state("a").running, store.state("b").running) == (False, True)


def test_a_decision_that_raises_changes_nothing_even_after_it_has_begun() -> None:
    store = MemoryStore()

    def decide(state: SessionState) -> Iterable[Event]:
        yield Started()
        yield from inject(state.live, a_reminder())
        raise LookupError("not this one")

    async def main() -> None:
        with pytest.raises(LookupError, match="not this one"):
            await store.commit("s", decide)

    asyncio.run(main())
    assert store.journal == []
    assert (store.state("s").running, len(store.state("s").live)) == (False, 0)
    assert not store.wake("s").is_set()


def test_a_decision_sees_the_state_as_it_is_in_its_commit() -> None:
    store = MemoryStore()
    seen: list[bool] = []

    def decide(state: SessionState) -> Iterable[Event]:
        seen.append(state.running)
        return (Idled(),) if state.running else (Started(),)

    async def main() -> None:
        await asyncio.gather(*(store.commit("s", decide) for _ in range(4)))

    asyncio.run(main())
    assert seen == [False, True, False, True]


def test_a_decision_with_nothing_to_write_writes_nothing_and_wakes_nobody() -> None:
    store = MemoryStore()
    committed = asyncio.run(store.commit("s", lambda _: ()))
    assert (committed.events, committed.sequence, store.journal) == ((), 0, [])
    assert not store.wake("s").is_set()


def test_a_commit_wakes_those_who_wait_for_its_session_and_nobody_else() -> None:
    store = MemoryStore()

    async def main() -> None:
        mine, other = asyncio.create_task(store.wake("a").wait()), asyncio.create_task(store.wake("b").wait())
        await others()
        await store.commit("a", a_start)
        await others()
        assert (mine.done(), other.done()) == (True, False)
        other.cancel()

    asyncio.run(main())


# Subscribers.


def test_a_subscriber_has_what_was_logged_and_then_what_is() -> None:
    store = MemoryStore()

    async def main() -> None:
        await store.commit("a", a_start)
        source = store.subscribe()
        assert [entry.event for entry in await took(source, 1)] == [Started()]
        waiting = asyncio.ensure_future(anext(source))
        await others()
        assert not waiting.done()
        await store.commit("b", lambda _: (Started(), Idled()))
        assert [entry.sequence for entry in [await waiting, *await took(source, 1)]] == [2, 3]
        await source.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("after", range(5))
def test_a_subscriber_that_names_its_cursor_has_neither_gap_nor_repeat(after: int) -> None:
    store = MemoryStore()

    async def main() -> list[int]:
        for _ in range(4):
            await store.commit("a", a_start)
        source = store.subscribe(after=after)
        waiting = asyncio.ensure_future(took(source, 5 - after))
        await others()
        await store.commit("a", a_start)
        return [entry.sequence for entry in await waiting]

    assert asyncio.run(main()) == list(range(after + 1, 6))


def test_a_subscriber_may_want_one_session_or_one_kind() -> None:
    store, reminder = MemoryStore(), a_reminder()

    async def main() -> None:
        for session in ("a", "b"):
            await store.commit(session, a_start)
            await store.commit(session, lambda state: inject(state.live, reminder))
        only_a = await took(store.subscribe(session_id="a"), 2)
        assert {entry.session_id for entry in only_a} == {"a"}
        kinds = await took(store.subscribe(kind_prefix="transcript.reminder."), 2)
        assert [type(entry.event) for entry in kinds] == [Injected, Injected]
        both = await took(store.subscribe(session_id="b", kind_prefix="transcript.reminder.inj"), 1)
        assert (both[0].session_id, type(both[0].event)) == ("b", Injected)

    asyncio.run(main())


def test_what_a_subscriber_does_not_want_does_not_wake_it() -> None:
    store = MemoryStore()

    async def main() -> None:
        source = store.subscribe(session_id="a", kind_prefix="transcript.")
        waiting = asyncio.ensure_future(anext(source))
        await others()
        await store.commit("a", a_start)
        await store.commit("b", lambda state: inject(state.live, a_reminder()))
        await others()
        assert not waiting.done()
        await store.commit("a", lambda state: inject(state.live, a_reminder()))
        assert (await waiting).sequence == 3

    asyncio.run(main())


def test_all_subscribers_see_the_same_order() -> None:
    store = MemoryStore()

    async def main() -> None:
        sources = [store.subscribe() for _ in range(3)]
        reading = [asyncio.ensure_future(took(source, 20)) for source in sources]
        await others()
        await asyncio.gather(*(store.commit(f"s{number % 3}", a_start) for number in range(20)))
        first, *rest = await asyncio.gather(*reading)
        assert [entry.sequence for entry in first] == list(range(1, 21))
        assert rest == [first, first]

    asyncio.run(main())


def test_a_subscriber_that_falls_behind_is_cut_off_with_its_cursor_and_goes_on_from_there() -> None:
    store = MemoryStore()

    async def main() -> None:
        slow, quick = store.subscribe(), store.subscribe()
        await store.commit("a", a_start)
        await took(slow, 1)
        await took(quick, 1)
        for _ in range(SUBSCRIBER_EVENTS + 5):
            await store.commit("a", a_start)
            await took(quick, 1)
        seen = await took(slow, SUBSCRIBER_EVENTS)
        assert [entry.sequence for entry in seen] == list(range(2, SUBSCRIBER_EVENTS + 2))
        with pytest.raises(CursorLost, match=f"after={SUBSCRIBER_EVENTS + 1}") as lost:
            await anext(slow)
        again = store.subscribe(after=lost.value.seen)
        assert [entry.sequence for entry in await took(again, 5)] == [SUBSCRIBER_EVENTS + 2 + more for more in range(5)]
        await quick.aclose()
        await again.aclose()

    asyncio.run(main())


def test_a_subscriber_that_goes_away_is_forgotten() -> None:
    store = MemoryStore()

    async def main() -> None:
        source = store.subscribe()
        await store.commit("a", a_start)
        await took(source, 1)
        assert len(store._subscribers) == 1
        await source.aclose()
        assert store._subscribers == []

    asyncio.run(main())


def test_cancelling_whoever_waits_for_news_forgets_it_too() -> None:
    store = MemoryStore()

    async def main() -> None:
        source = store.subscribe()
        waiting = asyncio.ensure_future(anext(source))
        await others()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert store._subscribers == []

    asyncio.run(main())

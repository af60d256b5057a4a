"""Subscribers of a store get every event, in one order, without gaps or repeats."""

import asyncio

import pytest

from sideband.core.errors import CursorExpired, CursorLost
from sideband.core.events import Idled, Injected, Started
from sideband.core.lifecycle import go_live
from sideband.core.trust import IN_PROCESS
from sideband.store.feed import PAGE_EVENTS, SUBSCRIBER_EVENTS
from tests.builders import a_reminder
from tests.decisions import deciding, saying
from tests.unit.store.twins import Twin, Witness, a_start, is_followed, played, so_many, told, took, written_at


def test_a_subscriber_has_what_was_logged_and_then_what_is(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            await store.commit("a", a_start)
            source = store.subscribe()
            assert [entry.event for entry in await took(source, 1)] == [Started()]
            waiting = asyncio.ensure_future(anext(source))
            await store.commit("b", saying(Started(), Idled()))
            assert [entry.sequence for entry in [await waiting, *await took(source, 1)]] == [2, 3]
            await source.aclose()

    played(story)


@pytest.mark.requirement("events:subscribe:after", "store:subscribers:same-order-for-all")
@pytest.mark.parametrize("after", range(5))
def test_a_subscriber_that_names_its_cursor_has_neither_gap_nor_repeat(twin: Twin, after: int) -> None:
    async def story() -> list[int]:
        async with twin.open() as store:
            for _ in range(4):
                await store.commit("a", a_start)
            source = store.subscribe(after=after)
            waiting = asyncio.ensure_future(took(source, 5 - after))
            await store.commit("a", a_start)
            found = [entry.sequence for entry in await waiting]
            await source.aclose()
            return found

    assert played(story) == list(range(after + 1, 6))


@pytest.mark.requirement("events:subscribe:kind-prefix")
def test_a_subscriber_may_want_one_session_or_one_kind(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            for session in ("a", "b"):
                await store.commit(session, a_start)
                await store.commit(session, deciding(lambda state: go_live(state, a_reminder(), IN_PROCESS)))
            only_a = await told(store, session_id="a")
            assert ([entry.session_id for entry in only_a], len(only_a)) == (["a", "a"], 2)
            kinds = await told(store, kind_prefix="transcript.reminder.")
            assert [type(entry.event) for entry in kinds] == [Injected, Injected]
            both = await told(store, session_id="b", kind_prefix="transcript.reminder.inj")
            assert [(entry.session_id, type(entry.event)) for entry in both] == [("b", Injected)]
            assert await told(store, kind_prefix="transcript.nothing") == []
            source = store.subscribe(session_id="b", kind_prefix="transcript.")
            assert (await anext(source)).sequence == 4
            await source.aclose()

    played(story)


def test_what_a_subscriber_does_not_want_does_not_reach_it(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            source = store.subscribe(session_id="a", kind_prefix="transcript.")
            waiting = asyncio.ensure_future(anext(source))
            await store.commit("a", a_start)
            await store.commit("b", deciding(lambda state: go_live(state, a_reminder(), IN_PROCESS)))
            await store.commit("a", deciding(lambda state: go_live(state, a_reminder(), IN_PROCESS)))
            assert (await waiting).sequence == 3
            await source.aclose()

    played(story)


@pytest.mark.requirement("store:subscribers:same-order-for-all")
def test_all_subscribers_see_the_same_order(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            sources = [store.subscribe() for _ in range(3)]
            reading = [asyncio.ensure_future(took(source, 20)) for source in sources]
            await asyncio.gather(*(store.commit(f"s{number % 3}", a_start) for number in range(20)))
            first, *rest = await asyncio.gather(*reading)
            assert [entry.sequence for entry in first] == list(range(1, 21))
            assert rest == [first, first]
            for source in sources:
                await source.aclose()

    played(story)


@pytest.mark.parametrize("count", [PAGE_EVENTS - 1, PAGE_EVENTS, PAGE_EVENTS + 1, 2 * PAGE_EVENTS])
def test_a_long_past_is_told_whole(twin: Twin, count: int) -> None:
    async def story() -> None:
        async with twin.open() as store:
            await store.commit("a", so_many(count))
            assert [entry.sequence for entry in await told(store)] == list(range(1, count + 1))
            source = store.subscribe()
            assert [entry.sequence for entry in await took(source, count)] == list(range(1, count + 1))
            waiting = asyncio.ensure_future(anext(source))
            await store.commit("a", a_start)
            assert (await waiting).sequence == count + 1
            await source.aclose()

    played(story)


@pytest.mark.requirement("events:subscribe:slow-subscriber", "store:isolation:slow-code-delays-no-accept")
def test_a_subscriber_that_falls_behind_is_cut_off_with_its_cursor_and_goes_on_from_there(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            slow = store.subscribe()
            waiting = asyncio.ensure_future(anext(slow))
            await is_followed(store)
            await store.commit("a", a_start)
            await waiting
            await store.commit("a", so_many(SUBSCRIBER_EVENTS + 5))
            seen = await took(slow, SUBSCRIBER_EVENTS)
            assert [entry.sequence for entry in seen] == list(range(2, SUBSCRIBER_EVENTS + 2))
            with pytest.raises(CursorLost, match=f"after={SUBSCRIBER_EVENTS + 1}") as lost:
                await anext(slow)
            again = store.subscribe(after=lost.value.seen)
            found = [entry.sequence for entry in await took(again, 5)]
            assert found == [SUBSCRIBER_EVENTS + 2 + more for more in range(5)]
            await again.aclose()

    played(story)


def test_a_subscriber_that_reads_past_events_is_not_too_slow_for_new_ones(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            await store.commit("a", so_many(SUBSCRIBER_EVENTS + 5))
            source = store.subscribe()
            await took(source, 1)
            await store.commit("a", so_many(2))
            rest = await took(source, SUBSCRIBER_EVENTS + 6)
            assert [entry.sequence for entry in rest] == list(range(2, SUBSCRIBER_EVENTS + 8))
            await source.aclose()

    played(story)


def test_a_cursor_that_never_existed_is_refused_with_the_first_valid_one(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            await store.commit("a", so_many(3))
            with pytest.raises(CursorExpired, match="after=0"):
                await told(store, after=-2)

    played(story)


def test_a_cancelled_subscriber_does_not_disturb_others(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            source, other = store.subscribe(), store.subscribe()
            waiting, patient = asyncio.ensure_future(anext(source)), asyncio.ensure_future(anext(other))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await store.commit("a", a_start)
            assert (await patient).sequence == 1
            await other.aclose()

    played(story)


# Several processes.


def test_what_another_process_commits_wakes_and_is_seen_here(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here, durable.open() as there:
            await here.open("s")
            source = here.subscribe()
            following = asyncio.ensure_future(took(source, 3))
            for number in range(1, 4):
                wake = here.wake("s")
                wake.clear()
                await there.commit("s", a_start)
                await wake.wait()
                assert here.state("s").running
                assert await written_at(there, "s", saying()) == number
            assert [entry.sequence for entry in await following] == [1, 2, 3]
            await source.aclose()

    played(story)


def test_a_decision_knows_what_another_process_has_committed_before(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here, durable.open() as there:
            witness = Witness(lambda state: state.running, Idled())
            await here.open("s")
            await there.commit("s", a_start)
            assert await written_at(here, "s", witness) == 2
            assert witness.seen == [True]
            assert not here.state("s").running

    played(story)


def test_processes_that_write_at_once_share_one_sequence(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as one, durable.open() as other:
            sources = [store.subscribe() for store in (one, other)]
            reading = [asyncio.ensure_future(took(source, 60)) for source in sources]
            await asyncio.gather(*(store.commit(f"s{n % 3}", a_start) for n in range(30) for store in (one, other)))
            told_here, told_there = await asyncio.gather(*reading)
            assert [entry.sequence for entry in told_here] == list(range(1, 61))
            assert told_there == told_here
            for source in sources:
                await source.aclose()

    played(story)


def test_closing_a_store_ends_what_its_subscribers_wait_for(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            source = store.subscribe()
            waiting = asyncio.ensure_future(anext(source, None))
            await store.commit("s", a_start)
            assert await waiting is not None
            last = asyncio.ensure_future(anext(source, None))
        assert await last is None

    played(story)

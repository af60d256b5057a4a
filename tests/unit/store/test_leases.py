"""Leases: one process at a time runs a session, and a stale lease cannot commit."""

import asyncio

import pytest

from sideband.core.errors import LeaseLost, SessionBusy
from sideband.core.events import Started
from tests.unit.store.twins import Twin, Witness, a_start, played, told, written_at


def test_a_session_has_one_holder_at_a_time(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            mine = await store.acquire("s", "me")
            assert (mine.session_id, mine.holder) == ("s", "me")
            with pytest.raises(SessionBusy, match="session 's' is run by 'me'"):
                await store.acquire("s", "you")
            assert (await store.acquire("other", "you")).holder == "you"
            await store.release(mine)
            assert (await store.acquire("s", "you")).token > mine.token

    played(story)


def test_of_many_who_want_it_at_once_one_gets_it(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            wanted = [store.acquire("s", f"h{number}") for number in range(8)]
            outcomes = await asyncio.gather(*wanted, return_exceptions=True)
            assert [isinstance(outcome, SessionBusy) for outcome in outcomes].count(False) == 1

    played(story)


def test_a_commit_of_its_holder_is_made(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            mine = await store.acquire("s", "me")
            assert await written_at(store, "s", a_start, lease=mine) == 1
            renewed = await store.renew(mine)
            assert renewed.token == mine.token
            assert await written_at(store, "s", a_start, lease=mine) == 2
            assert await written_at(store, "s", a_start, lease=renewed) == 3

    played(story)


def test_a_lease_that_is_over_can_be_taken_and_then_the_old_one_is_good_for_nothing(twin: Twin) -> None:
    witness = Witness(lambda _: "decided", Started())

    async def story() -> None:
        async with twin.open() as store:
            mine = await store.acquire("s", "me")
            await twin.let_leases_lapse(store)
            assert await written_at(store, "s", a_start, lease=mine) == 1, "the session is still free"
            theirs = await store.acquire("s", "you")
            with pytest.raises(LeaseLost, match="session 's' is run by another process now"):
                await store.commit("s", witness, lease=mine)
            with pytest.raises(LeaseLost):
                await store.renew(mine)
            await store.release(mine)
            assert await written_at(store, "s", a_start, lease=theirs) == 2
            assert len(await told(store)) == 2

    played(story)
    assert witness.seen == []


def test_of_two_leases_of_one_holder_the_newer_one_counts(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            older = await store.acquire("s", "me")
            newer = await store.acquire("s", "me")
            with pytest.raises(LeaseLost):
                await store.commit("s", a_start, lease=older)
            await store.commit("s", a_start, lease=newer)

    played(story)


def test_what_was_given_back_is_good_for_nothing(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            mine = await store.acquire("s", "me")
            await store.release(mine)
            await store.release(mine)
            with pytest.raises(LeaseLost):
                await store.commit("s", a_start, lease=mine)
            with pytest.raises(LeaseLost):
                await store.renew(mine)

    played(story)


def test_a_renewed_lease_lasts_as_long_again(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            mine = await store.acquire("s", "me")
            await twin.let_leases_lapse(store)
            assert (await store.renew(mine)).expires_at > mine.expires_at
            with pytest.raises(SessionBusy):
                await store.acquire("s", "you")

    played(story)


def test_a_lost_lease_fails_its_own_commit_and_no_other_of_the_same_moment(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            stale = await store.acquire("s", "me")
            fresh = await store.acquire("s", "me")
            asked = [store.commit("s", a_start, lease=lease) for lease in (fresh, stale, None, fresh)]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert [isinstance(outcome, LeaseLost) for outcome in outcomes] == [False, True, False, False]
            assert len(await told(store)) == 3

    played(story)


def test_a_decision_knows_whether_the_session_is_leased(twin: Twin) -> None:
    witness = Witness(lambda state: state.attended)

    async def story() -> None:
        async with twin.open() as store:
            await store.commit("s", witness)
            mine = await store.acquire("s", "me")
            await store.commit("s", witness)
            await store.commit("other", witness)
            await twin.let_leases_lapse(store)
            await store.commit("s", witness)
            await store.release(await store.renew(mine))
            await store.commit("s", witness)

    played(story)
    assert witness.seen == [False, True, False, False, False]


# Several processes.


def test_another_process_finds_the_session_leased(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here, durable.open() as there:
            mine = await here.acquire("s", "me")
            with pytest.raises(SessionBusy):
                await there.acquire("s", "you")
            witness = Witness(lambda state: state.attended)
            await there.commit("s", witness)
            await here.release(mine)
            await there.commit("s", witness)
            assert witness.seen == [True, False]
            await there.acquire("s", "you")

    played(story)


def test_a_run_that_was_overtaken_by_another_process_writes_nothing(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here, durable.open() as there:
            mine = await here.acquire("s", "me")
            await here.commit("s", a_start, lease=mine)
            await durable.let_leases_lapse(here)
            theirs = await there.acquire("s", "you")
            with pytest.raises(LeaseLost):
                await here.commit("s", a_start, lease=mine)
            await there.commit("s", a_start, lease=theirs)
            assert len(await told(here)) == 2

    played(story)


def test_a_store_that_is_closed_gives_its_leases_back(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here:
            await here.acquire("s", "me")
        async with durable.open() as there:
            await there.acquire("s", "you")

    played(story)

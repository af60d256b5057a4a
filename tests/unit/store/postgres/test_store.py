"""The state that a PostgreSQL store shows when answers arrive late, and closing it."""

import asyncio

import pytest

from sideband.core.errors import StoreClosed
from sideband.core.events import Idled, Started
from tests.decisions import saying
from tests.postgres_proxy import Loss, Proxy
from tests.unit.store.twins import PostgresTwin, a_start, played, told


@pytest.mark.parametrize("steps", range(6))
def test_a_caller_that_is_cancelled_while_it_closes_a_store_does_not_leave_it_half_open(
    postgres: PostgresTwin, steps: int
) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.acquire("s", "me")
            asked = asyncio.ensure_future(store.commit("s", a_start))
            closing = asyncio.ensure_future(store.close())
            for _ in range(steps):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            await asyncio.gather(store.close(), store.close())
            await asked
            await asyncio.to_thread(postgres.is_left)
        async with postgres.open() as store:
            await store.acquire("s", "you")
            assert len(await told(store)) == 1

    played(story)


@pytest.mark.parametrize("is_open", [False, True], ids=["read-for-the-commit", "read-before"])
def test_events_of_others_before_the_answer_to_a_commit_are_shown_after_it(
    postgres: PostgresTwin,
    is_open: bool,  # noqa: FBT001 - a row
) -> None:
    async def story() -> None:
        async with (
            Proxy(postgres.server).running() as proxy,
            postgres.open() as other,
            postgres.open(url=proxy.url(postgres.name)) as store,
        ):
            woken, made = store.wake("s"), other.wake("s")
            await store.commit("another", saying())
            if is_open:
                await store.open("s")
            proxy.losses.append(Loss.ANSWER)
            # No new connection can ask for the outcome; the listener keeps its connection.
            proxy.is_down = True
            asked = asyncio.ensure_future(store.commit("s", a_start))
            await made.wait()
            await other.commit("s", saying(Idled()))
            while store.announced < 2:
                woken.clear()
                await woken.wait()
            proxy.is_down = False
            await asked
            assert tuple(type(entry.event) for entry in await told(store)) == (Started, Idled)
            assert not store.state("s").running

    played(story)


@pytest.mark.parametrize("steps", range(8))
def test_what_is_asked_while_a_store_is_closed_is_done_or_refused_and_leaves_no_connection(
    postgres: PostgresTwin, steps: int
) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            questions = (store.open("s"), store.acquire("s", "me"), told(store), store.prune("s"), store.open("t"))
            asked = [asyncio.ensure_future(question) for question in questions]
            for _ in range(steps):
                await asyncio.sleep(0)
            await store.close()
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(outcome, StoreClosed) for outcome in outcomes if isinstance(outcome, BaseException))
            await asyncio.to_thread(postgres.is_left)

    played(story)

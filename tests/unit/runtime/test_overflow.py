"""Limits at the runtime: each is configurable, its refusal says what to do, and refusals use no memory."""

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Unpack

import pytest

from sideband.core.errors import (
    BodyTooLarge,
    CursorLost,
    InvalidOption,
    RateLimited,
    ReminderError,
    TooManyPending,
)
from sideband.core.events import Dropped, DropReason, Started
from sideband.core.limits import DEFAULT_LIMITS, Limits, Rate, Throttle
from sideband.core.reminder import RemindOptions
from sideband.core.trust import Trust
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.testing import run_schedule
from tests.decisions import saying
from tests.sessions import CLIENT, PEER
from tests.unit.store.twins import so_many

MEBIBYTE: Final = 1_048_576


def remind(body: str = "x", **options: Unpack[RemindOptions]) -> Callable[[Session], Coroutine[Any, Any, object]]:
    return lambda session: session.remind(body, **options)


async def exchange(session: Session) -> None:
    await session.replace_message(await session.prompt("x"), "x" * 90)


async def crowd(session: Session) -> None:
    for _ in range(3):
        await session.remind("x")


@pytest.mark.parametrize(
    ("limits", "overflow", "error", "hint"),
    [
        pytest.param(
            {"body_bytes": {Trust.OPERATOR: 4}},
            remind("fünf!"),
            BodyTooLarge,
            "6 bytes in UTF-8, at most 4 .*; shorten it",
            id="body",
        ),
        pytest.param({"tags": 1}, remind(tags=["a", "b"]), InvalidOption, "at most 1", id="tags"),
        pytest.param({"tag_bytes": 2}, remind(tags=["abc"]), InvalidOption, "at most 2", id="a-tag"),
        pytest.param({"dedupe_key_bytes": 2}, remind(dedupe_key="abc"), InvalidOption, "at most 2", id="a-key"),
        pytest.param(
            {"pending_per_session": 2}, crowd, TooManyPending, "the limit is 2; revoke some", id="pending-in-all"
        ),
        pytest.param(
            {"pending_per_source": {Trust.OPERATOR: 1}},
            crowd,
            TooManyPending,
            "1 items of this source are pending, the limit is 1",
            id="pending-of-a-source",
        ),
        pytest.param(
            {"content_bytes": 20},
            lambda session: session.prompt("x" * 20),
            BodyTooLarge,
            "content .* at most 20 .*in one message; shorten it",
            id="a-message",
        ),
        pytest.param({"content_bytes": 90}, exchange, BodyTooLarge, "content .* at most 90", id="a-message-exchanged"),
        pytest.param(
            {"accept_rate": {Trust.OPERATOR: Rate(per_second=0.001, burst=2)}},
            crowd,
            RateLimited,
            r"try again in \d+ ms",
            id="too-fast",
        ),
    ],
)
def test_a_refusal_names_the_limit(
    limits: Mapping[str, Any],
    overflow: Callable[[Session], Coroutine[Any, Any, object]],
    error: type[ReminderError],
    hint: str,
) -> None:
    async def story() -> None:
        async with open_store(limits=Limits(**limits)) as store:
            session = await store.session()
            with pytest.raises(error, match=hint) as refused:
                await overflow(session)
            assert refused.value.reason
        async with open_store() as store:
            await overflow(await store.session())

    asyncio.run(story())


def test_a_refusal_changes_nothing() -> None:
    async def story() -> None:
        async with open_store(limits=Limits(pending_per_session=1)) as store:
            session = await store.session()
            await session.remind("first")
            before = [logged async for logged in store.journal.history()]
            for _ in range(5):
                with pytest.raises(TooManyPending):
                    await session.remind("one too many")
            assert [logged async for logged in store.journal.history()] == before

    asyncio.run(story())


def test_how_far_a_subscriber_may_fall_behind_is_configuration() -> None:
    async def story() -> None:
        async with open_store(limits=Limits(subscriber_events=3)) as store:
            source = store.journal.subscribe()
            waiting = asyncio.ensure_future(anext(source))
            await asyncio.sleep(0)
            await store.journal.commit("s", so_many(4))
            assert [(await waiting).sequence, *[(await anext(source)).sequence for _ in range(2)]] == [1, 2, 3]
            with pytest.raises(CursorLost, match="after=3") as lost:
                await anext(source)
            assert lost.value.seen == 3

    asyncio.run(story())


@pytest.mark.parametrize("place", ["sqlite", "memory"])
def test_a_subscriber_of_a_store_that_was_opened_by_address_has_the_configured_bound(
    place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = "memory:" if place == "memory" else f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"

    async def story() -> None:
        async with open_store(url, limits=Limits(subscriber_events=2)) as store:
            await store.journal.commit("s", saying(Started()))
            source = store.journal.subscribe(after=1)
            waiting = asyncio.ensure_future(anext(source))
            await asyncio.sleep(0)
            await store.journal.commit("s", so_many(9))
            assert [(await waiting).sequence, (await anext(source)).sequence] == [2, 3]
            with pytest.raises(CursorLost):
                await anext(source)

    asyncio.run(story())


# How fast: counted for as long as a session is held, by the clock of the loop that runs it.

SLOWLY: Final = Limits(accept_rate={Trust.OPERATOR: Rate(per_second=1, burst=2)}, pending_per_session=3)


@pytest.mark.parametrize(
    "send",
    [
        pytest.param(lambda session: session.remind("x"), id="remind"),
        pytest.param(lambda session: session.inject("x", mode="queue"), id="inject"),
        pytest.param(lambda session: session.prompt("x"), id="prompt"),
    ],
)
def test_a_source_over_its_rate_may_send_again_after_retry_after(
    send: Callable[[Session], Coroutine[Any, Any, object]],
) -> None:
    async def story() -> None:
        session = await open_store(limits=SLOWLY).session()
        await session.prompt("the first of the burst")
        await send(session)
        with pytest.raises(RateLimited) as refused:
            await send(session)
        await asyncio.sleep(refused.value.retry_after_ms / 1_000)
        await send(session)

    run_schedule(1, story)


async def fill(session: Session, times: int) -> None:
    for _ in range(times):
        await session.remind("x")


async def refused_sendings(session: Session, times: int) -> None:
    for _ in range(times):
        with pytest.raises(RateLimited):
            await session.remind("one too many")


async def dropped(session: Session) -> list[int]:
    """The counts of the rate-limited events."""
    told = [logged.event async for logged in session.talk.journal.history() if isinstance(logged.event, Dropped)]
    return [event.count for event in told if event.reason is DropReason.RATE_LIMITED]


def test_rate_limited_items_are_recorded_once_a_second_as_one_event() -> None:
    async def story() -> None:
        session = await open_store(limits=SLOWLY).session()
        await fill(session, 2)
        await refused_sendings(session, 5)
        assert await dropped(session) == []
        await asyncio.sleep(1.5)
        assert await dropped(session) == [5]
        await session.remind("the token of the first second")
        await refused_sendings(session, 2)
        await asyncio.sleep(1.5)
        assert await dropped(session) == [5, 2]

    run_schedule(1, story)


def test_closing_the_store_records_what_was_rate_limited_and_leaves_no_task() -> None:
    async def story() -> None:
        store = open_store(limits=SLOWLY)
        session = await store.session()
        await fill(session, 2)
        await refused_sendings(session, 3)
        await store.close()
        assert await dropped(session) == [3]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_schedule(1, story)


def test_items_rate_limited_right_before_closing_are_recorded_before_the_end() -> None:
    async def story() -> None:
        session = await open_store(limits=SLOWLY).session()
        await fill(session, 2)
        await refused_sendings(session, 4)
        await session.close()
        await session.close()
        assert await dropped(session) == [4]

    run_schedule(1, story)


def test_a_process_has_no_rate_unless_it_is_given_one() -> None:
    async def story() -> None:
        session = await open_store(limits=Limits(pending_per_session=1_000)).session()
        await fill(session, 500)

    run_schedule(1, story)


def test_an_object_that_is_not_limits_is_refused_before_anything_is_opened() -> None:
    given: Any = {"pending_per_session": 5}
    with pytest.raises(InvalidOption, match="limits must be Limits"):
        open_store("sqlite:///never.db", limits=given)


# Refusals use no memory.


def test_ten_thousand_refused_accepts_leave_less_than_a_mebibyte() -> None:
    limits = Limits(pending_per_session=8)

    async def story() -> int:
        async with open_store(limits=limits) as store:
            session = await store.session()
            for _ in range(8):
                await session.remind("x" * 1_000)

            async def be_refused(times: int) -> None:
                for _ in range(times):
                    with pytest.raises(TooManyPending):
                        await session.remind("y" * 1_000)

            await be_refused(100)
            tracemalloc.start()
            try:
                await be_refused(10_000)
                # What is only waiting to be collected depends on all that came before.
                gc.collect()
                return tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()

    assert asyncio.run(story()) < MEBIBYTE


def test_ten_thousand_rate_limited_accepts_leave_less_than_a_mebibyte() -> None:
    throttle = Throttle(Limits(accept_rate={**DEFAULT_LIMITS.accept_rate, Trust.PEER: Rate(per_second=1, burst=1)}))
    tracemalloc.start()
    try:
        refused = 0
        for number in range(10_000):
            for sender in (CLIENT, PEER):
                refused += throttle.reserve("s", sender, now=number / 1_000) is not None
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert refused > 19_000
    assert grown < MEBIBYTE

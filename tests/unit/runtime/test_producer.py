"""Producers that get wrong arguments, and refusals that are recorded while stores and logs close."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import pytest

from sideband.core.errors import InvalidOption, ReminderError, TooManyPending, UnknownSession
from sideband.core.events import Dropped, DropReason
from sideband.core.limits import Limits, Rate
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust
from sideband.runtime.eventlog import EventLog
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.testing import run_schedule
from tests.sessions import CLIENT, PEER, SERVER

WRONG: Final[list[Any]] = [None, 5, True, 1.5, b"x", [], {}, {"a": [1]}, object()]


def first(items: AsyncGenerator[object, None]) -> Awaitable[object]:
    return anext(items)


# Wrong arguments.


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda _, door, wrong: door.revoke(wrong), id="revoke"),
        pytest.param(lambda _, door, wrong: door.revoke_reminder(wrong), id="revoke-reminder"),
        pytest.param(lambda _, door, wrong: door.revoke_message(wrong), id="revoke-message"),
        pytest.param(lambda _, door, wrong: door.replace_reminder(wrong, "x"), id="replace-reminder"),
        pytest.param(lambda _, door, wrong: door.replace_message(wrong, "x"), id="replace-message"),
        pytest.param(lambda session, _, wrong: session.cancel(wrong or 5), id="cancel"),
        pytest.param(lambda session, _, wrong: session.view(wrong), id="viewer"),
        pytest.param(lambda session, _, wrong: first(session.updates(after=wrong and f"{wrong}")), id="updates-after"),
        pytest.param(lambda session, _, wrong: first(session.events(kind_prefix=wrong)), id="events-kind"),
        pytest.param(
            lambda session, _, wrong: session.grant(wrong, trust="peer", field="mode", value="finish_step"),
            id="grant-principal",
        ),
        pytest.param(
            lambda session, _, wrong: session.grant(
                "planner", trust="peer", field="mode", value="finish_step", until=f"{wrong}"
            ),
            id="grant-until",
        ),
        pytest.param(lambda session, _, wrong: session.record([wrong]), id="records"),
        pytest.param(lambda session, _, wrong: session.record({(type(wrong),): 1}), id="name-of-a-record"),
    ],
)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
def test_an_argument_of_the_wrong_type_is_refused_by_its_name(
    call: Callable[[Session, Producer, Any], Awaitable[object]],
    wrong: Any,  # noqa: ANN401 - any value
) -> None:
    async def main() -> None:
        async with open_store() as store:
            session = await store.begin("s")
            door = Producer(session, CLIENT, surface=Surface.ACP)
            before = (await session.view()).cursor
            with pytest.raises(InvalidOption, match="must be"):
                await call(session, door, wrong)
            assert (await session.view()).cursor == before

    asyncio.run(main())


@pytest.mark.parametrize("wrong", ["invalid", None, []])
def test_a_refusal_is_counted_by_a_reason_of_the_vocabulary(wrong: Any) -> None:  # noqa: ANN401 - any value
    async def main() -> None:
        async with open_store() as store:
            door = Producer(await store.begin("s"), SERVER, surface=Surface.MCP)
            with pytest.raises(InvalidOption, match="reason must be a DropReason"):
                door.count_refusal(wrong)

    asyncio.run(main())


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_numbers_that_json_does_not_have_are_refused_everywhere(number: float) -> None:
    async def main() -> None:
        async with open_store() as store:
            session = await store.begin("s", attributes={"title": "kept"})
            refused = [
                session.record({"title": number}),
                store.begin("t", attributes={"title": [number]}),
                store.begin("t", messages=[{"role": "user", "content": number}]),
                Producer(session, PEER, surface=Surface.A2A).remind({"body": "x", "_meta": {"n": number}}),
                Producer(session, CLIENT, surface=Surface.ACP).inject("x", mode="queue", meta={"n": number}),
            ]
            for request in refused:
                with pytest.raises(ReminderError, match="cannot be written as JSON, which has no"):
                    await request
            assert session.talk.state.records == {"title": "kept"}

    asyncio.run(main())


def test_a_burst_of_any_size_is_a_limit() -> None:
    async def main() -> None:
        limits = Limits(accept_rate={Trust.CONTROLLER: Rate(per_second=1, burst=10**400)})
        async with open_store(limits=limits) as store:
            door = Producer(await store.session("s"), CLIENT, surface=Surface.ACP)
            assert (await door.remind({"body": "x"})).reminder_id

    asyncio.run(main())


# What a peer is told of others.


@pytest.mark.parametrize("provenance", [PEER, SERVER], ids=lambda sender: sender.principal)
def test_a_full_session_does_not_tell_a_peer_how_many_reminders_are_live(provenance: Provenance) -> None:
    async def main() -> None:
        async with open_store(limits=Limits(pending_per_session=2)) as store:
            session = await store.session("s")
            await session.remind("one")
            await session.remind("two", mode="interrupt_immediate")
            await session.remind("three", mode="interrupt_immediate")
            with pytest.raises(TooManyPending) as refused:
                await Producer(session, provenance, surface=Surface.A2A).remind({"id": "r1", "body": "x"})
            assert (refused.value.value, refused.value.limit) == (2, 2)
            assert "live" not in str(refused.value)

    asyncio.run(main())


def test_a_stranger_leaves_no_record_in_a_session() -> None:
    async def run() -> None:
        async with open_store() as store:
            session = await store.begin("s", attributes={"owner": "reviewer"})
            assert await Producer(session, PEER, surface=Surface.A2A).notify({"body": "x"}) is None
            await asyncio.sleep(1.5)
            assert await refusals(session) == []

    run_schedule(1, run)


# Recording refusals.


async def refusals(session: Session) -> list[tuple[DropReason, int]]:
    events = [logged.event async for logged in session.talk.journal.history(session_id=session.id)]
    return [(event.reason, event.count) for event in events if isinstance(event, Dropped)]


def test_closing_a_store_while_refusals_are_recorded_loses_none() -> None:
    async def run() -> None:
        store = open_store()
        sessions = [await store.begin(f"s{number}") for number in range(3)]
        for session in sessions:
            Producer(session, SERVER, surface=Surface.MCP).count_refusal(DropReason.INVALID)
        writing = asyncio.create_task(sessions[0].intake.write())
        await asyncio.sleep(0)
        writing.cancel()
        await store.close()
        assert [await refusals(session) for session in sessions] == [[(DropReason.INVALID, 1)]] * 3

    run_schedule(1, run)


def test_a_log_gets_the_refusals_of_its_own_task_only() -> None:
    async def run() -> None:
        async with open_store() as store:
            mine, other = await store.begin("mine"), await store.begin("other")
            with EventLog() as log:
                Producer(mine, SERVER, surface=Surface.MCP).count_refusal(DropReason.INVALID)
            Producer(other, SERVER, surface=Surface.MCP).count_refusal(DropReason.INVALID)
            await asyncio.sleep(1.5)
            assert [await refusals(session) for session in (mine, other)] == [[(DropReason.INVALID, 1)]] * 2
            assert [record.session_id for record in log.records()] == ["mine"]

    run_schedule(1, run)


# Deleted sessions.


def test_a_deleted_session_is_begun_again_even_if_its_old_handle_was_closed() -> None:
    async def main() -> None:
        async with open_store() as store:
            old = await store.begin("s")
            await store.delete("s")
            at_the_end = (await old.view()).cursor
            await old.close()
            assert (await old.view()).cursor == at_the_end
            with pytest.raises(UnknownSession, match="deleted"):
                await old.remind("x")
            again = await store.begin("s")
            assert (await again.remind("x")).reminder_id

    asyncio.run(main())


@pytest.mark.parametrize("name", ["nul \x00", "x" * 2_001, "half \ud800"], ids=["nul", "long", "surrogate"])
def test_no_session_has_a_name_that_no_store_can_hold(name: str) -> None:
    async def main() -> None:
        async with open_store() as store:
            assert await store.find(name) is None
            assert not await store.delete(name)

    asyncio.run(main())

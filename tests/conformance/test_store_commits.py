"""What every store promises for commits, senders and subscribers."""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Final

import apsw
import pytest

from sideband.core.accept import replace_message, revoke_reminder
from sideband.core.drain import drain
from sideband.core.errors import AlreadyDelivered, BodyTooLarge, OutcomeUnknown, StoreUnavailable, TooManyPending
from sideband.core.events import (
    Checkpoint,
    Deduped,
    Event,
    InjectAccepted,
    InjectDelivered,
    Injected,
    Queued,
    QueuedMessage,
    Started,
)
from sideband.core.limits import Limits
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import Decided, Decision, SessionState
from sideband.loop.hooks import Hooks
from sideband.ports import Journal
from sideband.store.sqlite import SqliteSettings
from sideband.testing import CountingIds, MemoryStore, run_schedule
from tests.builders import a_draft, a_text
from tests.decisions import deciding, saying
from tests.sessions import CLIENT, PEER
from tests.stored_agents import a_session, is_shown, run
from tests.unit.core.test_snapshot import facts
from tests.unit.store.failing import FailingDisk
from tests.unit.store.twins import (
    Sender,
    SqliteTwin,
    Twin,
    a_start,
    last_of,
    played,
    told,
    took,
    two_of,
)

MEBIBYTE: Final = 1_048_576


def a_drain(state: SessionState) -> Iterable[Event]:
    return drain(state, Seam.ITERATION_START).events


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


# Commit points.


@pytest.mark.requirement("store:commit:accept")
def test_an_accept_that_was_answered_is_committed(twin: Twin) -> None:
    async def story() -> None:
        async with two_of(twin) as (here, there):
            for number in range(5):
                sent = await Sender(here, name=f"n{number}").send(a_draft())
                (entry,) = await told(there, after=number)
                assert isinstance(entry.event, Queued)
                assert entry.event.item.id == sent.reminder_id

    played(story)


@pytest.mark.requirement("store:commit:accept")
def test_where_the_commit_of_an_accept_fails_there_is_no_reply_and_no_item(
    sqlite: SqliteTwin, disk: FailingDisk
) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
            await store.open("s")
            for operations in range(3):
                sender = Sender(store, name=f"n{operations}")
                with disk.fails_after(operations, apsw.IOError), pytest.raises(StoreUnavailable):
                    await sender.send(a_draft())
                assert await told(store) == []
            await Sender(store).send(a_draft())
            assert len(store.state("s").inbox) == 1

    played(story)


@pytest.mark.requirement("store:commit:accept")
def test_a_decision_may_return_its_events_as_an_iterator(twin: Twin) -> None:
    def start(_state: SessionState) -> Decided[None]:
        return Decided(iter((Started(),)), None)  # type: ignore[arg-type]  # a sequence is asked for

    async def story() -> None:
        async with twin.open() as store:
            await store.commit("s", start)
            assert [entry.event for entry in await told(store)] == [Started()]

    played(story)


@pytest.mark.requirement("store:commit:drain")
def test_a_drain_and_what_it_displaces_are_one_commit(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            sender = Sender(store)
            old = await sender.send(a_draft(dedupe_key="k"))
            await store.commit("s", deciding(a_drain))
            new = await sender.send(a_draft(dedupe_key="k"))
            assert [item.id for item in store.state("s").live] == [old.reminder_id], (
                "displaced by the drain, not before"
            )
            committed = await store.commit("s", deciding(a_drain))
            assert [type(event) for event in committed] == [Deduped, Injected, Checkpoint]
            assert [item.id for item in store.state("s").live] == [new.reminder_id]

    played(story)


@pytest.mark.requirement("store:commit:drain")
def test_whichever_write_of_a_drain_fails_the_old_one_lives_and_the_new_one_waits(
    sqlite: SqliteTwin, disk: FailingDisk
) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
            sender = Sender(store)
            await sender.send(a_draft(dedupe_key="k"))
            await store.commit("s", deciding(a_drain))
            await sender.send(a_draft(dedupe_key="k"))
            for operations in range(100):
                before = facts(store.state("s"))
                with disk.fails_after(operations, apsw.FullError):
                    try:
                        await store.commit("s", deciding(a_drain))
                    except (StoreUnavailable, OutcomeUnknown):
                        assert facts(store.state("s")) == before
                        continue
                break
            assert operations > 0
            assert ([item.id for item in store.state("s").live], len(store.state("s").inbox)) == (["r-2"], 0)

    played(story)


@pytest.mark.requirement("store:commit:nothing-to-write")
def test_where_there_is_nothing_to_write_there_is_no_commit(twin: Twin) -> None:
    async def story() -> None:
        async with two_of(twin) as (here, there):
            await here.commit("s", a_start)
            wake = here.wake("s")
            assert isinstance(wake, asyncio.Event)
            wake.clear()
            for store in (here, there):
                assert await store.commit("s", lambda _: Decided((), "its value")) == "its value"
                assert await last_of(store) == 1
            assert (len(await told(there)), wake.is_set()) == (1, False)

    played(story)


@pytest.mark.requirement("store:commit:nothing-to-write")
def test_a_decision_for_nothing_costs_no_sync(sqlite: SqliteTwin, disk: FailingDisk) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
            await store.commit("s", a_start)
            before = disk.done
            for _ in range(10):
                await store.commit("s", saying())
            assert disk.done == before
            await store.commit("s", a_start)
            assert disk.done > before

    played(story)


# Many at once.


@pytest.mark.requirement("store:durable:order-under-concurrency")
def test_each_of_many_senders_finds_its_own_in_the_order_it_sent_them(twin: Twin) -> None:
    async def story() -> None:
        async with two_of(twin) as stores:
            senders = [Sender(stores[number % 2], name=f"n{number}") for number in range(8)]

            async def send_all(sender: Sender) -> None:
                for _ in range(5):
                    await sender.send(a_draft())

            await asyncio.gather(*map(send_all, senders))
            await stores[0].commit("s", deciding(a_drain))
            delivered = [item.id for item in stores[0].state("s").live]
            accepted = [entry.event.item.id for entry in await told(stores[1]) if isinstance(entry.event, Queued)]
            assert delivered == accepted
            for number in range(8):
                own = [reminder_id for reminder_id in delivered if reminder_id.startswith(f"n{number}-")]
                assert own == [f"n{number}-{count}" for count in range(1, 6)]

    played(story)


@pytest.mark.requirement("store:durable:dedupe-is-atomic")
def test_at_most_one_reminder_of_a_key_waits_with_many_senders(twin: Twin) -> None:
    async def story() -> None:
        async with two_of(twin) as stores:
            senders = [Sender(stores[number % 2], name=f"n{number}") for number in range(12)]
            for _ in range(4):
                await asyncio.gather(*(sender.send(a_draft(dedupe_key="k")) for sender in senders))
            waiting = 0
            for entry in await told(stores[0]):
                waiting += isinstance(entry.event, Queued)
                waiting -= isinstance(entry.event, Deduped)
                assert waiting <= 1
            displaced = sum(answer.deduped_count for sender in senders for answer in sender.answers)
            assert displaced + waiting == 12 * 4

    played(story)


@pytest.mark.requirement("store:durable:revoke-is-linearisable")
@pytest.mark.parametrize("drain_first", [True, False], ids=["the-drain-first", "the-revoke-first"])
def test_of_a_revoke_and_a_drain_at_once_exactly_one_wins(twin: Twin, drain_first: bool) -> None:  # noqa: FBT001 - a row
    async def story() -> None:
        async with two_of(twin) as (here, there):
            for number in range(6):
                sent = await Sender(here, name=f"n{number}").send(a_draft())

                def revoke(state: SessionState, reminder_id: str = sent.reminder_id) -> Iterable[Event]:
                    return revoke_reminder(state, reminder_id, CLIENT).events

                racers = [here.commit("s", deciding(a_drain)), there.commit("s", deciding(revoke))]
                outcomes = await asyncio.gather(*(racers if drain_first else reversed(racers)), return_exceptions=True)
                refused = [outcome for outcome in outcomes if isinstance(outcome, AlreadyDelivered)]
                await here.commit("s", saying())
                assert (sent.reminder_id in here.state("s").live) is bool(refused)

    played(story)


@pytest.mark.requirement("store:durable:revoke-is-linearisable")
def test_the_answer_to_a_revoke_matches_what_the_model_saw_under_every_schedule() -> None:
    async def race() -> tuple[bool, bool]:
        session = await a_session(MemoryStore(), new_id=CountingIds("s"))
        reminded = (await session.remind("the fact")).reminder_id

        async def revoke() -> bool:
            try:
                await session.revoke(reminded)
            except AlreadyDelivered:
                return False
            return True

        (_, model), is_revoked = await asyncio.gather(run(session), revoke())
        return is_revoked, is_shown(model, "the fact")

    outcomes = [run_schedule(seed, race) for seed in range(200)]
    assert set(outcomes) == {(True, False), (False, True)}


@pytest.mark.requirement("store:durable:revoke-is-linearisable")
@pytest.mark.parametrize("moment", ["user_prompt_submit", "post_turn", "post_finish"])
def test_the_answer_to_a_revoke_from_elsewhere_matches_what_the_model_saw(twin: Twin, moment: str) -> None:
    async def story() -> None:
        async with two_of(twin) as (here, there):
            session, elsewhere = await a_session(here), await a_session(there)
            reminded = (await session.remind("the fact")).reminder_id
            answers: list[str] = []

            async def revoke(_context: object) -> None:
                try:
                    answers.append((await elsewhere.revoke(reminded)).value)
                except AlreadyDelivered as error:
                    answers.append(error.reason)

            hooks = Hooks()
            hooks.register_session_hook(moment, revoke)
            _, model = await run(session, hooks=hooks)
            assert answers == ["already_delivered" if is_shown(model, "the fact") else "revoked"]
            assert answers == ["revoked" if moment == "user_prompt_submit" else "already_delivered"]

    played(story)


@pytest.mark.requirement("store:durable:replace-is-atomic")
@pytest.mark.parametrize("drain_first", [True, False], ids=["the-drain-first", "the-replace-first"])
def test_a_drain_that_races_a_replace_takes_one_version_whole(twin: Twin, drain_first: bool) -> None:  # noqa: FBT001 - a row
    old, new = [*a_text("old"), *a_text("old")], [*a_text("new"), *a_text("new")]

    def say(number: int) -> Decision[tuple[Event, ...]]:
        item = QueuedMessage(message_id=f"m{number}", content=tuple(old), mode=InjectMode.STEER, provenance=CLIENT)
        return saying(InjectAccepted(item=item))

    def replace(number: int) -> Decision[None]:
        return lambda state: replace_message(state, f"m{number}", tuple(new), CLIENT)

    async def story() -> None:
        async with two_of(twin) as (here, there):
            for number in range(6):
                await here.commit("s", say(number))
                racers = [here.commit("s", deciding(a_drain)), there.commit("s", replace(number))]
                outcomes = await asyncio.gather(*(racers if drain_first else reversed(racers)), return_exceptions=True)
                is_late = any(isinstance(outcome, AlreadyDelivered) for outcome in outcomes)
                events = [entry.event for entry in await told(here)]
                delivered = [event for event in events if isinstance(event, InjectDelivered)][-1]
                assert delivered.message_id == f"m{number}"
                assert list(delivered.content) == (old if is_late else new)

    played(story)


# Subscribers.


@pytest.mark.requirement("store:subscribers:same-order-for-all")
def test_every_subscriber_sees_the_same_order_and_one_that_comes_back_has_neither_gap_nor_repetition(
    twin: Twin,
) -> None:
    async def follow(store: Journal, *, until: int, leave_after: int) -> list[int]:
        """Leaves again and again, and comes back with its cursor."""
        seen: list[int] = []
        while not seen or seen[-1] < until:
            source = store.subscribe(after=seen[-1] if seen else 0)
            seen.extend(entry.sequence for entry in await took(source, min(leave_after, until - len(seen))))
            await source.aclose()
        return seen

    async def story() -> None:
        async with two_of(twin) as stores:
            following = [
                asyncio.ensure_future(follow(stores[place % 2], until=60, leave_after=leave_after))
                for place, leave_after in enumerate((1, 7, 60, 13))
            ]
            await asyncio.gather(*(stores[n % 2].commit(f"s{n % 3}", a_start) for n in range(60)))
            for seen in await asyncio.gather(*following):
                assert seen == list(range(1, 61))

    played(story)


# Bounds.


@pytest.mark.requirement("store:bounded:overflow-is-an-error")
def test_a_full_inbox_refuses_more_reminders_and_keeps_nothing_of_them(twin: Twin) -> None:
    limits = Limits(pending_per_session=4)

    async def story() -> int:
        async with twin.open() as store:
            for number in range(4):
                await Sender(store, name=f"n{number}").send(a_draft(), limits=limits)

            async def be_refused(times: int) -> None:
                sender = Sender(store, PEER)
                for _ in range(times):
                    with pytest.raises(TooManyPending):
                        await sender.send(a_draft(), limits=limits)

            await be_refused(20)
            before = await told(store)
            tracemalloc.start()
            try:
                await be_refused(300)
                # What is only waiting to be collected depends on all that came before.
                gc.collect()
                grown = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            assert await told(store) == before
            return grown

    assert played(story) < MEBIBYTE


@pytest.mark.requirement("store:bounded:overflow-is-an-error")
def test_what_is_too_large_is_refused_before_it_is_stored(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store, limits=Limits(content_bytes=1_000))
            with pytest.raises(BodyTooLarge):
                await session.remind("x" * 10_000)
            with pytest.raises(BodyTooLarge):
                await session.prompt("x" * 10_000)
            assert await told(store) == []

    played(story)

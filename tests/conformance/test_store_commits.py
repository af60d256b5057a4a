"""What every store promises its commits, its senders and its subscribers."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import apsw
import pytest

from sideband.core.drain import drain
from sideband.core.errors import AlreadyDelivered, BodyTooLarge, TooManyPending
from sideband.core.events import Checkpoint, Deduped, Event, InjectDelivered, Injected, Queued
from sideband.core.failures import CursorLost, StoreUnavailable
from sideband.core.inbox import accept_message, replace_message, revoke_reminder
from sideband.core.lifecycle import inject
from sideband.core.limits import Limits
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import SessionState, fold
from sideband.loop.hooks import Hooks
from sideband.ports import Decision, Journal
from sideband.providers.registry import Registry
from sideband.store.feed import SUBSCRIBER_EVENTS
from sideband.store.sqlite.committing import SqliteSettings
from sideband.testing import CountingIds, MemoryStore, run_schedule
from tests.builders import a_draft, a_reminder, a_text
from tests.loop_builders import others
from tests.sessions import CLIENT, PEER
from tests.stored_agents import TASK, a_session, is_shown, run
from tests.unit.core.test_snapshot import facts
from tests.unit.store.failing import FailingDisk
from tests.unit.store.twins import MemoryTwin, Sender, SqliteTwin, Twin, a_start, played, so_many, told, took

MEBIBYTE: Final = 1_048_576


def a_drain(state: SessionState) -> Iterable[Event]:
    return drain(state.inbox, state.live, Seam.ITERATION_START, next_turn=state.next_turn).events


@asynccontextmanager
async def two_of(twin: Twin) -> AsyncIterator[tuple[Journal, Journal]]:
    """The stores of two processes; of a store in memory there is only one."""
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(twin.open())
        yield here, here if isinstance(twin, MemoryTwin) else await stack.enter_async_context(twin.open())


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


# Commit points.


@pytest.mark.requirement("store:commit:accept")
def test_whoever_has_the_reply_to_an_accept_finds_it_committed(twin: Twin) -> None:
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
            assert store.state("s").inbox.count() == 1

    played(story)


@pytest.mark.requirement("store:commit:drain")
def test_a_drain_and_what_it_displaces_are_one_commit(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            sender = Sender(store)
            old = await sender.send(a_draft(dedupe_key="k"))
            await store.commit("s", a_drain)
            new = await sender.send(a_draft(dedupe_key="k"))
            assert [item.id for item in store.state("s").live] == [old.reminder_id], (
                "displaced by the drain, not before"
            )
            committed = await store.commit("s", a_drain)
            assert [type(event) for event in committed.events] == [Deduped, Injected, Checkpoint]
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
            await store.commit("s", a_drain)
            await sender.send(a_draft(dedupe_key="k"))
            for operations in range(100):
                before = facts(store.state("s"))
                with disk.fails_after(operations, apsw.FullError):
                    try:
                        await store.commit("s", a_drain)
                    except StoreUnavailable:
                        assert facts(store.state("s")) == before
                        continue
                break
            assert operations > 0
            assert ([item.id for item in store.state("s").live], store.state("s").inbox.count()) == (["r-2"], 0)

    played(story)


@pytest.mark.requirement("store:commit:nothing-to-write")
def test_where_there_is_nothing_to_write_there_is_no_commit(twin: Twin) -> None:
    async def story() -> None:
        async with two_of(twin) as (here, there):
            await here.commit("s", a_start)
            wake = here.wake("s")
            assert isinstance(wake, asyncio.Event)
            wake.clear()
            committed = [await store.commit("s", lambda _: ()) for store in (here, there)]
            assert [(entry.events, entry.sequence) for entry in committed] == [((), 1), ((), 1)]
            assert (len(await told(there)), wake.is_set()) == (1, False)

    played(story)


@pytest.mark.requirement("store:commit:nothing-to-write")
def test_a_decision_for_nothing_costs_no_sync(sqlite: SqliteTwin, disk: FailingDisk) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
            await store.commit("s", a_start)
            before = disk.done
            for _ in range(10):
                await store.commit("s", lambda _: ())
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
            await stores[0].commit("s", a_drain)
            delivered = [item.id for item in stores[0].state("s").live]
            accepted = [entry.event.item.id for entry in await told(stores[1]) if isinstance(entry.event, Queued)]
            assert delivered == accepted
            for number in range(8):
                own = [reminder_id for reminder_id in delivered if reminder_id.startswith(f"n{number}-")]
                assert own == [f"n{number}-{count}" for count in range(1, 6)]

    played(story)


@pytest.mark.requirement("store:durable:dedupe-is-atomic")
def test_of_one_key_at_most_one_ever_waits_whoever_sends(twin: Twin) -> None:
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
                    return revoke_reminder(state.inbox, reminder_id, CLIENT).events

                racers = [here.commit("s", a_drain), there.commit("s", revoke)]
                outcomes = await asyncio.gather(*(racers if drain_first else reversed(racers)), return_exceptions=True)
                refused = [outcome for outcome in outcomes if isinstance(outcome, AlreadyDelivered)]
                await here.commit("s", lambda _: ())
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

    def say(number: int) -> Decision:
        return lambda state: accept_message(
            state.inbox, old, InjectMode.STEER, CLIENT, new_id=f"m{number}", running=True
        )

    def replace(number: int) -> Decision:
        return lambda state: replace_message(state.inbox, f"m{number}", new, CLIENT)

    async def story() -> None:
        async with two_of(twin) as (here, there):
            for number in range(6):
                await here.commit("s", say(number))
                racers = [here.commit("s", a_drain), there.commit("s", replace(number))]
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
def test_a_full_inbox_refuses_and_forgets_whoever_comes_too_late(twin: Twin) -> None:
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
            session = await a_session(store, limits=Limits(frame_bytes=1_000))
            with pytest.raises(BodyTooLarge):
                await session.remind("x" * 10_000)
            with pytest.raises(BodyTooLarge):
                await session.prompt("x" * 10_000)
            assert await told(store) == []

    played(story)


# Isolation.


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
def test_a_hook_that_hangs_keeps_no_accept_waiting_and_loses_nothing(twin: Twin) -> None:
    async def story() -> None:
        async with two_of(twin) as (here, there):
            session, other = await a_session(here), await a_session(there)
            entered, leave = asyncio.Event(), asyncio.Event()

            async def hang(_context: object) -> None:
                entered.set()
                await leave.wait()

            hooks = Hooks()
            hooks.register_session_hook("post_turn", hang)
            running = asyncio.ensure_future(run(session, "one", "two", hooks=hooks))
            await entered.wait()
            accepted = [await other.remind(f"fact {number}") for number in range(3)]
            assert not running.done()
            leave.set()
            result, model = await running
            assert (result.undelivered, result.problems) == ((), ())
            assert all(is_shown(model, f"fact {number}") for number in range(3))
            drained = [entry.event for entry in await told(there) if isinstance(entry.event, Injected)]
            assert [event.reminder.id for event in drained] == [entry.reminder_id for entry in accepted]

    played(story)


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
def test_hooks_and_providers_that_fail_are_reported_and_lose_nothing(twin: Twin) -> None:
    def fail(_context: object) -> None:
        raise RuntimeError("broken")

    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            await session.remind("the fact")
            hooks, providers = Hooks(), Registry()
            hooks.register_session_hook("user_prompt_submit", fail)
            providers.register(id="broken", subscribes_to=["user_prompt_submit"], evaluate=fail)
            result, model = await run(session, hooks=hooks, providers=providers, reminders=True)
            assert len(result.problems) == 2
            assert (is_shown(model, "the fact"), is_shown(model, TASK)) == (True, True)

    played(story)


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
def test_a_subscriber_that_does_not_read_is_cut_off_and_delays_nobody(twin: Twin) -> None:
    many = SUBSCRIBER_EVENTS // 2 + 100

    async def story() -> None:
        async with two_of(twin) as (here, there):
            slow, quick = here.subscribe(), here.subscribe()
            for source in (slow, quick):
                waiting = asyncio.ensure_future(anext(source))
                await others()
                await here.commit("s", a_start)
                await waiting
            await anext(quick)
            for _ in range(2):
                await there.commit("t", so_many(many))
                assert len(await took(quick, many)) == many
            sent = await Sender(there).send(a_draft())
            assert (sent.reminder_id, (await anext(quick)).sequence) == ("r-1", 2 * many + 3)
            seen = await took(slow, SUBSCRIBER_EVENTS)
            with pytest.raises(CursorLost) as lost:
                await anext(slow)
            assert lost.value.seen == seen[-1].sequence
            again = here.subscribe(after=lost.value.seen)
            missed = 2 * many + 3 - lost.value.seen
            assert (await took(again, missed))[-1].sequence == 2 * many + 3
            for source in (quick, again):
                await source.aclose()

    played(story)


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
def test_a_decision_that_fails_fails_alone(twin: Twin) -> None:
    def fail(state: SessionState) -> Iterable[Event]:
        yield from inject(state.live, a_reminder())
        raise RuntimeError("broken")

    async def story() -> None:
        async with twin.open() as store:
            sender = Sender(store)
            good: list[Callable[[], Coroutine[Any, Any, object]]] = [lambda: sender.send(a_draft())] * 3
            bad: list[Callable[[], Coroutine[Any, Any, object]]] = [lambda: store.commit("s", fail)] * 3
            mixed = [ask() for pair in zip(good, bad, strict=True) for ask in pair]
            outcomes = await asyncio.gather(*mixed, return_exceptions=True)
            assert [isinstance(outcome, RuntimeError) for outcome in outcomes] == [False, True] * 3
            entries = await told(store)
            assert [type(entry.event) for entry in entries] == [Queued] * 3
            assert facts(store.state("s")) == facts(fold(entry.event for entry in entries))

    played(story)

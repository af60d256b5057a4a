"""Commits, on every store."""

import asyncio
from collections.abc import Iterable

import msgspec
import pytest

from sideband.core.accept import replace_message, revoke_reminder
from sideband.core.apply import fold
from sideband.core.drain import drain
from sideband.core.errors import AlreadyDelivered, TooManyPending
from sideband.core.events import Event, Idled, InjectAccepted, InjectDelivered, QueuedMessage, Started
from sideband.core.lifecycle import go_live
from sideband.core.limits import Limits
from sideband.core.reminder import Draft
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import Decided, Decision, SessionState
from sideband.core.trust import IN_PROCESS
from sideband.ports import Journal
from tests.builders import a_draft, a_reminder, a_text
from tests.decisions import deciding, saying
from tests.sessions import CLIENT
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import Sender, Twin, a_start, played, told, written_at


def a_drain(state: SessionState) -> Iterable[Event]:
    return drain(state, Seam.ITERATION_START).events


def is_woken(store: Journal, session_id: str) -> bool:
    wake = store.wake(session_id)
    assert isinstance(wake, asyncio.Event)
    return wake.is_set()


def test_a_session_begins_when_it_is_opened(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            await store.open("s")
            assert not store.state("s").running
            assert store.state("s") is store.state("s")
            assert await told(store) == []

    played(story)


@pytest.mark.requirement("events:sequence:gap-free")
def test_what_was_decided_is_applied_and_logged_in_one_sequence(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            assert await store.commit("a", lambda _: Decided((Started(), Idled()), "first")) == "first"
            assert await store.commit("b", lambda _: Decided((Started(),), "second")) == "second"
            assert [(entry.sequence, entry.session_id, entry.event) for entry in await told(store)] == [
                (1, "a", Started()),
                (2, "a", Idled()),
                (3, "b", Started()),
            ]
            assert (store.state("a").running, store.state("b").running) == (False, True)

    played(story)


def test_a_decision_that_raises_changes_nothing_even_after_it_has_begun(twin: Twin) -> None:
    def decide(state: SessionState) -> Iterable[Event]:
        yield Started()
        yield from go_live(state, a_reminder(), IN_PROCESS)
        raise LookupError("not this one")

    async def story() -> None:
        async with twin.open() as store:
            await store.open("s")
            with pytest.raises(LookupError, match="not this one"):
                await store.commit("s", deciding(decide))
            assert await told(store) == []
            assert (store.state("s").running, len(store.state("s").live)) == (False, 0)
            assert not is_woken(store, "s")

    played(story)


def test_a_decision_that_stops_an_iteration_fails_like_any_other(twin: Twin) -> None:
    def decide(_state: SessionState) -> Iterable[Event]:
        return (next(iter(())),)

    async def story() -> None:
        async with twin.open() as store:
            with pytest.raises(RuntimeError):
                await asyncio.ensure_future(store.commit("s", deciding(decide)))
            await store.commit("s", a_start)

    played(story)


def test_of_many_at_once_one_that_is_refused_fails_alone(twin: Twin) -> None:
    limits = Limits(pending_per_session=3)

    async def story() -> None:
        async with twin.open() as store:
            senders = [Sender(store, name=f"n{number}") for number in range(6)]
            sent = [asyncio.ensure_future(sender.send(a_draft(), limits=limits)) for sender in senders]
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
            assert [isinstance(outcome, TooManyPending) for outcome in outcomes] == [False] * 3 + [True] * 3
            assert len(await told(store)) == 3

    played(story)


def test_a_decision_sees_the_state_as_it_is_in_its_commit(twin: Twin) -> None:
    seen: list[bool] = []

    def decide(state: SessionState) -> Iterable[Event]:
        seen.append(state.running)
        return (Idled(),) if state.running else (Started(),)

    async def story() -> None:
        async with twin.open() as store:
            await asyncio.gather(*(store.commit("s", deciding(decide)) for _ in range(4)))

    played(story)
    assert seen == [False, True, False, True]


def test_what_a_commit_did_is_seen_when_it_returns(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            for number in range(1, 21):
                await Sender(store, name=f"n{number}").send(a_draft())
                assert len(store.state("s").inbox) == number

    played(story)


@pytest.mark.requirement("store:commit:nothing-to-write")
def test_a_decision_without_events_writes_nothing_and_wakes_no_waiter(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            assert await store.commit("s", lambda _: Decided((), "nothing to write")) == "nothing to write"
            assert await told(store) == []
            assert not is_woken(store, "s")

    played(story)


def test_a_commit_wakes_only_the_waiters_of_its_session(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            mine, other = asyncio.create_task(store.wake("a").wait()), asyncio.create_task(store.wake("b").wait())
            await store.commit("a", a_start)
            await mine
            assert not other.done()
            other.cancel()

    played(story)


def test_commits_of_a_session_are_made_in_the_order_in_which_they_were_asked_for(twin: Twin) -> None:
    made: list[int] = []

    def numbered(number: int) -> Decision[int]:
        def decide(_state: SessionState) -> Decided[int]:
            made.append(number)
            return Decided((Started(),), number)

        return decide

    async def story() -> None:
        async with twin.open() as store:
            opening = asyncio.ensure_future(store.open("s"))
            asked = [asyncio.ensure_future(store.commit("s", numbered(number))) for number in range(50)]
            await opening
            assert await asyncio.gather(*asked) == [*range(50)]

    played(story)
    assert made == list(range(50))


def test_cancelling_the_caller_neither_undoes_its_commit_nor_keeps_it_from_being_made(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            await store.open("s")
            impatient = [asyncio.ensure_future(store.commit("s", a_start)) for _ in range(5)]
            await asyncio.sleep(0)
            for caller in impatient:
                caller.cancel()
            await asyncio.gather(*impatient, return_exceptions=True)
            await store.commit("s", saying(Idled()))
            assert [type(entry.event) for entry in await told(store)] == [Started] * 5 + [Idled]

    played(story)


# The promises about concurrent senders.


@pytest.mark.requirement("store:durable:order-under-concurrency")
def test_each_of_many_senders_finds_its_own_in_the_order_it_sent_them(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            senders = [Sender(store, name=f"n{number}") for number in range(8)]

            async def send_all(sender: Sender) -> None:
                for _ in range(5):
                    await sender.send(a_draft())

            await asyncio.gather(*map(send_all, senders))
            await store.commit("s", deciding(a_drain))
            live = [item.id for item in store.state("s").live]
            assert len(live) == 40
            for number in range(8):
                own = [reminder_id for reminder_id in live if reminder_id.startswith(f"n{number}-")]
                assert own == [f"n{number}-{count}" for count in range(1, 6)]

    played(story)


@pytest.mark.requirement("store:durable:dedupe-is-atomic")
def test_of_one_key_at_most_one_ever_waits(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            senders = [Sender(store, name=f"n{number}") for number in range(16)]
            for _ in range(5):
                await asyncio.gather(*(sender.send(a_draft(dedupe_key="k")) for sender in senders))
                assert len(store.state("s").inbox) == 1
            displaced = sum(answer.deduped_count for sender in senders for answer in sender.answers)
            assert displaced + 1 == 16 * 5

    played(story)


@pytest.mark.requirement("store:durable:revoke-is-linearisable")
@pytest.mark.parametrize("drain_first", [True, False], ids=["the-drain-first", "the-revoke-first"])
def test_of_a_revoke_and_a_drain_exactly_one_wins(twin: Twin, drain_first: bool) -> None:  # noqa: FBT001 - a row
    async def story() -> None:
        async with twin.open() as store:
            for number in range(8):
                sent = await Sender(store, name=f"n{number}").send(a_draft())

                def revoke(state: SessionState, reminder_id: str = sent.reminder_id) -> Iterable[Event]:
                    return revoke_reminder(state, reminder_id, CLIENT).events

                racers = [a_drain, revoke] if drain_first else [revoke, a_drain]
                outcomes = await asyncio.gather(
                    *(store.commit("s", deciding(racer)) for racer in racers), return_exceptions=True
                )
                refused = [outcome for outcome in outcomes if isinstance(outcome, AlreadyDelivered)]
                assert (sent.reminder_id in store.state("s").live) is bool(refused)
                assert bool(refused) is drain_first

    played(story)


@pytest.mark.requirement("store:durable:replace-is-atomic")
def test_a_drain_that_races_a_replace_takes_one_version_whole(twin: Twin) -> None:
    message = QueuedMessage(message_id="m", content=tuple(a_text("old old")), mode=InjectMode.STEER, provenance=CLIENT)

    async def story() -> None:
        async with twin.open() as store:
            await store.commit("s", saying(InjectAccepted(item=message)))
            await asyncio.gather(
                store.commit(
                    "s",
                    lambda state: replace_message(state, "m", tuple(a_text("new new")), CLIENT),
                ),
                store.commit("s", deciding(a_drain)),
            )
            (delivered,) = [entry.event for entry in await told(store) if isinstance(entry.event, InjectDelivered)]
            assert delivered.content == tuple(a_text("new new"))

    played(story)


# Opened again.


def test_a_store_that_is_opened_again_has_everything(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            for number in range(5):
                await Sender(store, name=f"n{number}").send(a_draft(dedupe_key=f"k{number % 2}"))
            await store.commit("s", deciding(a_drain))
            before, state = await told(store), facts(store.state("s"))
        async with twin.open() as store:
            await store.open("s")
            assert await told(store) == before
            assert facts(store.state("s")) == state == facts(fold(entry.event for entry in before))
            assert await written_at(store, "s", a_start) == before[-1].sequence + 1

    played(story)


@pytest.mark.requirement("store:durable:idempotency-outlives-a-restart")
def test_a_repeat_after_a_restart_gets_the_reply_of_the_first(twin: Twin) -> None:
    draft = Draft(body="The build is red.", caller_id="once")

    async def story() -> None:
        async with twin.open() as store:
            first = await Sender(store).send(draft)
        async with twin.open() as store:
            again = await Sender(store).send(draft)
            assert again == msgspec.structs.replace(first, is_free=True)
            assert len(await told(store)) == 1

    played(story)

"""Many concurrent senders: the order of each is kept, a key is queued once, and each subscriber sees every event once."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import pytest

from sideband.core.accept import expired
from sideband.core.drain import drain
from sideband.core.events import Deduped, Event, ExpiryReason, Injected, Queued
from sideband.core.limits import Limits
from sideband.core.seams import Mode, Seam
from sideband.core.state import Decided, Decision, SessionState
from sideband.core.trust import Provenance, Trust
from sideband.ports import Journal, Lease, Logged
from tests.builders import a_draft
from tests.decisions import deciding
from tests.faults.journals import ForwardingJournal
from tests.faults.replay import Tried
from tests.faults.sizes import size
from tests.unit.store.twins import TWINS, Sender, so_many, told, two_of

_Value = TypeVar("_Value")

SENDERS: Final = 8
SENDS: Final = size("SIDEBAND_SENDS", small=25, soak=1_000)
WRITERS: Final = 16
ROUNDS: Final = size("SIDEBAND_ROUNDS", small=15, soak=500)
SUBSCRIBERS: Final = 5
EVENTS: Final = size("SIDEBAND_EVENTS", small=400, soak=10_000)
# No limit on pending items: everything waits until it is drained.
WIDE: Final = Limits(pending_per_session=SENDERS * SENDS + WRITERS * ROUNDS, pending_per_source={})
# Of what the loop delivers there are two kinds.
MODES: Final = (Mode.FINISH_STEP, Mode.INTERRUPT_IMMEDIATE)
TAG: Final = "crowd"
SESSIONS: Final = ("a", "b", "c")
# How often a sender yields to other tasks.
PAUSES: Final = range(4)
# Longer than any run of the soak.
PATIENCE: Final = 600.0

Stores: TypeAlias = tuple[Journal, Journal]
Story: TypeAlias = Callable[[Stores], Coroutine[Any, Any, None]]
on_every_store: Final = pytest.mark.parametrize("name", TWINS)


def played(story: Story, name: str, directory: Path) -> None:
    """With the stores of two processes at one place."""

    async def play() -> None:
        async with two_of(twin) as stores:
            await story(stores)

    twin = TWINS[name](directory)
    try:
        asyncio.run(asyncio.wait_for(play(), PATIENCE))
    finally:
        twin.remove()


def a_choice(what: str) -> random.Random:
    return random.Random(what)  # noqa: S311 - a choice, no secret


async def dawdle(rng: random.Random) -> None:
    for _ in range(rng.choice(PAUSES)):
        await asyncio.sleep(0)


async def next_turn(store: Journal) -> None:
    """End what was delivered, and deliver what waits."""
    await store.commit("s", deciding(_cleared))
    await store.commit("s", lambda state: drain(state, Seam.ITERATION_START))


def _cleared(state: SessionState) -> Iterable[Event]:
    """A clear would end what waits, too."""
    return [expired(item, ExpiryReason.CLEARED, turn=state.live.turn) for item in state.live]


# In order.


class Controller(Sender):
    """A sender in both modes; `sent` are the accepted ids of each mode, in order."""

    def __init__(self, store: Journal, number: int) -> None:
        super().__init__(
            store, Provenance(trust=Trust.CONTROLLER, principal=f"c{number}", via="acp"), name=f"c{number}"
        )
        self._rng = a_choice(f"controller {number}")
        self.sent: dict[Mode, list[str]] = {mode: [] for mode in MODES}

    async def send_all(self) -> None:
        for _ in range(SENDS):
            await dawdle(self._rng)
            mode = self._rng.choice(MODES)
            accepted = await self.send(a_draft(mode=mode, tags=(TAG,)), limits=WIDE)
            self.sent[mode].append(accepted.reminder_id)


async def in_order(stores: Stores) -> None:
    controllers = [Controller(stores[number % 2], number) for number in range(SENDERS)]
    async with asyncio.TaskGroup() as group:
        sending = [group.create_task(controller.send_all()) for controller in controllers]
        while not all(task.done() for task in sending):
            await next_turn(stores[0])
            await asyncio.sleep(0)
    await next_turn(stores[0])
    here, there = [await told(store) for store in stores]
    assert here == there
    events = [entry.event for entry in here]
    modes = {event.item.id: event.item.mode for event in events if isinstance(event, Queued)}
    delivered = [event.reminder.id for event in events if isinstance(event, Injected)]
    for mode in MODES:
        in_this = [item for item in delivered if modes[item] is mode]
        assert in_this == [item for item in modes if modes[item] is mode]
        for controller in controllers:
            mine = f"{controller.provenance.principal}-"
            assert [item for item in in_this if item.startswith(mine)] == controller.sent[mode]


@pytest.mark.requirement("store:durable:order-under-concurrency")
@on_every_store
def test_what_each_of_many_controllers_sends_in_a_mode_is_delivered_in_that_order(
    name: str, tmp_path: Path, tried: Tried
) -> None:
    played(in_order, name, tmp_path)
    tried(f"sends of a crowd, {name}", SENDERS * SENDS)


# One of a key.


async def one_of_a_key(stores: Stores) -> None:
    writers = [Sender(stores[number % 2], name=f"n{number}") for number in range(WRITERS)]
    displaced = 0
    for _ in range(ROUNDS):
        answers = await asyncio.gather(*(writer.send(a_draft(dedupe_key="k"), limits=WIDE) for writer in writers))
        displaced += sum(answer.deduped_count for answer in answers)
    waiting: list[str] = []
    for entry in await told(stores[0]):
        match entry.event:
            case Queued(item=item):
                waiting.append(item.id)
            case Deduped(replaced_id=replaced):
                waiting.remove(replaced)
        assert len(waiting) <= 1
    assert displaced + len(waiting) == WRITERS * ROUNDS


@pytest.mark.requirement("store:durable:dedupe-is-atomic")
@on_every_store
def test_of_a_key_that_a_crowd_fights_over_one_waits_at_every_moment(name: str, tmp_path: Path, tried: Tried) -> None:
    played(one_of_a_key, name, tmp_path)
    tried(f"sends under one key, {name}", WRITERS * ROUNDS)


# One history for all.


async def follow(store: Journal, rng: random.Random) -> list[int]:
    """A subscriber that disconnects again and again and resumes from its cursor."""
    seen = [0]
    while seen[-1] < EVENTS:
        stays = rng.randint(1, EVENTS // 4)
        async with aclosing(store.subscribe(after=seen[-1])) as source:
            async for logged in source:
                seen.append(logged.sequence)
                stays -= 1
                if stays == 0 or logged.sequence == EVENTS:
                    break
        await dawdle(rng)
    return seen


async def write(store: Journal, rng: random.Random, count: int) -> None:
    """So many events, of one commit or of many."""
    left = count
    while left:
        several = min(rng.choice((1, 1, 1, 7, 40)), left)
        await store.commit(rng.choice(SESSIONS), so_many(several))
        await dawdle(rng)
        left -= several


async def one_history(stores: Stores) -> None:
    following = [
        asyncio.ensure_future(follow(stores[number % 2], a_choice(f"subscriber {number}")))
        for number in range(SUBSCRIBERS)
    ]
    shares = [EVENTS // 4] * 3 + [EVENTS - EVENTS // 4 * 3]
    await asyncio.gather(
        *(write(stores[number % 2], a_choice(f"writer {number}"), share) for number, share in enumerate(shares))
    )
    for seen in await asyncio.gather(*following):
        assert seen == list(range(EVENTS + 1))


@pytest.mark.requirement("store:subscribers:same-order-for-all")
@on_every_store
def test_a_crowd_that_comes_and_goes_sees_every_event_once_and_in_one_order(
    name: str, tmp_path: Path, tried: Tried
) -> None:
    played(one_history, name, tmp_path)
    tried(f"events that a crowd follows, {name}", SUBSCRIBERS * EVENTS)


# Planted faults.


class Decides(ForwardingJournal):
    """Changes what was decided."""

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        def decided(state: SessionState) -> Decided[_Value]:
            events, value = decide(state)
            return Decided(self.changed([*events]), value)

        return await super().commit(session_id, decided, lease=lease, receipts=receipts)

    def changed(self, events: list[Event]) -> list[Event]:
        raise NotImplementedError


class DeliversTheNewestFirst(Decides):
    def changed(self, events: list[Event]) -> list[Event]:
        newest_first = [event for event in reversed(events) if isinstance(event, Injected)]
        return [newest_first.pop(0) if isinstance(event, Injected) else event for event in events]


class DisplacesNothing(Decides):
    def changed(self, events: list[Event]) -> list[Event]:
        return [event for event in events if not isinstance(event, Deduped)]


class SkipsOneAfterResuming(ForwardingJournal):
    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        return super().subscribe(session_id=session_id, kind_prefix=kind_prefix, after=after and after + 1)


@pytest.mark.parametrize(
    ("story", "planted"),
    [
        pytest.param(in_order, DeliversTheNewestFirst, id="the-newest-first"),
        pytest.param(one_of_a_key, DisplacesNothing, id="two-of-a-key"),
        pytest.param(one_history, SkipsOneAfterResuming, id="a-gap-after-resuming"),
    ],
)
def test_a_planted_fault_is_found(story: Story, planted: type[ForwardingJournal], tmp_path: Path) -> None:
    async def spoilt(stores: Stores) -> None:
        here = planted(stores[0])
        await story((here, here))

    with pytest.raises(AssertionError):
        played(spoilt, "memory", tmp_path)

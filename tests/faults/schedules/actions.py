"""Actions on a session while its agent runs; every reply is recorded."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.errors import ReminderError
from sideband.core.events import Checkpoint, Event, Idled, RequestCommitted, ResultRecorded, Started, TurnCommitted
from sideband.core.seams import InjectMode, Mode
from tests.faults.schedules.actors import steps
from tests.faults.schedules.records import Ticket, Watched
from tests.faults.schedules.world import Actor, Speaker, World

Deed: TypeAlias = Callable[[World, Speaker], Coroutine[Any, Any, None]]

KEYS: Final = (None, None, "build", "tests")
TTLS: Final = (None, 1, 2, 3)
TAGS: Final = ((), (), ("watched",))
PRESERVED: Final = (False, False, True)

# Half of all actions happen at any moment, the others shortly after one of these events: there the loop has decided and
# not yet acted, and a random moment seldom falls into so short a time.
CUES: Final = (Started, RequestCommitted, TurnCommitted, ResultRecorded, Checkpoint, Idled)
CUED: Final = 0.5
CLOSE_BY: Final = 6


def text_of(label: str, version: int = 1) -> list[dict[str, Any]]:
    """A message in two halves, so that a mixture of two versions would show."""
    return [{"type": "text", "text": f"{label} v{version} {half}"} for half in ("head", "tail")]


# Telling.


def reminding(*modes: Mode) -> Deed:
    """Tell a fact in one of these modes."""

    async def remind(world: World, who: Speaker) -> None:
        rng = world.rng
        options = {
            "mode": rng.choice(modes),
            "ttl_turns": rng.choice(TTLS),
            "dedupe_key": rng.choice(KEYS),
            "tags": rng.choice(TAGS),
            "preserve_on_compact": rng.choice(PRESERVED),
        }
        await _remind(world, who, world.new_label(), options)

    return remind


async def _remind(world: World, who: Speaker, label: str, options: dict[str, Any]) -> None:
    try:
        accepted = await who.remind(label, **options)
    except ReminderError as refusal:
        world.note("remind", label, refusal.reason)
        return
    world.tickets.append(Ticket(label, accepted.reminder_id, is_message=False))
    answer = "accepted" if accepted.deduped_count == 0 else "displaced"
    world.note("remind", label, answer, item_id=accepted.reminder_id)


def saying(*modes: InjectMode) -> Deed:
    """Send a message in one of these modes."""

    async def say(world: World, who: Speaker) -> None:
        label, mode = world.new_label(), world.rng.choice(modes)
        try:
            message_id = await who.inject(text_of(label), mode=mode)
        except ReminderError as refusal:
            world.note("say", label, refusal.reason)
            return
        world.tickets.append(Ticket(label, message_id, is_message=True))
        world.note("say", label, "accepted", item_id=message_id)

    return say


async def repeat_by_id(world: World, who: Speaker) -> None:
    """A peer that got no answer asks again with the id it has chosen; only a bridge lets it choose one."""
    label = world.new_label()
    options = {"caller_id": f"own-{label}", "ttl_turns": 2}
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(_remind(world, who, label, options))


async def say_and_hang_up(world: World, who: Speaker) -> None:
    """A client that does not wait for the answer: it cannot know whether its message was accepted."""
    said = asyncio.ensure_future(who.inject(text_of(world.new_label()), mode=InjectMode.STEER))
    await steps(world.rng.randrange(3))
    said.cancel()
    await asyncio.gather(said, return_exceptions=True)


# Taking back.


async def revoke(world: World, who: Speaker) -> None:
    if not world.tickets:
        return
    ticket = world.rng.choice(world.tickets)
    try:
        answer = (await who.revoke(ticket.item_id)).value
    except ReminderError as refusal:
        answer = refusal.reason
    world.note("revoke", ticket.label, answer, item_id=ticket.item_id)


async def replace(world: World, who: Speaker) -> None:
    messages = [ticket for ticket in world.tickets if ticket.is_message]
    if not messages:
        return
    ticket, version = world.rng.choice(messages), 1 + world.count("replacement")
    try:
        await who.replace_message(ticket.item_id, text_of(ticket.label, version))
        answer = "replaced"
    except ReminderError as refusal:
        answer = refusal.reason
    world.note("replace", ticket.label, answer, item_id=ticket.item_id, version=version)


async def clear(world: World, who: Speaker) -> None:
    reminders = [ticket.item_id for ticket in world.tickets if not ticket.is_message]
    selected = [{"tag": "watched"}, {"dedupe_key": "build"}, *({"id": reminder} for reminder in reminders[-1:])]
    await who.clear(**world.rng.choice(selected))


# Beginning and ending.


async def start(world: World, _who: Speaker) -> None:
    await world.start(world.rng.choice(("work", None)))


async def close(world: World, _who: Speaker) -> None:
    try:
        await world.session.close()
        answer = "closed"
    except ReminderError as refusal:
        answer = refusal.reason
    world.note("close", "", answer)


async def cancel(world: World, _who: Speaker) -> None:
    await world.session.cancel()


async def cancel_call(world: World, _who: Speaker) -> None:
    """End one of the calls that have begun, should it still run."""
    begun = [moment.call_id for moment in world.tool.moments if moment.what == "began"]
    if begun and world.run is not None:
        world.run.cancel_call(world.rng.choice(begun))


async def suspend(world: World, _who: Speaker) -> None:
    if world.run is not None:
        world.run.suspend()


async def stop(world: World, _who: Speaker) -> None:
    if world.run is not None:
        world.run.stop()


# Doing several of these.


class Planned(NamedTuple):
    """A deed, after so many steps; those count from a cue where there is one."""

    deed: Deed
    wait: int
    cue: type[Event] | None = None


def an_actor(
    world: World, who: Speaker, deeds: Sequence[Deed], *, most: int, reach: int, cues: Sequence[type[Event]] = CUES
) -> Actor:
    """Does up to `most` of these deeds, each at any moment within `reach` steps or just after something happened."""
    rng = world.rng
    plan = [
        Planned(rng.choice(deeds), rng.randrange(CLOSE_BY), rng.choice(cues))
        if cues and rng.random() < CUED
        else Planned(rng.choice(deeds), rng.randrange(reach))
        for _ in range(rng.randint(1, most))
    ]
    return _act(world, who, plan)


async def _act(world: World, who: Speaker, plan: Sequence[Planned]) -> None:
    for deed, wait, cue in plan:
        if cue is not None:
            await world.store.cue(cue)
        await steps(wait)
        await deed(world, who)


async def watch(world: World, *, kind_prefix: str) -> None:
    """Subscribe, and every now and then hang up and resume after the last event seen, until cancelled."""
    after = 0
    while True:
        watched = Watched(after, kind_prefix, [])
        world.watched.append(watched)
        patience = world.rng.randint(1, 12)
        async with aclosing(
            world.store.subscribe(session_id=world.session.id, kind_prefix=kind_prefix, after=after)
        ) as logged:
            async for entry in logged:
                watched.entries.append(entry)
                after = entry.sequence
                if len(watched.entries) == patience:
                    break

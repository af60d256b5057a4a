"""Scenarios: which actors act on a session while its agent runs, how often and when; the seed decides."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sideband.core.events import Usage
from sideband.core.messages import Reply, ToolCall
from sideband.core.seams import InjectMode, Mode
from sideband.models.scripted import Line
from sideband.ports import ModelError
from sideband.testing.fakes import FakeClock
from tests.faults.schedules.actions import (
    Deed,
    an_actor,
    cancel,
    cancel_call,
    clear,
    close,
    reminding,
    repeat_by_id,
    replace,
    revoke,
    say_and_hang_up,
    saying,
    start,
    stop,
    suspend,
)
from tests.faults.schedules.actors import Asked, SlowKeepLast, steps
from tests.faults.schedules.world import (
    EDITOR,
    PEER,
    TERMINAL,
    Actor,
    World,
    be_cancelled_after,
    finish,
    give_up_after,
)

Scenario: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]

remind: Final = reminding(*Mode)
interrupt: Final = reminding(Mode.INTERRUPT_IMMEDIATE)
steer: Final = saying(InjectMode.STEER, InjectMode.FINISH_STEP)
cut_in: Final = saying(InjectMode.INTERRUPT_IMMEDIATE)
queue: Final = saying(InjectMode.QUEUE)
say: Final = saying(*InjectMode)

# Where the loop asks hooks: places at which others get their turn.
LISTENED_TO: Final = (
    "user_prompt_submit",
    "post_turn",
    "post_tool_use",
    "post_step",
    "pre_finish",
    "post_finish",
    "permission_asked",
)
PATIENCE: Final = 80


# What the model says.


def reply(world: World, *calls: ToolCall) -> Line:
    """A reply that takes its time."""
    said = Reply(text="" if calls else "That was it.", tool_calls=calls, usage=Usage(prompt_tokens=1))
    thinking = world.rng.randrange(4)

    async def think(_view: object) -> Reply:
        await steps(thinking)
        return said

    return think


def work(world: World, *, turns: int, calls: int = 2) -> list[Line]:
    """Turns with up to so many calls each."""
    rng = world.rng
    return [
        reply(world, *(world.new_call(steps=rng.randrange(4)) for _ in range(rng.randint(1, calls))))
        for _ in range(turns)
    ]


# Who acts.


def crowd(world: World, deeds: Sequence[Deed], *, people: int, most: int = 3, reach: int = 12) -> list[Actor]:
    """Several actors, each with one of the ways to talk to a session."""
    ways = [world.speaker(), world.speaker(EDITOR), world.speaker(TERMINAL), world.speaker()]
    world.rng.shuffle(ways)
    return [an_actor(world, who, deeds, most=most, reach=reach) for who in ways[:people]]


def listeners(world: World) -> None:
    """Hooks that take their time; some have something to say, and replace what they said before."""
    rng = world.rng
    for event in rng.sample(LISTENED_TO, 2) if rng.random() < 0.3 else ():
        world.hooks.register_session_hook(event, _listener(rng.randrange(4), has_something_to_say=rng.random() < 0.5))


def _listener(thinking: int, *, has_something_to_say: bool) -> Callable[[object], Coroutine[Any, Any, object]]:
    async def listen(_context: object) -> object:
        await steps(thinking)
        return {"body": "heard", "dedupe_key": "build", "ttl_turns": 2} if has_something_to_say else None

    return listen


# The scenarios.


async def producers_in_every_mode(world: World) -> None:
    """Reminders and messages of every mode, from everybody at once, against a run of several turns."""
    listeners(world)
    world.model.follow(work(world, turns=world.rng.randint(1, 3)))
    peer = an_actor(world, world.speaker(PEER), [remind, repeat_by_id], most=2, reach=16)
    await world.play("work", peer, *crowd(world, [remind, remind, say, say_and_hang_up, clear], people=3))


async def taking_back_against_drains(world: World) -> None:
    """Revokes and replacements race with the drain that takes the item."""
    world.model.follow(work(world, turns=world.rng.randint(1, 2), calls=1))
    senders = crowd(world, [remind, steer, cut_in, queue], people=2, reach=8)
    takers = crowd(world, [revoke, revoke, replace], people=2, most=4, reach=8)
    await world.play("work", *senders, *takers)


async def cancelling_against_steers_and_tools(world: World) -> None:
    """A cancel overtakes steers, prompts that wait, a reply on its way and tools that run."""
    listeners(world)
    world.model.follow(work(world, turns=world.rng.randint(1, 3)))
    senders = crowd(world, [steer, cut_in, queue, remind], people=2, reach=10)
    canceller = an_actor(world, world.session, [cancel], most=1, reach=50)
    await world.play("work", canceller, *senders, queue_after_cancel=world.rng.choice(("hold", "deliver")))


async def steering_at_the_exit(world: World) -> None:
    """Steers arrive when the last reply is in and the run is about to end."""
    world.model.follow([reply(world) for _ in range(world.rng.randint(0, 2))])
    await world.play("work", *crowd(world, [steer, steer, cut_in, interrupt], people=4, most=3, reach=10))


async def steering_while_permission_is_asked(world: World) -> None:
    """Permission is asked before each call; steers, interrupts and cancels arrive meanwhile."""
    rng = world.rng
    listeners(world)
    calls = [
        world.new_call(steps=rng.randrange(2), thinking=rng.randrange(8), refused=rng.random() < 0.3)
        for _ in range(rng.randint(1, 3))
    ]
    world.model.follow([reply(world, *calls), *work(world, turns=1, calls=1)])
    senders = crowd(world, [steer, cut_in, interrupt, remind], people=2, reach=10)
    endings = [cancel, cancel_call] if rng.random() < 0.5 else [cancel_call]
    ender = an_actor(world, world.session, endings, most=1, reach=30)
    await world.play("work", *senders, ender, permission=Asked())


async def waking_and_stopping_a_daemon(world: World) -> None:
    """Interrupts, prompts and time wake a daemon, and an actor stops it meanwhile."""
    rng = world.rng
    world.clock = FakeClock(patient=True)
    world.model.follow(work(world, turns=rng.randint(0, 1), calls=1))
    senders = crowd(world, [interrupt, cut_in, queue, queue, steer, remind, revoke], people=3, most=2, reach=20)
    ender = an_actor(world, world.session, [stop, stop, suspend, cancel], most=1, reach=60)
    everybody = _in_the_end_stopped(world, [*senders, _clockwork(world), ender])
    await world.play("work", everybody, daemon=True, wake_seconds=rng.choice((None, 10.0)))


async def _clockwork(world: World) -> None:
    for _ in range(world.rng.randrange(4)):
        await steps(world.rng.randrange(20))
        world.clock.advance(6.0)


async def _in_the_end_stopped(world: World, actors: Sequence[Actor]) -> None:
    """An actor may end the daemon at any time; once all actors are done, it is stopped."""
    await _all(world, actors)
    while world.run is None:
        await steps(1)
    world.run.stop()


async def _all(world: World, actors: Sequence[Actor]) -> None:
    """Let them act; who still waits for a cue after a while goes on without it."""
    async with asyncio.TaskGroup() as group:
        for actor in actors:
            group.create_task(actor)
        await steps(PATIENCE)
        world.store.end_of_play()


async def tools_side_by_side(world: World) -> None:
    """Calls of one batch finish, fail, hang until they are out of time, and are cancelled one by one."""
    rng = world.rng
    listeners(world)
    calls = [
        world.new_call(steps=rng.randrange(5), hangs=rng.random() < 0.2, fails=rng.random() < 0.2)
        for _ in range(rng.randint(2, 4))
    ]
    world.model.follow([reply(world, *calls), *work(world, turns=rng.randrange(2))])
    enders = [an_actor(world, world.session, [cancel_call], most=3, reach=12) for _ in range(2)]
    if rng.random() < 0.3:
        enders.append(an_actor(world, world.session, [cancel], most=1, reach=40))
    await world.play("work", *enders, *crowd(world, [steer, cut_in], people=1), tool_seconds=3.0)


async def two_controllers_in_line(world: World) -> None:
    """Two clients send one message after the other; each must find its own in order."""
    rng = world.rng
    world.model.follow(work(world, turns=rng.randint(1, 2), calls=1))
    favourite = rng.choice((steer, queue, cut_in))
    editor, terminal = (
        an_actor(world, world.speaker(who), [favourite, steer, queue], most=4, reach=6) for who in (EDITOR, TERMINAL)
    )
    await world.play("work", editor, terminal)


async def interrupts_in_a_row(world: World) -> None:
    """More interrupts than batches may be skipped."""
    world.model.follow(work(world, turns=6, calls=1))
    await world.play("work", *crowd(world, [interrupt, cut_in], people=3, most=3, reach=16))


async def runs_that_end_early(world: World) -> None:
    """The model fails, the budget is spent, the run is suspended, or the task that drives it goes away."""
    rng = world.rng
    lines = work(world, turns=rng.randint(1, 3))
    for _ in range(rng.randrange(3)):
        lost = rng.random() < 0.7
        lines.insert(rng.randrange(len(lines) + 1), ModelError("no connection" if lost else "bad key", retryable=lost))
    world.model.follow(lines)
    senders = crowd(world, [steer, cut_in, queue, remind, revoke], people=2, reach=10)
    enders = [an_actor(world, world.session, [suspend], most=1, reach=60)] if rng.random() < 0.5 else []
    drive = rng.choice((finish, finish, give_up_after(rng.randint(1, 4)), be_cancelled_after(rng.randrange(40))))
    await world.play("work", *senders, *enders, drive=drive, max_turns=rng.choice((1, 2, 50)))


async def compacting_between_turns(world: World) -> None:
    """The conversation is compacted before every request, while others add to it."""
    rng = world.rng
    # A window of one token is full after every turn.
    world.model.follow(work(world, turns=rng.randint(2, 4), calls=1), context_window=1)
    compactor = SlowKeepLast(rng.randint(1, 4), thinking=rng.randrange(4))
    await world.play(
        "work", *crowd(world, [remind, remind, steer, cut_in, clear, revoke], people=3), compactor=compactor
    )


async def starting_and_closing(world: World) -> None:
    """Runs are begun while another one runs or the session is being closed."""
    rng = world.rng
    world.model.follow([reply(world) for _ in range(rng.randint(0, 2))])
    starters = [an_actor(world, world.session, [start], most=2, reach=8, cues=()) for _ in range(2)]
    senders = crowd(world, [queue, steer, remind], people=1, reach=10)
    closers = [an_actor(world, world.session, [close], most=2, reach=8, cues=())] if rng.random() < 0.7 else []
    await _all(world, [*starters, *senders, *closers])


SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        scenario.__name__: scenario
        for scenario in (
            producers_in_every_mode,
            taking_back_against_drains,
            cancelling_against_steers_and_tools,
            steering_at_the_exit,
            steering_while_permission_is_asked,
            waking_and_stopping_a_daemon,
            tools_side_by_side,
            two_controllers_in_line,
            interrupts_in_a_row,
            runs_that_end_early,
            compacting_between_turns,
            starting_and_closing,
        )
    }
)

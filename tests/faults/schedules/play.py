"""Playing one schedule and checking every law."""

import asyncio
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Final, NamedTuple, TypeAlias
from unittest.mock import patch

from sideband.loop import agent
from sideband.loop.dispatch import Dispatcher
from sideband.testing.schedule import run_schedule
from tests.faults.schedules import item_laws, session_laws, turn_laws
from tests.faults.schedules.actions import watch
from tests.faults.schedules.actors import steps
from tests.faults.schedules.history import History
from tests.faults.schedules.scenarios import SCENARIOS
from tests.faults.schedules.world import NOTHING_PLANTED, Plant, World

Law: TypeAlias = Callable[[History], Iterator[str]]

LAWS: Final[tuple[Law, ...]] = (
    item_laws.an_item_ends_exactly_once,
    item_laws.what_has_not_ended_is_pending,
    item_laws.delivery_is_in_order,
    item_laws.a_sender_is_told_the_truth,
    item_laws.an_item_is_revoked_or_delivered,
    item_laws.a_message_has_its_last_version,
    item_laws.a_message_reaches_a_request,
    item_laws.a_key_is_waited_for_once,
    turn_laws.a_call_has_one_result,
    turn_laws.a_tool_runs_at_most_once,
    turn_laws.a_request_shows_what_is_live,
    turn_laws.a_request_is_what_was_committed,
    turn_laws.what_waits_is_in_the_next_request,
    turn_laws.an_interrupt_skips_the_batch,
    turn_laws.a_ttl_is_a_number_of_turns,
    turn_laws.only_the_preserved_survive_a_compaction,
    session_laws.an_idle_session_has_nothing_left_to_take,
    session_laws.a_cancel_leaves_the_inbox_alone,
    session_laws.a_steer_is_held_while_permission_is_asked,
    session_laws.a_run_leaves_nothing_open,
    session_laws.turns_count_from_one,
    session_laws.a_closed_session_is_over,
    session_laws.the_journal_is_the_state,
    session_laws.a_subscriber_sees_the_journal,
)
WATCHED: Final = 0.25
ROUNDS_TO_CATCH_UP: Final = 40


class Verdict(NamedTuple):
    """What one schedule showed: the laws it broke, or the error at which it came apart."""

    broken: tuple[str, ...]
    error: Exception | None = None

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.broken) or self.error is not None

    def breaks(self, law: str) -> bool:
        return any(found.startswith(f"{law}:") for found in self.broken)


def judge(scenario: str, seed: int, plant: Plant = NOTHING_PLANTED) -> Verdict:
    """Play a scenario under a seed and hold it against every law."""
    try:
        history = play(scenario, seed, plant)
    except Exception as error:  # noqa: BLE001 - a schedule that comes apart is a finding like any other
        return Verdict((), error)
    return Verdict(tuple(f"{law.__name__}: {found}" for law in LAWS for found in _findings(law, history)))


def _findings(law: Law, history: History) -> list[str]:
    try:
        return list(law(history))
    except Exception as error:  # noqa: BLE001 - a history in which a law finds no sense breaks it
        return [f"raised {error!r}"]


def play(scenario: str, seed: int, plant: Plant = NOTHING_PLANTED) -> History:
    """Play a scenario under a seed; what comes apart is raised."""
    rng = random.Random(f"{scenario}/{seed}")  # noqa: S311 - an interleaving, no secret
    world = World(rng, plant)
    planted = nullcontext() if plant.dispatcher is Dispatcher else patch.object(agent, "Dispatcher", plant.dispatcher)
    with planted, warnings.catch_warnings():
        # A coroutine that was never awaited causes only a warning.
        warnings.simplefilter("error")
        run_schedule(rng.getrandbits(32), lambda: _played(world, scenario))
    return History(world)


async def _played(world: World, scenario: str) -> None:
    prefixes = ("", "transcript.inject") if world.rng.random() < WATCHED else ()
    watchers = [asyncio.ensure_future(watch(world, kind_prefix=prefix)) for prefix in prefixes]
    await SCENARIOS[scenario](world)
    await world.end()
    await steps(ROUNDS_TO_CATCH_UP if watchers else 0)
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)

"""Two processes with a runner each, under very many interleavings: no law is broken, and planted faults are found."""

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import pytest

from sideband.core.drain import drain
from sideband.core.events import Cancelled
from sideband.core.seams import Seam
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.runtime import runner
from sideband.runtime.runner import Runner
from sideband.testing.schedule import run_schedule
from tests.decisions import saying
from tests.faults.replay import Tried
from tests.faults.schedules.process_laws import LAWS
from tests.faults.schedules.processes import NOTHING_PLANTED, SCENARIOS, ProcessPlant, TwoProcesses
from tests.faults.schedules.test_schedules import TOTAL

BLOCK: Final = 250
# Each of these schedules is about as long as four with one process.
EACH: Final = max(50, TOTAL // 4 // len(SCENARIOS))


def played(scenario: str, seed: int, plant: ProcessPlant = NOTHING_PLANTED) -> TwoProcesses:
    rng = random.Random(f"{scenario}/{seed}")  # noqa: S311 - an interleaving, no secret
    world: list[TwoProcesses] = []

    async def main() -> None:
        world.append(TwoProcesses(rng, plant))
        await SCENARIOS[scenario](world[0])

    with patch.object(runner, "AgentRun", plant.run):
        run_schedule(rng.getrandbits(32), main)
    return world[0]


def judged(scenario: str, seed: int, plant: ProcessPlant = NOTHING_PLANTED) -> list[str]:
    """What a schedule shows: the laws that it breaks, or the error at which it ended."""
    try:
        world = played(scenario, seed, plant)
    except Exception as error:  # noqa: BLE001 - any failure of a schedule is a finding
        return [f"error: {error!r}"]
    return [f"{law.__name__}: {found}" for law in LAWS for found in law(world)]


def blocks() -> list[object]:
    return [
        pytest.param(scenario, range(first, min(first + BLOCK, EACH)), id=f"{scenario}-{first}")
        for scenario in SCENARIOS
        for first in range(0, EACH, BLOCK)
    ]


@pytest.mark.parametrize(("scenario", "seeds"), blocks())
def test_no_schedule_of_two_processes_breaks_a_law(scenario: str, seeds: range, tried: Tried) -> None:
    for seed in seeds:
        found = judged(scenario, seed)
        assert not found, f"seed {seed} of {scenario}: {found}"
    tried("schedules, two processes", len(seeds))


def test_the_same_seed_gives_the_same_journal_of_two_processes() -> None:
    for scenario in SCENARIOS:
        first, second = (played(scenario, 1).store.journal for _ in range(2))
        assert [logged.event for logged in first] == [logged.event for logged in second]


# Planted faults.


class LooksOnce(Runner):
    """Does not look at the inbox again after a run."""

    async def _run_next(self) -> None:
        await super()._run_next()
        self._wake.clear()
        await self._wake.wait()


class GivesUp(Runner):
    """Forgets a session that another process runs, until the next commit."""

    async def _retry_later(self) -> None:
        await self._until_idle()


class WatchesNothing(AgentRun):
    """Does not notice that another process has cancelled its turn."""

    async def _watch(self) -> None:
        """Watches nothing."""


class CancelsTwice(Conversation):
    """Writes that the turn of a run was cancelled, even if it is over."""

    async def cancel(self, *, prompt: str | None = None) -> None:
        await super().cancel(prompt=prompt)
        await self.commit(saying(Cancelled()))


class DrainsWhatWasCancelled(Conversation):
    """Drains a seam of a turn without looking whether the turn still runs."""

    async def drain(self, seam: Seam, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - handed on
        return await self.commit(lambda state: drain(state, seam, **options))


class PlantedFault(NamedTuple):
    """A fault, a scenario that meets it, what it breaks, and the number of schedules that must find it."""

    plant: ProcessPlant
    scenario: str
    found: str
    within: int = 100


PLANTED: Final[Mapping[str, PlantedFault]] = MappingProxyType(
    {
        "no-second-look-after-the-release": PlantedFault(
            ProcessPlant(runner=LooksOnce), "prompts_without_a_runner", "error"
        ),
        "no-retry-after-a-refusal": PlantedFault(ProcessPlant(runner=GivesUp), "a_process_dies", "error: TimeoutError"),
        "a-cancel-that-does-not-wake": PlantedFault(
            ProcessPlant(run=WatchesNothing), "cancelling_from_both", "error: TimeoutError"
        ),
        "a-second-cancelled": PlantedFault(
            ProcessPlant(talk=CancelsTwice), "cancelling_from_both", "a_cancel_ends_a_turn"
        ),
        "a-drain-without-the-running-check": PlantedFault(
            ProcessPlant(talk=DrainsWhatWasCancelled), "cancelling_from_both", "a_cancelled_turn_is_over"
        ),
    }
)


@pytest.mark.parametrize("planted", [pytest.param(planted, id=name) for name, planted in PLANTED.items()])
def test_a_fault_planted_in_a_process_is_found(planted: PlantedFault) -> None:
    for seed in range(planted.within):
        found = judged(planted.scenario, seed, planted.plant)
        if any(entry.startswith(planted.found) for entry in found):
            return
    raise AssertionError(f"not found in {planted.within} schedules")

"""The running agent under very many interleavings, none of which may break a law.

How many is set by `SIDEBAND_SCHEDULES`, or else by the profile of the property tests (`HYPOTHESIS_PROFILE`).
"""

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import pytest

from tests.faults.replay import Tried
from tests.faults.schedules.kept_seeds import KEPT, Kept
from tests.faults.schedules.play import judge
from tests.faults.schedules.scenarios import SCENARIOS

SIZES: Final[Mapping[str, int]] = MappingProxyType({"default": 20_000, "ci": 20_000, "soak": 200_000})
TOTAL: Final = int(
    os.environ.get("SIDEBAND_SCHEDULES") or SIZES.get(os.environ.get("HYPOTHESIS_PROFILE", "default"), 20_000)
)
# So many schedules are one test: few enough for several processes to share the work evenly.
BLOCK: Final = 250


def blocks() -> Iterator[object]:
    """Every scenario's part of the schedules, cut into blocks of seeds."""
    each = -(-TOTAL // len(SCENARIOS))
    for scenario in SCENARIOS:
        for first in range(0, each, BLOCK):
            seeds = range(first, min(first + BLOCK, each))
            yield pytest.param(scenario, seeds, id=f"{scenario}-{seeds.start}-to-{seeds.stop - 1}")


def check(scenario: str, seed: int) -> None:
    verdict = judge(scenario, seed)
    if not verdict:
        return
    again = f"python -m tests.faults.schedules {scenario} {seed}"
    found = "\n".join(verdict.broken) or repr(verdict.error)
    raise AssertionError(
        f"seed {seed} of {scenario} found a fault:\n{found}\nplay it again: {again}"
    ) from verdict.error


@pytest.mark.parametrize("kept", [pytest.param(kept, id=f"{kept.scenario}-{kept.seed}") for kept in KEPT])
def test_a_schedule_that_once_found_a_fault_finds_none(kept: Kept) -> None:
    check(kept.scenario, kept.seed)


@pytest.mark.parametrize(("scenario", "seeds"), [*blocks()])
def test_no_schedule_breaks_a_law(scenario: str, seeds: range, tried: Tried) -> None:
    for seed in seeds:
        check(scenario, seed)
    tried("schedules, memory", len(seeds))

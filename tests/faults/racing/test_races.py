"""Processes that race for sessions: their replies always fit a sequential order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.racing.race import run
from tests.faults.replay import Tried
from tests.faults.shared_stores import PLACES
from tests.faults.sizes import size

ROUNDS: Final = size("SIDEBAND_RACES", small=120, soak=10_000)
# So many rounds share two processes and a store.
BLOCK: Final = 500
# A planted fault has to be found in so many.
SOON: Final = 100


def blocks() -> Iterator[object]:
    for place in PLACES:
        for first in range(0, ROUNDS, BLOCK):
            seeds = range(first, min(first + BLOCK, ROUNDS))
            yield pytest.param(place, seeds, id=f"{place}-{seeds.start}-to-{seeds.stop - 1}")


@pytest.mark.requirement("store:durable:revoke-is-linearisable", "store:durable:dedupe-is-atomic")
@pytest.mark.parametrize(("place", "seeds"), [*blocks()])
def test_processes_that_fight_over_sessions_are_answered_as_if_each_had_been_alone(
    place: str, seeds: range, tmp_path: Path, tried: Tried
) -> None:
    tried(f"races of two processes, {place}", run(place, seeds, tmp_path))


@pytest.mark.parametrize("place", PLACES)
def test_an_answer_from_before_the_commit_is_found(place: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no order fits these answers") as found:
        run(place, range(SOON), tmp_path, planted="planted")
    assert found.value.__notes__[0].startswith(f"play it again: python -m tests.faults.again race {place} ")

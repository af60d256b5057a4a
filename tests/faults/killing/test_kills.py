"""Processes killed at every moment: nothing they acknowledged is lost, and nothing is done twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.killing.killer import play
from tests.faults.killing.moments import MOMENTS
from tests.faults.replay import Tried
from tests.faults.shared_stores import PLACES
from tests.faults.sizes import size

KILLS: Final = size("SIDEBAND_KILLS", small=100, soak=2_000)

# Seeds that once found a fault: what becomes of a process depends on more than its seed, but not on much more.
KEPT: Final = (
    # A request that was left open could not be sent again once a reminder that it shows had ended.
    ("sqlite", 5),
)


def hunts() -> Iterator[object]:
    """So many that there are no fewer kills than are wanted, half of them in each place."""
    for name, seed in KEPT:
        yield pytest.param(name, seed, id=f"kept-{name}-{seed}")
    for seed in range(-(-KILLS // (len(MOMENTS) * len(PLACES)))):
        for name in PLACES:
            yield pytest.param(name, seed, id=f"{name}-{seed}")


@pytest.mark.requirement(
    "store:durable:acknowledged-survives",
    "store:durable:delivered-once",
    "store:durable:ttl-is-monotone",
    "store:durable:compaction-is-atomic",
    "store:durable:idempotency-outlives-a-restart",
)
@pytest.mark.parametrize(("place", "seed"), [*hunts()])
def test_a_session_outlives_every_process_that_is_killed_at_work(
    place: str, seed: int, tmp_path: Path, tried: Tried
) -> None:
    kills = play(place, seed, tmp_path)
    assert kills >= len(MOMENTS)
    tried(f"processes killed at work, {place}", kills)


@pytest.mark.parametrize("place", PLACES)
def test_a_yes_before_the_commit_is_found(place: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nothing_acknowledged_is_lost") as found:
        play(place, 0, tmp_path, hasty=True)
    assert found.value.__notes__ == [f"play it again: python -m tests.faults.again kill {place} 0"]

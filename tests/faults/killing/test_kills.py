"""Processes that are killed in the middle of what they do: nothing that they have said is lost, and nothing is doubled."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.killing.hunting import Hunt
from tests.faults.killing.moments import Moment
from tests.faults.places import PLACES
from tests.faults.sizes import size

KILLS: Final = size("SIDEBAND_KILLS", small=48, soak=2_000)
# A session lives through all of them, and more than once through what a request has to outlive.
MOMENTS: Final = (*Moment, Moment.ANSWER, Moment.ANSWER)


# Seeds that once found a fault: what becomes of a process depends on more than its seed, but not on much more.
KEPT: Final = (
    # A request that was left open could not be sent again once a reminder that it shows had ended.
    ("sqlite", 5),
)


def hunts() -> Iterator[object]:
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
def test_a_session_outlives_every_process_that_is_killed_at_work(place: str, seed: int, tmp_path: Path) -> None:
    moments = [*MOMENTS]
    random.Random(seed).shuffle(moments)  # noqa: S311 - an order, no secret
    where = PLACES[place](tmp_path)
    hunt = Hunt(where.address, seed)
    try:
        asyncio.run(hunt.run(moments))
    finally:
        where.remove()
    assert hunt.kills >= len(MOMENTS) // 2, f"only {hunt.kills} were killed; nobody came to {hunt.missed}"


def test_a_yes_before_the_commit_is_found(tmp_path: Path) -> None:
    hunt = Hunt(str(tmp_path / "store.db"), 0, hasty=True)
    with pytest.raises(AssertionError, match="nothing_acknowledged_is_lost"):
        asyncio.run(hunt.run([Moment.ACCEPT] * 8))

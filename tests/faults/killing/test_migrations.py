"""Processes that are killed while they bring the tables of a store forward."""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from sideband.store.sqlite.schema import latest
from tests.faults.killing.hunting import Nursery, a_nursery
from tests.faults.killing.life import Order
from tests.faults.killing.moments import Moment
from tests.faults.killing.old_stores import an_old_postgres_store, an_old_sqlite_store, past_events
from tests.faults.laws import journal_of
from tests.faults.places import Place, opened
from tests.faults.sizes import size
from tests.faults.witness import Witness

MIGRATIONS: Final = size("SIDEBAND_MIGRATIONS", small=24, soak=400)
OLD_STORES: Final[Mapping[str, Callable[[Path, int], Place]]] = {
    "sqlite": an_old_sqlite_store,
    "postgres": an_old_postgres_store,
}
# Opening a store and bringing it forward takes a server about so many seconds.
OPENING: Final = 0.05
# And a file so many operations of its disk.
OPERATIONS: Final = 12


async def kill_one(nursery: Nursery, place: Place, rng: random.Random) -> bool:
    """A process that opens the store, and is killed on the way."""
    order = Order(address=place.address, seed=0, lives=False, operations=rng.randint(0, OPERATIONS))
    if place.address.startswith("postgresql:"):
        order = Order(address=place.address, seed=0, lives=False, moment=Moment.ANYWHERE)
    return await nursery.live(order, Witness(), delay=rng.uniform(0, OPENING))


@pytest.mark.requirement("store:durable:acknowledged-survives")
@pytest.mark.parametrize("name", OLD_STORES)
def test_a_store_outlives_those_who_are_killed_while_they_bring_it_forward(name: str, tmp_path: Path) -> None:
    async def story() -> int:
        kills = 0
        async with a_nursery() as nursery:
            for number in range(MIGRATIONS // len(OLD_STORES)):
                rng = random.Random(f"migration {number}")  # noqa: S311 - a moment, no secret
                directory = tmp_path / str(number)
                directory.mkdir()
                place = OLD_STORES[name](directory, 1 + number % (latest() - 1))
                try:
                    for _ in range(1 + number % 2):
                        kills += await kill_one(nursery, place, rng)
                    async with opened(place.address) as store:
                        assert await journal_of(store, "s") == past_events(), f"after number {number}"
                        # All tables are there.
                        await store.release(await store.acquire("s", "me"))
                finally:
                    place.remove()
        return kills

    # Some are through before they can be killed.
    assert asyncio.run(story()) >= MIGRATIONS // (2 * len(OLD_STORES))

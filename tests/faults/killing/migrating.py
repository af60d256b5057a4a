"""Migrating an old store by processes that are killed on the way."""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sideband.core.state import Decided, SessionState
from sideband.store.sqlite.schema import latest
from tests.faults.killing.killer import Nursery, a_nursery
from tests.faults.killing.moments import Moment
from tests.faults.killing.old_stores import EVENTS, an_old_postgres_store, an_old_sqlite_store, past_events
from tests.faults.killing.process import Order
from tests.faults.laws import journal_of
from tests.faults.replay import replayable
from tests.faults.shared_stores import Place, opened
from tests.faults.witness import Witness

OLD_STORES: Final[Mapping[str, Callable[[Path, int], Place]]] = {
    "sqlite": an_old_sqlite_store,
    "postgres": an_old_postgres_store,
}
# Opening a store and bringing it forward takes a server about so many seconds, on a machine that is neither fast nor
# busy. It adapts: a process that finished gives the next one less time, one that was killed gives it more.
OPENING: Final = 0.05
LESS, MORE = 0.5, 1.2
# And a file so many operations of its disk.
OPERATIONS: Final = 12


class Forward:
    """Old stores, one for each number; a `careless` process takes the rows out before it puts them back."""

    def __init__(self, nursery: Nursery, name: str, directory: Path, *, careless: bool = False) -> None:
        self._nursery = nursery
        self._name = name
        self._directory = directory
        self._is_careless = careless
        self._opening = OPENING

    async def outlive(self, number: int) -> int:
        """Migrate the store, killing processes on the way; return how many were killed. No row is lost."""
        rng = random.Random(f"migration {number}")  # noqa: S311 - a moment, no secret
        directory = self._directory / str(number)
        directory.mkdir()
        place = OLD_STORES[self._name](directory, 1 + number % (latest() - 1))
        try:
            with replayable("migration", self._name, number):
                kills = sum([await self._kill_one(place, rng) for _ in range(1 + number % 2)])
                async with opened(place.address) as store:
                    assert await journal_of(store, "s") == past_events(), "what was there before is no longer there"
                    # All tables are there, and what they hold.
                    await store.release(await store.acquire("s", "me"))
                    assert [entry.session_id for entry in await store.sessions()] == ["s"]
                    ids = [f"r{n}" for n in range(EVENTS)]
                    known = await store.commit("s", _receipts, receipts=ids)
                    assert known == {name: f"print {n}" for n, name in enumerate(ids)}
        finally:
            place.remove()
        return kills

    async def _kill_one(self, place: Place, rng: random.Random) -> bool:
        """A process that opens the store and is killed on the way, unless it finishes first."""
        order = Order(
            address=place.address,
            seed=0,
            lives=False,
            hasty=self._is_careless,
            operations=rng.randint(0, OPERATIONS),
            moment=Moment.ANYWHERE if self._name == "postgres" else None,
        )
        killed = await self._nursery.live(order, Witness(), delay=rng.uniform(0, self._opening))
        if order.moment is Moment.ANYWHERE:
            self._opening *= MORE if killed else LESS
        return killed


def _receipts(state: SessionState) -> Decided[dict[str, str | None]]:
    return Decided((), {name: receipt and receipt.fingerprint for name, receipt in state.receipts.items()})


def play(name: str, number: int, directory: Path) -> int:
    """Migrate one old store; return how many processes were killed."""

    async def story() -> int:
        async with a_nursery() as nursery:
            return await Forward(nursery, name, directory).outlive(number)

    return asyncio.run(story())

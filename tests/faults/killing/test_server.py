"""A PostgreSQL server that is killed while clients wait for its answers."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sideband.core.failures import OutcomeUnknown, StoreUnavailable
from sideband.core.limits import Limits
from sideband.ports import Journal
from tests.builders import a_draft
from tests.faults.laws import broken, journal_of
from tests.faults.places import PostgresPlace, opened
from tests.faults.sizes import size
from tests.faults.witness import Witness
from tests.postgres import Server
from tests.unit.store.twins import Sender

KILLS: Final = size("SIDEBAND_SERVER_KILLS", small=4, soak=100)
SENDERS: Final = 4
# Nothing is drained here: everything that was sent waits until the end.
WITHOUT_LIMIT: Final = Limits(pending_per_session=1_000_000, pending_per_source={})
PATIENCE: Final = 120.0 + 10.0 * KILLS


@pytest.fixture
def server() -> Iterator[Server]:
    """One that nobody else uses."""
    server = Server()
    yield server
    server.stop()


class Sending:
    """Somebody who sends one reminder after the other, whatever becomes of them."""

    def __init__(self, store: Journal, name: str, witness: Witness) -> None:
        self._store = store
        self._name = name
        self._witness = witness
        self.refused: list[str] = []
        self.unknown: list[str] = []

    async def go_on(self) -> None:
        number = 0
        while True:
            number += 1
            item_id = f"{self._name}-{number}"
            draft = a_draft(body=item_id, caller_id=item_id)
            try:
                await Sender(self._store).send(draft, limits=WITHOUT_LIMIT)
            except StoreUnavailable:
                self.refused.append(item_id)
            except OutcomeUnknown:
                self.unknown.append(item_id)
            else:
                self._witness.hear("accepted", item_id, item_id)


async def some_commits(store: Journal, count: int) -> None:
    wake = store.wake("s")
    for _ in range(count):
        wake.clear()
        await wake.wait()


@pytest.mark.requirement("store:durable:acknowledged-survives")
def test_what_was_acknowledged_outlives_the_server_and_what_was_refused_was_never_there(
    server: Server, tmp_path: Path
) -> None:
    rng = random.Random("server")  # noqa: S311 - a moment, no secret
    witness = Witness()
    place = PostgresPlace(tmp_path, server)

    async def story() -> None:
        async with opened(place.address) as store:
            sending = [Sending(store, f"c{n}", witness) for n in range(SENDERS)]
            tasks = [asyncio.create_task(one.go_on()) for one in sending]
            for _ in range(KILLS):
                await some_commits(store, rng.randint(1, 10))
                await asyncio.sleep(rng.uniform(0, 0.01))
                server.kill()
                await asyncio.to_thread(server.start)
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        async with opened(place.address) as store:
            events = await journal_of(store, "s")
        assert broken(events, witness) == []
        kept = {event.item.id for event in events if hasattr(event, "item")}
        assert kept.isdisjoint(item_id for one in sending for item_id in one.refused)
        # Whoever was cancelled or does not know may have been heard.
        assert len(kept) - len(witness.accepted) <= SENDERS + sum(len(one.unknown) for one in sending)

    asyncio.run(asyncio.wait_for(story(), PATIENCE))

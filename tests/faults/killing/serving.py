"""A PostgreSQL server that is killed while clients wait for its answers."""

import asyncio
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from unittest.mock import patch

from sideband.core.errors import OutcomeUnknown, StoreUnavailable
from sideband.core.limits import Limits
from sideband.ports import Journal
from sideband.store.postgres import connection
from tests.builders import a_draft
from tests.faults.laws import broken, journal_of
from tests.faults.replay import replayable
from tests.faults.shared_stores import PostgresPlace, opened
from tests.faults.witness import Witness
from tests.postgres import OPTIONS, Server
from tests.unit.store.twins import Sender

KILLS_EACH: Final = 4
SENDERS: Final = 4
# Nothing is drained here: everything that was sent waits until the end.
WITHOUT_LIMIT: Final = Limits(pending_per_session=1_000_000, pending_per_source={})
PATIENCE: Final = 160.0
WAITING, NOT_WAITING = "synchronous_commit=on", "synchronous_commit=off"


class Sending:
    """A client that sends one reminder after the other, whether or not they are accepted."""

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


def play(_place: str, seed: int, directory: Path, *, careless: bool = False) -> int:
    """Kill a server of our own again and again; a `careless` one acknowledges before its disk does."""
    kills = KILLS_EACH
    with ExitStack() as stack:
        options = OPTIONS
        if careless:
            # Waiting for a lost commit would never end.
            kills = 1
            # The store insists on waiting for the disk, unless it is kept from that.
            stack.enter_context(
                patch.object(connection, "_SET_UP", connection._SET_UP.replace("THEN 'on'", "THEN 'off'"))
            )
            options = OPTIONS.replace(WAITING, NOT_WAITING)
        server = Server(options=options)
        stack.callback(server.stop)
        with replayable("server", "postgres", seed):
            asyncio.run(asyncio.wait_for(_story(PostgresPlace(directory, server), seed, kills), PATIENCE))
    return kills


async def _story(place: PostgresPlace, seed: int, kills: int) -> None:
    rng = random.Random(f"server {seed}")  # noqa: S311 - a moment, no secret
    witness = Witness()
    async with opened(place.address) as store:
        sending = [Sending(store, f"c{n}", witness) for n in range(SENDERS)]
        tasks = [asyncio.create_task(one.go_on()) for one in sending]
        for _ in range(kills):
            await some_commits(store, rng.randint(1, 10))
            await asyncio.sleep(rng.uniform(0, 0.01))
            place.server.kill()
            await asyncio.to_thread(place.server.start)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    async with opened(place.address) as store:
        events = await journal_of(store, "s")
    assert not (found := broken(events, witness)), "\n".join(found)
    kept = {event.item.id for event in events if hasattr(event, "item")}
    lied = kept & {item_id for one in sending for item_id in one.refused}
    assert not lied, f"{sorted(lied)} were refused, and are there"
    # A cancelled send, or one with an unknown outcome, may have been committed.
    assert len(kept) - len(witness.accepted) <= SENDERS + sum(len(one.unknown) for one in sending)

"""Killing processes that begin, change and delete sessions, and checking what is left of the sessions."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sideband.inspect.sessions import inspect_store
from sideband.runtime.store import Store
from sideband.store.inspector import verify
from tests.faults.killing.keeping import PRIVATE, ask
from tests.faults.killing.killer import ANYWHERE, MOST_LIVES, ON_THE_RUN, Nursery, a_nursery
from tests.faults.killing.moments import OF_SESSIONS, Moment
from tests.faults.killing.process import Order
from tests.faults.replay import replayable
from tests.faults.shared_stores import PLACES, opened
from tests.faults.witness import Witness

# Each process does so many; the second of them deletes its session.
NUMBERS: Final = 3


class SessionWitness(Witness):
    """What was said of sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, set[str]] = {}
        self.answers: dict[str, list[Any]] = {}
        self.kept = 0

    def hear(self, word: str, *what: Any) -> None:  # noqa: ANN401 - it comes from another process
        match word, *what:
            case "answered", name, answer:
                known = self.answers.setdefault(name, answer)
                assert known == answer, f"{name} was answered {known}, then {answer}"
            case "kept", number:
                self.kept = number
            case "beginning", name:
                # Perhaps again: its process was killed after it had deleted the session, and before it said so.
                self.said[name] = set()
                self.answers.pop(name, None)
            case "begun" | "recorded" | "deleting" | "deleted", name:
                self.said[name].add(word)


class SessionHunt:
    """Sessions that live through many processes, each killed at another moment."""

    def __init__(self, address: str, seed: int) -> None:
        self.address = address
        self.seed = seed
        self.rng = random.Random(f"sessions {seed}")  # noqa: S311 - a moment, no secret
        self.witness = SessionWitness()
        self.kills = 0

    async def run(self, moments: Sequence[Moment]) -> None:
        """Kill one process at each of these moments; then one lives to the end."""
        async with a_nursery() as nursery:
            for moment in moments:
                for life in range(1, MOST_LIVES + 1):
                    killed = await self._live(nursery, moment, life)
                    await self.look()
                    if killed:
                        break
                    assert life < MOST_LIVES, f"no process reached {moment}"
            await self._live(nursery, None, 1)
            await self.look()

    async def _live(self, nursery: Nursery, moment: Moment | None, life: int) -> bool:
        order = Order(
            address=self.address,
            seed=self.seed,
            saying=(self.witness.kept + 1, self.witness.kept + 1 + NUMBERS),
            moment=moment,
            operations=self.rng.randint(0, 6),
            keeps=True,
        )
        most = ANYWHERE if moment is Moment.ANYWHERE else ON_THE_RUN
        killed = await nursery.live(order, self.witness, delay=self.rng.uniform(0, most) / 2 ** (life - 1))
        self.kills += killed
        return killed

    async def look(self) -> None:
        """Open the store, and hold the list, records, receipts and rows against what was said."""
        async with opened(self.address) as journal:
            store = Store(journal)
            listed = {entry.session_id: entry.records for entry in (await store.sessions(limit=1_000)).sessions}
            for name, said in self.witness.said.items():
                if "deleted" in said:
                    assert name not in listed, f"{name} was deleted and is listed"
                elif "begun" in said and "deleting" not in said:
                    assert name in listed, f"{name} was begun and is not listed"
                    assert "recorded" not in said or listed[name] == {"title": f"{PRIVATE}!"}
            for name, answer in self.witness.answers.items():
                session = await store.find(name)
                assert session is None or await ask(session) == answer, f"the receipt of {name} is lost"
        self._inspect()

    def _inspect(self) -> None:
        url = self.address if self.address.startswith("postgresql:") else f"sqlite:///{self.address}"
        with inspect_store(url) as store:
            assert not [*store.faults(), *store.missing()]
            for stored in store.sessions():
                faults = verify(store, stored).faults
                assert not faults, f"{stored.session_id}: {faults}"
                if "deleted" in self.witness.said.get(stored.session_id, set()):
                    left = [entry.body for entry in store.entries(stored.session_id)]
                    kept = store.kept(stored.session_id)
                    assert PRIVATE.encode() not in b"".join([*left, b"" if kept is None else kept.body])
                    assert not store.receipts(stored.session_id)


def play(place: str, seed: int, directory: Path) -> int:
    """Sessions that live through every moment, in an order of its own; how many processes were killed."""
    moments = [*OF_SESSIONS]
    random.Random(seed).shuffle(moments)  # noqa: S311 - an order, no secret
    where = PLACES[place](directory)
    hunt = SessionHunt(where.address, seed)
    try:
        with replayable("sessions", place, seed):
            asyncio.run(hunt.run(moments))
    finally:
        where.remove()
    return hunt.kills

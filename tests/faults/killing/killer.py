"""Killing processes, and checking what they left in the store."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from sideband.core.events import Event
from tests.faults.killing.moments import MOMENTS, Moment
from tests.faults.killing.process import SESSION, Order
from tests.faults.laws import broken, journal_of
from tests.faults.replay import replayable
from tests.faults.shared_stores import PLACES, opened
from tests.faults.witness import Witness

ROOT: Final = Path(__file__).parents[3]
# No process takes this long unless it was forgotten.
PATIENCE: Final = 60.0
# A process that is killed on the run lives for so many seconds more; one that is killed anywhere, for so many.
ON_THE_RUN: Final = 0.004
ANYWHERE: Final = 0.15
SAID_BY_EACH: Final = 6
# A process comes to these perhaps once in its life.
RARE: Final = frozenset({Moment.COMPACTION, Moment.COMPACTOR})
# Some are through before their moment comes; then another one is killed, sooner.
MOST_LIVES: Final = 10


class Nursery:
    """Where processes come from."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._in, self._out = process.stdin, process.stdout
        # Until it is reaped, its pid is not reused.
        self._child: int | None = None

    async def close(self) -> None:
        """Let it end by itself, which it does when no process is left."""
        self._in.close()
        await self._process.wait()

    async def kill(self) -> None:
        """Kill it and its running process, which may have stopped for ever."""
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _hear(self) -> list[Any]:
        line = await asyncio.wait_for(self._out.readline(), PATIENCE)
        heard: list[Any] = msgspec.json.decode(line)
        match heard:
            case ["born", pid]:
                self._child = pid
            case ["buried", _]:
                self._child = None
        return heard

    async def live(self, order: Order, witness: Witness, *, delay: float) -> bool:
        """One life; whether it ended by being killed, so long after its moment had come."""
        self._in.write(msgspec.json.encode(order) + b"\n")
        pid = 0
        while True:
            word, *what = await self._hear()
            witness.hear(word, *what)
            match word:
                case "born":
                    (pid,) = what
                case "now":
                    pid = pid or (await self._hear_birth(witness))
                    await asyncio.sleep(delay)
                    os.kill(pid, signal.SIGKILL)
                case "died":
                    self._in.write(b"bury it\n")
                case "buried":
                    (status,) = what
                    assert status in (0, -signal.SIGKILL), f"it ended by itself, with {status}"
                    return bool(status)

    async def _hear_birth(self, witness: Witness) -> int:
        """Which of two processes is heard first is up to them."""
        while True:
            word, *what = await self._hear()
            witness.hear(word, *what)
            if word == "born":
                return int(what[0])


@asynccontextmanager
async def a_nursery() -> AsyncIterator[Nursery]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.killing.forkserver",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    nursery = Nursery(process)
    try:
        yield nursery
        await nursery.close()
    finally:
        await nursery.kill()


class Hunt:
    """A session that lives through many processes, each killed at another moment."""

    def __init__(self, address: str, seed: int, *, hasty: bool = False) -> None:
        self.address = address
        self.seed = seed
        self.hasty = hasty
        self.rng = random.Random(f"hunt {seed}")  # noqa: S311 - a moment, no secret
        self.witness = Witness()
        self.kills = 0
        self._events: Sequence[Event] = ()
        self._number = 1

    async def run(self, moments: Sequence[Moment]) -> None:
        """Kill one process at each of these moments; then one lives to the end."""
        async with a_nursery() as nursery:
            for moment in moments:
                for life in range(1, MOST_LIVES + 1):
                    killed = await self._kill_one(nursery, moment, life)
                    await self.look()
                    if killed:
                        break
                    assert life < MOST_LIVES, f"no process reached {moment}"
            order = Order(address=self.address, seed=self.seed, last=True)
            await nursery.live(order, self.witness, delay=0)
            await self.look()
        assert self.witness.closed

    async def _kill_one(self, nursery: Nursery, moment: Moment, life: int) -> bool:
        order = Order(
            address=self.address,
            seed=self.seed,
            saying=(self._number, self._number + SAID_BY_EACH),
            moment=moment,
            count=1 if moment in RARE or life > 1 else self.rng.randint(1, 3),
            operations=self.rng.randint(0, 6),
            quiet=self.seed % 2 == 1 or self.rng.random() < 0.5,
            hasty=self.hasty,
        )
        most = ANYWHERE if moment is Moment.ANYWHERE else ON_THE_RUN
        killed = await nursery.live(order, self.witness, delay=self.rng.uniform(0, most) / 2 ** (life - 1))
        self.kills += killed
        # What was said and not answered is said again.
        while f"n{self._number}" in self.witness.accepted:
            self._number += 1
        return killed

    async def look(self) -> None:
        """Open the store, and hold what is there against all that is known."""
        async with opened(self.address) as store:
            events = await journal_of(store, SESSION)
        assert list(events[: len(self._events)]) == list(self._events), "what was there before is no longer there"
        self._events = events
        assert not (found := broken(events, self.witness)), "\n".join(found)


def play(place: str, seed: int, directory: Path, *, hasty: bool = False) -> int:
    """A session that lives through every moment, in an order of its own; how many were killed."""
    moments = [*MOMENTS]
    random.Random(seed).shuffle(moments)  # noqa: S311 - an order, no secret
    where = PLACES[place](directory)
    hunt = Hunt(where.address, seed, hasty=hasty)
    try:
        with replayable("kill", place, seed):
            asyncio.run(hunt.run([Moment.ACCEPT] * len(moments) if hasty else moments))
    finally:
        where.remove()
    return hunt.kills

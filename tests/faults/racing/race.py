"""Two processes that race for the same sessions; their replies have to fit a sequential order."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.laws import broken, journal_of
from tests.faults.racing.history import Call, is_linearisable
from tests.faults.racing.racer import Round
from tests.faults.replay import replayable
from tests.faults.shared_stores import PLACES, opened
from tests.faults.witness import Witness

ROOT: Final = Path(__file__).parents[3]
NAMES: Final = ("p", "q")
CALLS_EACH: Final = 6
PATIENCE: Final = 60.0
# Who was faster is up to the machine: a round that is looked for again is played so often.
TIMES: Final = 100
# Folding every journal would take longer than the race.
LOOKED_AT: Final = 10


class Child:
    """A process that races."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    async def ready(self) -> None:
        assert await self._line() == b"ready\n"

    async def _line(self) -> bytes:
        return await asyncio.wait_for(self._out.readline(), PATIENCE)

    def leave(self) -> None:
        self._in.close()

    async def play(self, given: Round) -> list[Call]:
        self._in.write(msgspec.json.encode(given) + b"\n")
        return msgspec.json.decode(await self._line(), type=list[Call])


@asynccontextmanager
async def a_child(address: str, name: str, planted: str) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.racing.racer",
        address,
        name,
        planted,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    child = Child(process)
    try:
        await child.ready()
        yield child
        child.leave()
        await process.wait()
    finally:
        # One that is still there does not answer.
        if process.returncode is None:
            process.kill()
            await process.wait()


async def race(place: str, address: str, seeds: Iterable[int], *, planted: str = "sound") -> int:
    """How many rounds were played, one for each seed; each in a session of its own."""
    rounds = 0
    async with AsyncExitStack() as stack:
        children = [await stack.enter_async_context(a_child(address, name, planted)) for name in NAMES]
        for seed in seeds:
            rounds += 1
            given = Round(session_id=f"s{rounds}", seed=seed, calls=CALLS_EACH, others=NAMES)
            with replayable("race", place, seed):
                played = await asyncio.gather(*(child.play(given) for child in children))
                calls = sorted((call for calls in played for call in calls), key=lambda call: call.began)
                assert is_linearisable(calls), "\n".join(["no order fits these answers:", *map(str, calls)])
    return rounds


def run(place: str, seeds: Iterable[int], directory: Path, *, planted: str = "sound") -> int:
    """Race, and look at what is left of it."""

    async def story() -> int:
        rounds = await race(place, where.address, seeds, planted=planted)
        async with opened(where.address) as store:
            for number in range(1, rounds + 1, LOOKED_AT):
                found = broken(await journal_of(store, f"s{number}"), Witness())
                assert not found, "\n".join(found)
        return rounds

    where = PLACES[place](directory)
    try:
        return asyncio.run(story())
    finally:
        where.remove()


def play(place: str, seed: int, directory: Path) -> int:
    """One round, again and again."""
    return run(place, [seed] * TIMES, directory)

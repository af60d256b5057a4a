"""Processes that fight over sessions: whatever they are answered, it could have happened one after the other."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.faults.laws import broken, journal_of
from tests.faults.places import PLACES, opened
from tests.faults.racing.history import Call, is_linearisable
from tests.faults.racing.racer import Round
from tests.faults.sizes import size
from tests.faults.witness import Witness

ROOT: Final = Path(__file__).parents[3]
ROUNDS: Final = size("SIDEBAND_RACES", small=120, soak=10_000)
# A planted fault has to be found in so many.
SOON: Final = 100
NAMES: Final = ("p", "q")
CALLS_EACH: Final = 6
PATIENCE: Final = 60.0


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
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


async def race(address: str, rounds: int, planted: str = "sound") -> int | None:
    """The first round that nobody could have played alone; None where there is none."""
    async with AsyncExitStack() as stack:
        children = [await stack.enter_async_context(a_child(address, name, planted)) for name in NAMES]
        for seed in range(rounds):
            given = Round(session_id=f"s{seed}", seed=seed, calls=CALLS_EACH, others=NAMES)
            played = await asyncio.gather(*(child.play(given) for child in children))
            if not is_linearisable([call for calls in played for call in calls]):
                return seed
    return None


@pytest.mark.requirement("store:durable:revoke-is-linearisable", "store:durable:dedupe-is-atomic")
@pytest.mark.parametrize("place", PLACES)
def test_processes_that_fight_over_sessions_are_answered_as_if_each_had_been_alone(place: str, tmp_path: Path) -> None:
    async def story() -> None:
        first = await race(where.address, ROUNDS)
        assert first is None, f"round {first} has no order"
        async with opened(where.address) as store:
            for seed in range(0, ROUNDS, 10):
                assert broken(await journal_of(store, f"s{seed}"), Witness()) == []

    where = PLACES[place](tmp_path)
    try:
        asyncio.run(story())
    finally:
        where.remove()


@pytest.mark.parametrize("place", PLACES)
def test_an_answer_from_before_the_commit_is_found(place: str, tmp_path: Path) -> None:
    where = PLACES[place](tmp_path)
    try:
        assert asyncio.run(race(where.address, SOON, "planted")) is not None
    finally:
        where.remove()

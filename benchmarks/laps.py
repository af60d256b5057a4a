"""One loop in a process of its own, and the CPU time of each of its turns: `python -m benchmarks.laps MODULE FUNCTION TURNS`.

Nothing is imported here that is not also there where the frameworks are installed.
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from statistics import median
from time import process_time_ns
from typing import Final, TypeAlias

import msgspec

# What is imported late, compiled or cached on first use is no part of a turn.
WARM_UP_TURNS: Final = 20
READINGS: Final = 1_000


class Watch:
    """CPU time of a loop, which stands still while a request is built or answered.

    A turn lasts from the reply of the model to the next question. `clock_cost` is what one reading of the clock takes
    of it.
    """

    def __init__(self, clock_cost: float = 0.0) -> None:
        self._clock_cost = clock_cost
        self._laps: list[float] = []
        self._spent = 0.0
        self._since = process_time_ns()

    @property
    def turns(self) -> list[float]:
        """Nanoseconds of each; what came before the first question is no turn."""
        return self._laps[1:]

    def asked(self) -> None:
        """The model has the word."""
        self.pause()
        self._laps.append(self._spent)
        self._spent = 0.0

    def pause(self) -> None:
        self._spent += process_time_ns() - self._since - self._clock_cost

    def resume(self) -> None:
        self._since = process_time_ns()


Loop: TypeAlias = Callable[[int, Watch], Awaitable[int]]


def clock_cost() -> float:
    """What a watch measures of a loop that does nothing."""
    watch = Watch()
    for _ in range(READINGS):
        watch.asked()
        watch.resume()
    return median(watch.turns)


async def timed(loop: Loop, turns: int) -> list[float]:
    """Nanoseconds of each turn, the first of them no longer than the last for being the first."""
    await loop(WARM_UP_TURNS, Watch())
    gc.collect()
    watch = Watch(clock_cost())
    results = await loop(turns, watch)
    if not results == turns == len(watch.turns):
        raise RuntimeError(f"{turns} turns were wanted, {len(watch.turns)} were timed, {results} have a result")
    return watch.turns


def main() -> None:
    module, function, turns = sys.argv[1:]
    loop: Loop = getattr(import_module(module), function)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(timed(loop, int(turns)))))


if __name__ == "__main__":
    main()

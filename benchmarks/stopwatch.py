"""Two ways of timing, both without the garbage collector and less what timing itself costs."""

import gc
import timeit
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from statistics import median
from time import perf_counter_ns
from typing import Final, NamedTuple

from benchmarks.effort import Effort, Progress

Call = Callable[[], object]

# A measurement with fewer calls has no median worth the name.
FEWEST_CALLS: Final = 3

_numbers: Final = count()


def median_call(workload: Callable[[Iterable[int]], Iterable[Call]], *, most: int, seconds: float) -> float:
    """The median time of one call in nanoseconds, of as many as `most` and `seconds` allow.

    A workload is given numbers that never come twice and yields a call for each; what it does before and after the
    call is not timed. The median leaves out what the machine did meanwhile, and with it the rare call on which a
    dict grows.
    """
    spent: list[int] = []

    def numbers() -> Iterator[int]:
        deadline = perf_counter_ns() + seconds * 1e9
        while len(spent) < most and (len(spent) < FEWEST_CALLS or perf_counter_ns() < deadline):
            yield next(_numbers)

    with _undisturbed():
        for call in workload(numbers()):
            start = perf_counter_ns()
            call()
            spent.append(perf_counter_ns() - start)
    return median(spent)


def clock_cost(*, most: int, seconds: float) -> float:
    """What `median_call` measures where there is nothing to do."""
    return median_call(lambda numbers: (_nothing for _ in numbers), most=most, seconds=seconds)


def above(floor: float, measured: float) -> float:
    """A time without the cost of measuring it, kept above zero so that ratios exist."""
    return max(measured - floor, 1.0)


class Spread(NamedTuple):
    """Nanoseconds of one call, over many loops."""

    best: float
    median: float


def interleaved(variants: Mapping[str, Call], effort: Effort, progress: Progress, part: str) -> dict[str, Spread]:
    """Time calls without side effects: each in short loops, all of them in turn."""
    contenders = {"": _nothing, **variants}
    lengths = {name: _length(call, effort.loop_seconds) for name, call in contenders.items()}
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for done in range(1, effort.loops + 1):
        for name, call in contenders.items():
            spent[name].append(timeit.timeit(call, number=lengths[name]) / lengths[name] * 1e9)
        progress.step(part, done, effort.loops)
    floor = min(spent[""])
    return {name: Spread(above(floor, min(spent[name])), above(floor, median(spent[name]))) for name in variants}


def _length(call: Call, seconds: float) -> int:
    """How many calls make a loop of that length; finding out is the warm-up."""
    number, needed = 1, 0.0
    while needed < seconds:
        number *= 2
        needed = timeit.timeit(call, number=number)
    return max(1, int(number * seconds / needed))


def _nothing() -> None:
    pass


@contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

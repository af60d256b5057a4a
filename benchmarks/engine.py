"""Each operation of the engine at several numbers of pending reminders, beside a list that is searched."""

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration, times
from benchmarks.stopwatch import FEWEST_CALLS, Call, above, clock_cost, median_call
from benchmarks.workloads import ON_INBOX, ON_LIVE, SUBJECTS, Operation, with_live, with_waiting

PART: Final = "engine"
MAX_GROWTH: Final[Mapping[Operation, float]] = MappingProxyType(
    {Operation.INJECT_COLLIDING: 8.0, Operation.NOTHING_DUE: 2.0}
)

Trial = Callable[[Iterable[int]], Iterator[Call]]


class Point(NamedTuple):
    """Where one figure belongs."""

    operation: Operation
    size: int
    subject: str


def measure(effort: Effort, progress: Progress) -> Report:
    best = _best(effort, progress)
    smallest, *_, largest = effort.sizes
    return Report(
        part=PART,
        tables=(_table(best, effort),),
        targets=tuple(
            Target(
                name=f"{operation} at {largest:,} pending, beside {smallest:,}",
                limit=limit,
                measured=_growth(best, operation, effort),
            )
            for operation, limit in MAX_GROWTH.items()
        ),
        figures=tuple(
            Figure(name=f"{point.operation} / {point.subject} / {point.size}", value=value)
            for point, value in best.items()
        ),
    )


def _trials(effort: Effort) -> dict[Point, Trial]:
    """What is timed, in the order of a round: at one size each operation, of us and of the list in turn."""
    trials: dict[Point, Trial] = {}
    for size in effort.sizes:
        for workloads, filled in ((ON_LIVE, with_live), (ON_INBOX, with_waiting)):
            subjects = {name: filled(name, size) for name in SUBJECTS}
            for operation, workload in workloads.items():
                for name, subject in subjects.items():
                    trials[Point(operation, size, name)] = partial(workload, subject, size)
    return trials


def _best(effort: Effort, progress: Progress) -> dict[Point, float]:
    # To fill the sessions takes a while.
    progress.step(PART, 0, 1)
    trials = _trials(effort)
    # What is pending all the while would otherwise be searched for garbage before every measurement.
    gc.freeze()
    try:
        return _best_of(trials, effort, progress)
    finally:
        gc.unfreeze()


def _best_of(trials: Mapping[Point, Trial], effort: Effort, progress: Progress) -> dict[Point, float]:
    best = dict.fromkeys(trials, math.inf)
    floor = math.inf
    done, total = 0, (effort.rounds + 1) * len(trials)
    for round_ in range(effort.rounds + 1):
        warms_up = round_ == 0
        floor = min(floor, clock_cost(most=effort.calls, seconds=effort.seconds))
        for point, trial in trials.items():
            spent = median_call(trial, most=FEWEST_CALLS if warms_up else effort.calls, seconds=effort.seconds)
            if not warms_up:
                best[point] = min(best[point], spent)
            done += 1
            progress.step(PART, done, total)
    return {point: above(floor, spent) for point, spent in best.items()}


def _growth(best: Mapping[Point, float], operation: Operation, effort: Effort) -> float:
    smallest, *_, largest = effort.sizes
    return best[Point(operation, largest, "ours")] / best[Point(operation, smallest, "ours")]


def _table(best: Mapping[Point, float], effort: Effort) -> Table:
    smallest, *_, largest = effort.sizes
    rows = []
    for operation in Operation:
        ours, naive = ([best[Point(operation, size, name)] for size in effort.sizes] for name in ("ours", "naive"))
        rows.append(
            (
                operation.value,
                *map(duration, ours),
                times(_growth(best, operation, effort)),
                *map(duration, naive),
                *(times(slow / fast) for slow, fast in zip(naive, ours, strict=True)),
            )
        )
    return Table(
        title=f"Engine: {', '.join(f'{size:,}' for size in effort.sizes)} reminders pending",
        note=(
            f"Time of one call: the best of {effort.rounds} rounds, of which each is the median of up to "
            f"{effort.calls:,} calls. Ours decides and applies; naive is one list that every operation searches.\n"
            f"growth = ours at {largest:,} / ours at {smallest:,}; n/o = naive / ours."
        ),
        columns=(
            "operation",
            *(f"ours {_short(size)}" for size in effort.sizes),
            "growth",
            *(f"naive {_short(size)}" for size in effort.sizes),
            *(f"n/o {_short(size)}" for size in effort.sizes),
        ),
        rows=tuple(rows),
    )


def _short(size: int) -> str:
    return f"{size // 1000}k" if size % 1000 == 0 else str(size)

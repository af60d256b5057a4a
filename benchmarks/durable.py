"""What durability costs: accepts into a store file, beside the least that makes anything durable."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter_ns
from typing import Final, NamedTuple

from benchmarks import accepts
from benchmarks.effort import Effort, Progress
from benchmarks.report import MIB, Figure, Report, Table, Target, duration, size, times
from sideband.store.sqlite import open_sqlite

PART: Final = "durable"
ROOT: Final = Path(__file__).parents[1]
LEAST_SINGLE: Final = 0.35
LEAST_GROUPED: Final = 4.0
MAX_WAKE_NS: Final = 5e6
MAX_OPEN_NS: Final = 200e6
MAX_REFUSED_BYTES: Final = 50.0 * MIB
# For one round of what is timed elsewhere: short ones, some of which find the disk to themselves.
ROUNDS: Final = 3

FLOOR: Final = "append and fsync"
SINGLE: Final = "accept"
GROUPED: Final = f"accept, {accepts.AT_ONCE} at once"
SHARED: Final = f"accept, {accepts.AT_ONCE} at once, one session"
WAKE: Final = "accept to wake-up in another process"


class Size(NamedTuple):
    """How much of each is done: `calls` and `each` in a round, the others in all.

    What a full run does is what the targets are about.
    """

    calls: int
    each: int
    wakes: int
    events: int
    refused: int
    rounds: int
    runs: int


class Costs(NamedTuple):
    """Nanoseconds, and bytes for what was refused; None where the system does not tell."""

    floor: list[int]
    single: list[int]
    grouped: float
    shared: float
    wakes: list[int]
    opened: float
    refused: float | None


def measure(effort: Effort, progress: Progress) -> Report:
    rounds = effort.rounds * ROUNDS
    amount = Size(
        calls=max(3, effort.calls // effort.rounds),
        each=max(2, effort.calls // (4 * rounds)),
        wakes=max(3, effort.calls // 5),
        events=max(100, 10 * effort.calls),
        refused=max(100, 100 * effort.calls),
        rounds=rounds,
        runs=effort.runs,
    )
    with tempfile.TemporaryDirectory(prefix="sideband-") as directory:
        costs = asyncio.run(_costs(Path(directory), amount, progress))
    return Report(
        part=PART,
        tables=(_table(costs, amount),),
        targets=_targets(costs, amount),
        figures=tuple(_figures(costs, amount)),
        remarks=() if costs.refused is not None else (f"memory: skipped, there is no {accepts.STATUS}",),
    )


# Measuring.


async def _costs(directory: Path, amount: Size, progress: Progress) -> Costs:
    floor: list[list[int]] = []
    single: list[list[int]] = []
    grouped: list[float] = []
    shared: list[float] = []
    rounds, steps = amount.rounds, amount.rounds + 3
    store = await open_sqlite(directory / "store.db")
    for done in range(1, rounds + 1):
        floor.append(accepts.append_and_sync(directory / "floor", amount.calls))
        single.append(await accepts.one_by_one(store, amount.calls))
        # Each round has its own sessions: no real session has as many pending items as all rounds together.
        grouped.append(await accepts.at_once(store, amount.each, name=f"of-{done}", sessions=accepts.AT_ONCE))
        shared.append(await accepts.at_once(store, amount.each, name=f"one-{done}", sessions=1))
        progress.step(PART, done, steps)
    await store.close()
    wakes = await _wakes(directory / "woken.db", amount.wakes)
    progress.step(PART, rounds + 1, steps)
    opened = await _opened(directory / "long.db", amount)
    progress.step(PART, rounds + 2, steps)
    # A process that has shrunk is reported as 1 byte, because ratios need a positive number.
    grown = max(_child("refused", directory / "full.db", amount.refused), 1.0) if accepts.STATUS.exists() else None
    progress.step(PART, steps, steps)
    return Costs(_best(floor), _best(single), min(grouped), min(shared), wakes, opened, grown)


def _best(rounds: list[list[int]]) -> list[int]:
    """The round of the least median. All are measured in turn: a disk that is slow for a while decides nothing."""
    return min(rounds, key=median)


async def _wakes(path: Path, number: int) -> list[int]:
    """The time from the call of `commit` in one process to the wake-up in another."""
    store = await open_sqlite(path)
    await store.open(accepts.SESSION)
    other = await asyncio.create_subprocess_exec(
        *_command("neighbour", path, 0), cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert other.stdin is not None
    assert other.stdout is not None
    await other.stdout.readline()
    wake = store.wake(accepts.SESSION)
    spent: list[int] = []
    for _ in range(number):
        wake.clear()
        other.stdin.write(b"\n")
        await wake.wait()
        woken = perf_counter_ns()
        spent.append(woken - int(await other.stdout.readline()))
    other.stdin.close()
    await other.wait()
    await store.close()
    return spent


async def _opened(path: Path, amount: Size) -> float:
    """The median time of opening a session of that length, in a process that knows nothing of it; others are as long."""
    store = await open_sqlite(path)
    for session_id in ("other", accepts.SESSION, "another"):
        await accepts.grow(store, session_id, amount.events)
    await store.close()
    return median(_child("opened", path, 0) for _ in range(amount.runs))


def _command(role: str, path: Path, number: int) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.accepts", role, str(path), str(number))


def _child(role: str, path: Path, number: int) -> float:
    answer = subprocess.run(_command(role, path, number), cwd=ROOT, capture_output=True, check=True)  # noqa: S603 - our own program
    return float(answer.stdout)


# Reporting.


def _targets(costs: Costs, amount: Size) -> tuple[Target, ...]:
    floor = median(costs.floor)
    return (
        Target(
            name=f"{SINGLE}, beside {FLOOR}",
            limit=LEAST_SINGLE,
            measured=floor / median(costs.single),
            at_least=True,
        ),
        Target(name=f"{GROUPED}, beside {FLOOR}", limit=LEAST_GROUPED, measured=floor / costs.grouped, at_least=True),
        Target(name=WAKE, limit=MAX_WAKE_NS, measured=median(costs.wakes), unit="ns"),
        Target(name=_opening(amount), limit=MAX_OPEN_NS, measured=costs.opened, unit="ns"),
        Target(name=_refusing(amount), limit=MAX_REFUSED_BYTES, measured=costs.refused, unit="bytes"),
    )


def _opening(amount: Size) -> str:
    return f"opening a session of {amount.events:,} events"


def _refusing(amount: Size) -> str:
    return f"memory after {amount.refused:,} refused accepts"


def _figures(costs: Costs, amount: Size) -> list[Figure]:
    figures = [
        Figure(name=FLOOR, value=median(costs.floor)),
        Figure(name=SINGLE, value=median(costs.single)),
        Figure(name=GROUPED, value=costs.grouped),
        Figure(name=SHARED, value=costs.shared),
        Figure(name=WAKE, value=median(costs.wakes)),
        Figure(name=_opening(amount), value=costs.opened),
    ]
    if costs.refused is not None:
        figures.append(Figure(name=_refusing(amount), value=costs.refused, unit="bytes"))
    return figures


def _table(costs: Costs, amount: Size) -> Table:
    floor = median(costs.floor)

    def timed(name: str, spent: list[int]) -> tuple[str, ...]:
        return (name, duration(median(spent)), duration(late(spent)), times(floor / median(spent)))

    return Table(
        title="Durable: a store file that survives a power cut",
        note=(
            f"Time of one call: the median and the 99th percentile of {len(costs.single):,}; how often that is per time "
            f"of one {FLOOR}. The best of {amount.rounds} rounds,\nmeasured in turn. {accepts.AT_ONCE} at once, each to a "
            f"session of its own or all to one, share their syncs: the time is that of each."
        ),
        columns=("what", "median", "99 %", "x as often"),
        rows=(
            timed(FLOOR, costs.floor),
            timed(SINGLE, costs.single),
            (GROUPED, duration(costs.grouped), "-", times(floor / costs.grouped)),
            (SHARED, duration(costs.shared), "-", times(floor / costs.shared)),
            timed(WAKE, costs.wakes),
            (_opening(amount), duration(costs.opened), "-", "-"),
            (_refusing(amount), "-" if costs.refused is None else size(costs.refused), "-", "-"),
        ),
    )


def late(spent: list[int]) -> float:
    """The 99th percentile."""
    return quantiles(spent, n=100)[-1] if len(spent) > 1 else float(spent[0])

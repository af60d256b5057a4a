"""Accepts into a PostgreSQL store while it is measured, and inserts into a plain table for comparison."""

import asyncio
import sys
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

import psycopg

from benchmarks import accepts
from benchmarks.effort import Effort, Progress
from sideband.core.state import Decided
from sideband.store.postgres import open_postgres
from tests.postgres import Server

ROOT: Final = Path(__file__).parents[1]
# A commit is on the disk, as on a production server.
OPTIONS: Final = "-c shared_buffers=64MB -c listen_addresses= -c max_connections=40"
# As many bytes as an accept writes, and as many indexes.
BODY: Final = b"x" * 700
_TABLE: Final = """
CREATE TABLE plain (sequence bigserial PRIMARY KEY, session_id text NOT NULL, word text NOT NULL, body bytea NOT NULL);
CREATE INDEX plain_of_session ON plain (session_id, sequence)
"""
_INSERT: Final = """
INSERT INTO plain (session_id, word, body) SELECT * FROM unnest(%b::text[], %b::text[], %b::bytea[])
"""


class Costs(NamedTuple):
    """Nanoseconds; `rows` and `grouped` for each of those that share a transaction."""

    row: list[int]
    rows: float
    single: list[int]
    grouped: float
    wakes: list[int]


def costs(part: str, effort: Effort, progress: Progress) -> Costs:
    server = Server(options=OPTIONS)
    try:
        return asyncio.run(_costs(server.url(server.take()), part, effort, progress))
    finally:
        server.stop()


async def _costs(url: str, part: str, effort: Effort, progress: Progress) -> Costs:
    calls, each = max(3, effort.calls // effort.rounds), max(2, effort.calls // 20)
    plain = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await plain.execute(_TABLE)
    store = await open_postgres(url)
    # Sessions are known and statements prepared before anything is measured.
    await accepts.at_once(store, 2)
    await _inserts(plain, 1, 6)
    row: list[int] = []
    single: list[int] = []
    rows: list[float] = []
    grouped: list[float] = []
    for done in range(1, effort.rounds + 1):
        # In turn, since how long a sync takes depends on what else the disk has to do.
        row += await _inserts(plain, 1, calls)
        single += await accepts.one_by_one(store, calls)
        rows.append(sum(await _inserts(plain, accepts.AT_ONCE, each)) / (accepts.AT_ONCE * each))
        grouped.append(await accepts.at_once(store, each))
        progress.step(part, done, effort.rounds + 1)
    await plain.close()
    await store.close()
    wakes = await _wakes(url, max(3, effort.calls // 5))
    progress.step(part, effort.rounds + 1, effort.rounds + 1)
    return Costs(row, median(rows), single, median(grouped), wakes)


async def _inserts(plain: psycopg.AsyncConnection[Any], rows: int, calls: int) -> list[int]:
    """The time of each of `calls` transactions that only insert rows."""
    values = ["main"] * rows, ["queued"] * rows, [BODY] * rows
    spent: list[int] = []
    for _ in range(calls):
        start = perf_counter_ns()
        async with plain.transaction():
            await plain.execute(_INSERT, values, prepare=True)
        spent.append(perf_counter_ns() - start)
    return spent


async def _wakes(url: str, number: int) -> list[int]:
    """The time from the call of `commit` in one process to the wake-up in another."""
    store = await open_postgres(url)
    await store.open(accepts.SESSION)
    command = (sys.executable, "-m", "benchmarks.postgres_accepts", url)
    other = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
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


async def neighbour(url: str) -> None:
    """In a child process: accept one reminder for each line of input, and print when the commit was asked for."""
    store = await open_postgres(url)
    await store.open(accepts.SESSION)
    draft = accepts.a_draft()
    await store.commit(accepts.SESSION, lambda _: Decided((), None))
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        start = perf_counter_ns()
        await store.commit(accepts.SESSION, accepts.an_accept(draft))
        print(start, flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(neighbour(sys.argv[1]))

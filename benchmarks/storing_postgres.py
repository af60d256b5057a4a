"""What is done to a PostgreSQL store while it is measured, and to a plain table beside it."""

import asyncio
import sys
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

import psycopg

from benchmarks import storing
from benchmarks.effort import Effort, Progress
from sideband.store.postgres import open_postgres
from tests.decisions import deciding, saying
from tests.postgres import Server

ROOT: Final = Path(__file__).parents[1]
# As on a server that people rely on: what is committed is on the disk.
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
    await storing.at_once(store, 2)
    await _inserts(plain, 1, 6)
    row: list[int] = []
    single: list[int] = []
    rows: list[float] = []
    grouped: list[float] = []
    for done in range(1, effort.rounds + 1):
        # In turn, since how long a sync takes depends on what else the disk has to do.
        row += await _inserts(plain, 1, calls)
        single += await storing.one_by_one(store, calls)
        rows.append(sum(await _inserts(plain, storing.AT_ONCE, each)) / (storing.AT_ONCE * each))
        grouped.append(await storing.at_once(store, each))
        progress.step(part, done, effort.rounds + 1)
    await plain.close()
    await store.close()
    wakes = await _wakes(url, max(3, effort.calls // 5))
    progress.step(part, effort.rounds + 1, effort.rounds + 1)
    return Costs(row, median(rows), single, median(grouped), wakes)


async def _inserts(plain: psycopg.AsyncConnection[Any], rows: int, calls: int) -> list[int]:
    """How long each of so many transactions takes that do nothing but insert rows."""
    values = ["main"] * rows, ["queued"] * rows, [BODY] * rows
    spent: list[int] = []
    for _ in range(calls):
        start = perf_counter_ns()
        async with plain.transaction():
            await plain.execute(_INSERT, values, prepare=True)
        spent.append(perf_counter_ns() - start)
    return spent


async def _wakes(url: str, number: int) -> list[int]:
    """From the moment in which one process asks for a commit to that in which another has heard of it."""
    store = await open_postgres(url)
    await store.open(storing.SESSION)
    command = (sys.executable, "-m", "benchmarks.storing_postgres", url)
    other = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert other.stdin is not None
    assert other.stdout is not None
    await other.stdout.readline()
    wake = store.wake(storing.SESSION)
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
    """In a process of its own: accepts one reminder for each line it reads, and says when it was asked for."""
    store = await open_postgres(url)
    await store.open(storing.SESSION)
    decide = storing.accepting(storing.a_draft())
    await store.commit(storing.SESSION, saying())
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        start = perf_counter_ns()
        await store.commit(storing.SESSION, deciding(decide))
        print(start, flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(neighbour(sys.argv[1]))

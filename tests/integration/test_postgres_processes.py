"""One PostgreSQL store and several processes: what they promise together, also when some of them are killed."""

import asyncio
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from sideband.core.drain import drain
from sideband.core.events import Idled, Queued, Started
from sideband.core.seams import Seam
from sideband.ports import Journal, Logged
from tests.decisions import saying
from tests.postgres_client import CLIENTS, SESSION, WRITERS
from tests.programs import ROOT
from tests.unit.store.twins import PostgresTwin, a_start, played, told, took


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresTwin]:
    twin = PostgresTwin(tmp_path)
    yield twin
    twin.remove()


@asynccontextmanager
async def a_process(twin: PostgresTwin, role: str, name: str, count: int) -> AsyncIterator[Process]:
    arguments = ("-m", "tests.postgres_client", twin.url, role, name, str(count))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def lines_of(process: Process) -> list[str]:
    """All that it says before it is done."""
    said, _ = await process.communicate()
    *lines, last = said.decode().splitlines()
    assert (last, process.returncode) == ("done", 0)
    return lines


async def all_of(twin: PostgresTwin, role: str, names: str, count: int) -> list[list[str]]:
    """What so many processes say that do the same at the same time."""

    async def one(name: str) -> list[str]:
        async with a_process(twin, role, name, count) as process:
            return await lines_of(process)

    return await asyncio.gather(*map(one, names))


def accepted(entries: list[Logged]) -> list[str]:
    return [str(entry.event.item.id) for entry in entries if isinstance(entry.event, Queued)]


async def until_idle(store: Journal) -> list[int]:
    """All that a subscriber sees before a session is idle."""
    seen: list[int] = []
    async with aclosing(store.subscribe()) as source:
        async for entry in source:
            seen.append(entry.sequence)
            if isinstance(entry.event, Idled):
                break
    return seen


async def is_whole(store: Journal) -> bool:
    sequences = [entry.sequence for entry in await told(store)]
    return sequences == list(range(1, len(sequences) + 1))


def test_two_processes_that_want_one_session_run_it_in_turns(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await all_of(postgres, "run", "ab", 10)
            assert tuple(type(entry.event) for entry in await told(store)) == (Started, Idled) * 20

    played(story)


@pytest.mark.requirement("store:durable:order-under-concurrency", "events:sequence:gap-free")
def test_each_of_eight_clients_in_four_processes_has_its_own_delivered_in_its_order(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await all_of(postgres, "send", "abcd", 10)
            assert await is_whole(store)
            sent = accepted(await told(store))
            await store.commit(SESSION, lambda state: drain(state, Seam.ITERATION_START))
            live = [item.id for item in store.state(SESSION).live]
            assert live == sent
            for client in (f"{name}{number}" for name in "abcd" for number in range(CLIENTS)):
                own = [item_id for item_id in live if item_id.startswith(f"{client}-")]
                assert own == [f"{client}-{number}" for number in range(1, 11)]

    played(story)


@pytest.mark.requirement("store:durable:dedupe-is-atomic")
def test_of_one_key_that_sixteen_writers_in_two_processes_send_one_waits(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            counts = [int(said) for (said,) in await all_of(postgres, "dedupe", "ab", 8)]
            await store.open(SESSION)
            assert len(store.state(SESSION).inbox) == 1
            assert sum(counts) + 1 == len(accepted(await told(store))) == 2 * WRITERS * 8

    played(story)


@pytest.mark.requirement("store:subscribers:same-order-for-all")
def test_subscribers_that_come_and_go_have_neither_gap_nor_repeat(postgres: PostgresTwin) -> None:
    total = 2 * CLIENTS * 20

    async def follow(store: Journal, most: int) -> list[Logged]:
        seen: list[Logged] = []
        while len(seen) < total:
            source = store.subscribe(after=len(seen))
            seen += await took(source, min(most, total - len(seen)))
            await source.aclose()
        return seen

    async def story() -> None:
        async with postgres.open() as here, postgres.open() as there:
            following = [asyncio.ensure_future(follow(store, most)) for store in (here, there) for most in (3, total)]
            await all_of(postgres, "send", "ab", 20)
            first, *others = await asyncio.gather(*following)
            assert [entry.sequence for entry in first] == list(range(1, total + 1))
            assert others == [first] * 3

    played(story)


@pytest.mark.requirement("store:durable:acknowledged-survives")
def test_what_a_killed_process_was_told_is_there_once_and_the_session_is_free(postgres: PostgresTwin) -> None:
    chance = random.Random(7)  # noqa: S311 - any moment will do
    acknowledged: list[str] = []

    async def killed(name: str) -> None:
        async with a_process(postgres, "acknowledge", name, 1_000) as process:
            assert process.stdout is not None
            lines = [await process.stdout.readline() for _ in range(chance.randrange(1, 30))]
            acknowledged.extend(line.decode().strip() for line in lines)
            process.kill()
            # What it had said before it died, it had said.
            rest = (await process.stdout.read()).decode()
            acknowledged.extend(rest[: rest.rfind("\n") + 1].split())

    async def story() -> None:
        async with postgres.open() as store:
            for number, name in enumerate("abcd", start=1):
                await killed(name)
                await store.commit(SESSION, a_start)
                times = Counter(accepted(await told(store)))
                assert set(times.values()) == {1}
                assert set(acknowledged) <= times.keys()
                assert len(times) <= len(acknowledged) + CLIENTS * number, "more than what was on its way"
                assert await is_whole(store)

    played(story)


@pytest.mark.requirement("store:durable:acknowledged-survives")
def test_a_store_outlives_its_server(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store, postgres.open() as other:
            await other.open(SESSION)
            following = asyncio.ensure_future(until_idle(other))
            acknowledged = 0
            progress, enough = asyncio.Event(), asyncio.Event()

            async def write() -> None:
                nonlocal acknowledged
                while not enough.is_set():
                    await store.commit(SESSION, a_start)
                    acknowledged += 1
                    progress.set()

            writing = [asyncio.ensure_future(write()) for _ in range(3)]
            for _ in range(2):
                progress.clear()
                await progress.wait()
                await asyncio.to_thread(postgres.server.kill)
                await asyncio.to_thread(postgres.server.start)
            progress.clear()
            await progress.wait()
            enough.set()
            await asyncio.gather(*writing)
            await store.commit(SESSION, saying(Idled()))
            whole = list(range(1, acknowledged + 2))
            assert [entry.sequence for entry in await told(store)] == whole
            assert await following == whole

    played(story)

"""The clock and the ids of this machine."""

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sideband.runtime.system import SystemClock, new_id, now_ms
from tests.programs import run_python

# Forks right after an id was minted, so that parent and child mint their next within the same millisecond.
FORKS = """
import os
from sideband.runtime.system import new_id

repeated = 0
for _ in range(100):
    reader, writer = os.pipe()
    new_id()
    if os.fork() == 0:
        os.write(writer, new_id().encode())
        os._exit(0)
    own = new_id()
    os.wait()
    repeated += os.read(reader, 36).decode() == own
    os.close(reader)
    os.close(writer)
print(repeated)
"""


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Threads that switch so often that a missing lock shows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_now_is_in_whole_milliseconds_since_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_790_942_400_123_999_999)
    assert now_ms() == 1_790_942_400_123


def test_an_id_is_a_version_7_uuid_that_tells_its_time() -> None:
    before = now_ms()
    identity = uuid.UUID(new_id())
    assert identity.version == 7
    # Ids that were minted faster than the clock counts may be ahead of it.
    assert identity.int >> 80 >= before


def test_ids_ascend_and_never_repeat() -> None:
    ids = [new_id() for _ in range(2_000)]
    assert sorted(set(ids)) == ids


def test_two_processes_mint_different_ids() -> None:
    script = "from sideband.runtime.system import new_id; print(new_id())"
    minted = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
        for _ in range(2)
    }
    assert len(minted) == 2


@pytest.mark.usefixtures("impatient_threads")
def test_ids_ascend_in_every_thread_and_no_two_threads_get_the_same() -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        minted = list(pool.map(lambda _: [new_id() for _ in range(5_000)], range(8)))
    assert all(ids == sorted(ids) for ids in minted)
    assert len({identity for ids in minted for identity in ids}) == 40_000


def test_a_forked_process_does_not_repeat_the_ids_of_its_parent() -> None:
    assert run_python("-c", FORKS).stdout == "0\n"


# The clock.


def test_the_clock_gives_the_time_of_the_machine_and_of_the_event_loop() -> None:
    async def story() -> None:
        clock, loop = SystemClock(), asyncio.get_running_loop()
        earlier, before = loop.time(), time.time_ns() // 1_000_000
        assert earlier <= clock.monotonic() <= loop.time()
        assert before <= clock.now_ms() <= time.time_ns() // 1_000_000

    asyncio.run(story())


def test_a_sleep_of_zero_seconds_lets_other_tasks_run() -> None:
    order: list[str] = []

    async def sleeper() -> None:
        await SystemClock().sleep(0)
        order.append("sleeper")

    async def main() -> None:
        task = asyncio.create_task(sleeper())
        await asyncio.sleep(0)
        order.append("other")
        await task

    asyncio.run(main())
    assert order == ["other", "sleeper"]

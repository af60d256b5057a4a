"""This machine's clock."""

import asyncio
import time

from sideband.runtime.clock import SystemClock


def test_it_tells_the_time_of_this_machine() -> None:
    clock = SystemClock()
    earlier, before = time.monotonic(), time.time_ns() // 1_000_000
    assert earlier <= clock.monotonic() <= time.monotonic()
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000


def test_a_sleep_of_no_time_lets_the_others_go_first() -> None:
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

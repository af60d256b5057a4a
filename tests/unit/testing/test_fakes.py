"""The fake clock and the counting ids."""

import asyncio

from sideband.testing import CountingIds, FakeClock
from tests.loop_builders import others


def test_the_clock_stands_still_until_it_is_advanced() -> None:
    clock = FakeClock(start_ms=1_000)
    assert (clock.monotonic(), clock.now_ms()) == (0.0, 1_000)
    clock.advance(1.5)
    assert (clock.monotonic(), clock.now_ms()) == (1.5, 2_500)


def test_a_sleep_advances_an_impatient_clock() -> None:
    clock = FakeClock()
    asyncio.run(clock.sleep(60))
    assert clock.monotonic() == 60


def test_on_a_patient_clock_sleepers_wake_in_the_order_of_their_time() -> None:
    clock, order = FakeClock(patient=True), []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        order.append(name)

    async def main() -> None:
        tasks = [asyncio.create_task(sleeper(*who)) for who in (("c", 30), ("a", 10), ("b", 10), ("d", 99))]
        await others()
        clock.advance(9.9)
        await others()
        assert order == []
        clock.advance(0.1)
        await others()
        assert order == ["a", "b"]
        clock.advance(20)
        await others()
        assert order == ["a", "b", "c"]
        tasks[-1].cancel()
        await others()
        clock.advance(1_000)
        await asyncio.wait(tasks)

    asyncio.run(main())
    assert order == ["a", "b", "c"]


def test_each_generator_of_ids_counts_from_one() -> None:
    first, second = CountingIds(), CountingIds("m")
    assert [first(), first(), second(), first()] == ["r-1", "r-2", "m-1", "r-3"]

"""An event loop whose order of things a seed decides."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from sideband.testing import run_schedule
from sideband.testing.schedule import LeftBehind, SeededEventLoop, Stuck, Unhandled

SEEDS = range(20)


async def a_race() -> list[int]:
    """Ten tasks, each with three stretches between which any other may run."""
    order: list[int] = []

    async def runner(number: int) -> None:
        for _ in range(3):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(runner(number) for number in range(10)))
    return order


async def a_cancelled_group() -> list[int]:
    """Ten tasks of a group, in the order in which they end when it is cancelled."""
    order: list[int] = []

    async def waiter(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append(number)

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(10):
                tasks.create_task(waiter(number))

    grouped = asyncio.create_task(group())
    await asyncio.sleep(1)
    grouped.cancel()
    await asyncio.wait([grouped])
    return order


@pytest.mark.parametrize("main", [a_race, a_cancelled_group])
def test_the_same_seed_is_the_same_order(main: Callable[[], object]) -> None:
    assert [run_schedule(seed, main) for seed in SEEDS] == [run_schedule(seed, main) for seed in SEEDS]  # type: ignore[arg-type]


def test_another_seed_is_another_order() -> None:
    assert len({tuple(run_schedule(seed, a_race)) for seed in SEEDS}) == len(SEEDS)


def test_what_main_returns_or_raises_comes_out() -> None:
    async def answers() -> int:
        return 42

    async def fails() -> None:
        raise LookupError("lost")

    assert run_schedule(1, answers) == 42
    with pytest.raises(LookupError, match="lost"):
        run_schedule(1, fails)


def test_time_passes_only_when_nobody_has_anything_to_do() -> None:
    async def main() -> list[tuple[str, float]]:
        loop, seen = asyncio.get_running_loop(), []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time()))

        await asyncio.gather(sleeper("long", 86_400), sleeper("short", 0.5))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=3_600)
        return seen

    assert run_schedule(1, main) == [("short", 0.5), ("long", 86_400.0)]


def test_who_waits_for_what_cannot_come_is_stuck() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="still waiting: Task-"):
        run_schedule(1, main)


def test_a_task_that_outlives_main_is_reported_and_cancelled() -> None:
    ended: list[bool] = []

    async def straggler(begun: asyncio.Event) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def main() -> asyncio.Task[None]:
        begun = asyncio.Event()
        task = asyncio.create_task(straggler(begun), name="straggler")
        await begun.wait()
        return task

    with pytest.raises(LeftBehind, match="straggler"):
        run_schedule(1, main)
    assert ended == [True]


def test_what_fails_where_nobody_looks_is_reported() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: int("no number"))

    with pytest.raises(Unhandled, match="ValueError"):
        run_schedule(1, main)


def test_a_generator_that_was_left_open_is_closed() -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def main() -> AsyncIterator[int]:
        source = numbers()
        await anext(source)
        return source

    run_schedule(1, main)
    assert closed == [True]


def test_asyncio_still_has_what_the_loop_replaces() -> None:
    plain, seeded = asyncio.SelectorEventLoop(), SeededEventLoop(1)
    try:
        for name in ("_ready", "_selector", "_run_once", "_process_events", "_write_to_self"):
            assert hasattr(plain, name), name
        seeded.call_soon(print)
        assert len(seeded._ready) == 1
    finally:
        plain.close()
        seeded.close()

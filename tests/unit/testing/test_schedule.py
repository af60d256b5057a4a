"""The seeded event loop: reproducible interleavings, simulated time, and errors for unclean ends."""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.testing.schedule import LeftBehind, ScheduleError, SeededEventLoop, Stuck, Unhandled, run_schedule

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)


async def order_of_ten() -> list[int]:
    """The order in which ten tasks that began together take two steps each."""
    taken: list[int] = []

    async def take(number: int) -> None:
        for _ in range(2):
            await asyncio.sleep(0)
            taken.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(take(number))
    return taken


# Order.


def test_another_seed_is_another_order() -> None:
    orders = {tuple(run_schedule(seed, order_of_ten)) for seed in range(100)}
    assert len(orders) == 100


@given(SEEDS)
def test_the_same_seed_is_the_same_order(seed: int) -> None:
    assert run_schedule(seed, order_of_ten) == run_schedule(seed, order_of_ten)


@given(SEEDS)
def test_every_order_takes_every_step(seed: int) -> None:
    assert sorted(run_schedule(seed, order_of_ten)) == sorted([*range(10)] * 2)


def test_any_ready_callback_may_come_first_or_last() -> None:
    orders = [run_schedule(seed, order_of_ten) for seed in range(400)]
    assert {order[0] for order in orders} == {*range(10)}
    assert {order[-1] for order in orders} == {*range(10)}


def test_a_callback_that_becomes_ready_later_may_overtake() -> None:
    async def overtaken() -> bool:
        ran: list[str] = []
        loop = asyncio.get_running_loop()

        def first() -> None:
            loop.call_soon(ran.append, "child")

        loop.call_soon(first)
        loop.call_soon(ran.append, "second")
        await asyncio.sleep(1)
        return ran.index("child") < ran.index("second")

    assert {run_schedule(seed, overtaken) for seed in range(50)} == {False, True}


def test_timers_of_one_moment_come_in_any_order() -> None:
    async def order() -> tuple[str, ...]:
        ran: list[str] = []
        loop = asyncio.get_running_loop()
        for name in "abc":
            loop.call_later(1, ran.append, name)
        await asyncio.sleep(2)
        return tuple(ran)

    assert len({run_schedule(seed, order) for seed in range(200)}) == 6


def test_the_order_of_a_set_of_tasks_does_not_depend_on_where_they_lie_in_memory() -> None:
    async def order() -> list[str]:
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(name)

        tasks = {asyncio.ensure_future(wait(str(number))) for number in range(20)}
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return ended

    # Whatever is allocated in between moves the tasks of the next schedule elsewhere.
    kept = []
    orders = []
    for number in range(10):
        orders.append(run_schedule(7, order))
        kept.append([object() for _ in range(1000 * number)])
    assert all(found == orders[0] for found in orders)


# Time.


def test_time_passes_only_when_nothing_is_ready() -> None:
    async def times() -> list[float]:
        loop = asyncio.get_running_loop()
        before = loop.time()
        for _ in range(100):
            await asyncio.sleep(0)
        between = loop.time()
        await asyncio.sleep(3600)
        return [before, between, loop.time()]

    assert run_schedule(1, times) == [0.0, 0.0, 3600.0]


def test_a_time_out_costs_no_waiting() -> None:
    async def wait() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1_000_000):
                await asyncio.get_running_loop().create_future()
        return asyncio.get_running_loop().time()

    assert run_schedule(1, wait) == pytest.approx(1_000_000)


# What it does not let pass.


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def leave_a_task_behind() -> None:
    asyncio.get_running_loop().create_task(wait_for_ever(), name="forgotten")
    await asyncio.sleep(0)


async def leave_a_sleeper_behind() -> None:
    asyncio.get_running_loop().create_task(asyncio.sleep(60), name="forgotten")


async def fail_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon([].pop)
    await asyncio.sleep(1)


async def forget_the_exception_of_a_task() -> None:
    async def fail() -> None:
        raise LookupError("never retrieved")

    task = asyncio.ensure_future(fail())
    await asyncio.sleep(1)
    del task
    gc.collect()


@pytest.mark.parametrize(
    ("main", "error", "words"),
    [
        pytest.param(wait_for_ever, Stuck, "deadlock: nothing is ready", id="a-deadlock"),
        pytest.param(leave_a_task_behind, LeftBehind, "forgotten", id="a-task-that-waits"),
        pytest.param(leave_a_sleeper_behind, LeftBehind, "forgotten", id="a-task-that-sleeps"),
        pytest.param(fail_in_a_callback, Unhandled, "pop from empty list", id="a-callback-that-fails"),
        pytest.param(
            forget_the_exception_of_a_task, Unhandled, "never retrieved", id="an-exception-that-is-never-retrieved"
        ),
    ],
)
def test_an_end_that_is_not_clean_is_an_error(
    main: Callable[[], Coroutine[Any, Any, None]], error: type[ScheduleError], words: str
) -> None:
    with pytest.raises(error, match=words):
        run_schedule(3, main)


def test_tasks_that_are_about_to_end_may_end() -> None:
    async def leave_a_cancelled_task() -> None:
        task = asyncio.ensure_future(wait_for_ever())
        await asyncio.sleep(0)
        task.cancel()

    for seed in range(20):
        run_schedule(seed, leave_a_cancelled_task)


def test_a_task_that_never_ends_is_not_waited_for() -> None:
    def spin() -> None:
        asyncio.get_running_loop().call_soon(spin)

    async def leave_it() -> None:
        asyncio.get_running_loop().create_task(wait_for_ever(), name="waiting")
        spin()

    with pytest.raises(LeftBehind, match="waiting"):
        run_schedule(1, leave_it)


def test_tasks_left_behind_are_cleaned_up() -> None:
    cleaned: list[str] = []

    async def wait() -> None:
        try:
            await wait_for_ever()
        finally:
            cleaned.append("yes")

    async def leave_it() -> None:
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(1)
        assert not task.done()

    with pytest.raises(LeftBehind):
        run_schedule(1, leave_it)
    assert cleaned == ["yes"]


def test_an_error_of_the_program_comes_out_as_it_is() -> None:
    async def fail() -> None:
        await leave_a_task_behind()
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_schedule(1, fail)


def test_the_value_of_the_program_is_returned() -> None:
    async def answer() -> str:
        return "done"

    assert run_schedule(1, answer) == "done"


# The parts of asyncio that it stands on.


def test_asyncio_still_takes_what_is_ready_from_the_left_of_a_queue() -> None:
    loop = asyncio.new_event_loop()
    try:
        assert type(getattr(loop, "_ready", None)) is deque
        assert hasattr(loop, "_selector")
    finally:
        loop.close()
    seeded = SeededEventLoop(1)
    try:
        seeded.call_soon(lambda: None)
        assert len(seeded._ready) == 1
    finally:
        seeded.close()


@pytest.mark.parametrize(
    "outside",
    [
        pytest.param(lambda: asyncio.to_thread(print), id="threads"),
        pytest.param(lambda: asyncio.open_connection("127.0.0.1", 9), id="sockets"),
        pytest.param(lambda: asyncio.create_subprocess_exec("true"), id="processes"),
    ],
)
def test_threads_sockets_and_processes_are_not_supported(outside: Callable[[], Coroutine[Any, Any, object]]) -> None:
    with pytest.raises(NotImplementedError):
        run_schedule(1, outside)

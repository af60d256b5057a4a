"""Work beside the event loop: it can be asked to stop, and its end is always known."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from sideband.tools.offload import Halt, Halted, offload


def cancelled(call: Coroutine[Any, Any, object], running: threading.Event) -> None:
    """Cancel a call, twice, when its thread is running."""

    async def scenario() -> None:
        task = asyncio.create_task(call)
        await asyncio.to_thread(running.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_result_lands_and_is_returned() -> None:
    landed: list[int] = []
    assert asyncio.run(offload(lambda _: 5, landed.append)) == 5
    assert landed == [5]


def test_a_failure_is_raised_and_does_not_land() -> None:
    landed: list[float] = []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(offload(lambda _: 1 / 0, landed.append))
    assert landed == []


def test_a_cancelled_call_halts_its_work_and_ends_after_it() -> None:
    running, order = threading.Event(), []

    def work(halt: Halt) -> None:
        stopped = threading.Event()
        with halt.stopping(stopped.set):
            running.set()
            stopped.wait(30)
        order.append("stopped")
        halt.check()
        order.append("went on")

    cancelled(offload(work), running)
    assert order == ["stopped"]


def test_what_was_done_in_spite_of_a_cancellation_lands() -> None:
    running = threading.Event()
    landed: list[str] = []

    def work(halt: Halt) -> str:
        stopped = threading.Event()
        with halt.stopping(stopped.set):
            running.set()
            stopped.wait(30)
        return "done"

    call = offload(work, landed.append)
    cancelled(call, running)
    assert landed == ["done"]


def test_a_halt_that_came_before_the_wait_is_noticed_at_its_beginning() -> None:
    halt = Halt()
    halt.set()
    with pytest.raises(Halted), halt.stopping(lambda: None):
        pytest.fail("entered although halted")


def test_a_wait_that_is_over_is_not_stopped_any_more() -> None:
    halt, stops = Halt(), []
    with halt.stopping(lambda: stops.append("stop")):
        pass
    halt.set()
    assert stops == []

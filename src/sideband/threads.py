"""Calls blocking code in a daemon thread, so that neither the event loop nor the end of the program waits for it."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class ThreadResult(NamedTuple):
    """What a function returned in a thread, or the exception that it raised."""

    value: Any = None
    error: BaseException | None = None


def run_in_thread(
    function: Callable[[], object], *, on_end: Callable[[], object] = lambda: None
) -> asyncio.Future[ThreadResult]:
    """Call the function in a thread of its own, with the context variables of the caller.

    A thread cannot be ended from outside: if the future is cancelled, the function goes on, and its result is lost.
    `on_end` is called in the thread when the function has ended.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ThreadResult] = loop.create_future()

    def settle(result: ThreadResult) -> None:
        if not future.done():
            future.set_result(result)

    def work() -> None:
        try:
            result = ThreadResult(function())
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            result = ThreadResult(error=error)
        on_end()
        # The loop may be closed by now, and then the result is not needed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return future

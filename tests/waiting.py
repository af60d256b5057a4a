"""Waiting for a condition instead of for a time, so that a test gives the same result on every machine."""

import asyncio
from collections.abc import Callable
from typing import Final

# Polling without a pause would starve the tasks and threads that make the condition true.
_PAUSE: Final = 0.001


async def until(holds: Callable[[], object]) -> None:
    """Return when `holds()` is true. The time-out of the test ends a condition that never becomes true."""
    while not holds():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(_PAUSE)


def let_pass(seconds: float) -> None:
    """Move the clock of the running event loop forward, and with it every timer."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]  # of this loop alone

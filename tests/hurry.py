"""Waiting for what has to come first, and not for a clock: such a test tells the same on every machine."""

import asyncio
from collections.abc import Callable
from typing import Final

# Whoever looks without a pause keeps those from working that are waited for.
_PAUSE: Final = 0.001


async def until(holds: Callable[[], object]) -> None:
    """Returns when it holds; one that never does is a matter for the patience of the test."""
    while not holds():  # noqa: ASYNC110 - of what is looked at nobody tells
        await asyncio.sleep(_PAUSE)


def let_pass(seconds: float) -> None:
    """From now on it is so much later for the running event loop, and for everything that it has a timer for."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]  # of this loop alone

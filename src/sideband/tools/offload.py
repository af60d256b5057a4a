"""Blocking work beside the event loop, with an end that is known even where the caller was cancelled."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Halted(Exception):
    """The work stopped because nobody waits for it any more."""


class Halt:
    """How a thread learns that it should stop; a thread cannot be cancelled from outside."""

    def __init__(self) -> None:
        self._set = False
        self._stops: list[Callable[[], object]] = []
        # Protects both: a stop that is added while the halt arrives is called by exactly one of the two sides.
        self._lock = threading.Lock()

    def set(self) -> None:
        with self._lock:
            self._set = True
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def check(self) -> None:
        if self._set:
            raise Halted

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Inside, a halt also calls `stop`, for a wait that cannot look at the halt itself."""
        with self._lock:
            self.check()
            self._stops.append(stop)
        try:
            yield
        finally:
            with self._lock:
                if stop in self._stops:
                    self._stops.remove(stop)


async def outlast(
    future: asyncio.Future[Any], on_cancel: Callable[[], object] = lambda: None
) -> asyncio.CancelledError | None:
    """Wait until `future` is done, whatever happens; what cancelled the waiting meanwhile, for the caller to raise."""
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            on_cancel()
    return cancelled


async def offload(work: Callable[[Halt], T], landed: Callable[[T], object] = lambda _: None) -> T:
    """Do `work` in a thread; when cancelled, ask it to halt and wait for its end before saying so.

    `landed` gets the result also where the caller does not, because what was done is done.
    """
    halt = Halt()
    future = asyncio.ensure_future(asyncio.to_thread(work, halt))
    cancelled = await outlast(future, halt.set)
    if cancelled is None:
        result = future.result()
        landed(result)
        return result
    if not future.cancelled() and future.exception() is None:
        landed(future.result())
    raise cancelled

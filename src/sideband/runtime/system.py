"""The clock of this machine, and ids made from it."""

import asyncio
import os
import time
from threading import Lock
from typing import Final

from sideband.core.ids import Uuid7


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return now_ms()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def random_bits(count: int) -> int:
    """A random number of `count` bits."""
    size = -(-count // 8)
    return int.from_bytes(os.urandom(size)) >> (size * 8 - count)


class _IdSource:
    """Makes ids for all threads of a process. After a fork it starts anew, or parent and child would make the same ids."""

    def __init__(self) -> None:
        self._start()

    def __call__(self) -> str:
        if os.getpid() != self._pid:
            self._start()
        with self._lock:
            return self._next()

    def _start(self) -> None:
        self._pid = os.getpid()
        # Protects the counter inside `_next`: two threads that read it at once would get the same id.
        self._lock = Lock()
        self._next = Uuid7(now_ms, random_bits)


new_id: Final = _IdSource()

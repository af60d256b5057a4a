"""Identifiers from this machine's clock and randomness."""

import os
import time
from threading import Lock
from typing import Final

from sideband.core.ids import Uuid7


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def random_bits(count: int) -> int:
    """So many random bits."""
    size = -(-count // 8)
    return int.from_bytes(os.urandom(size)) >> (size * 8 - count)


class _Mint:
    """Serves all threads of a process; one that was forked starts anew, or it would repeat what its parent mints."""

    def __init__(self) -> None:
        self._start()

    def __call__(self) -> str:
        if os.getpid() != self._pid:
            self._start()
        with self._lock:
            return self._next()

    def _start(self) -> None:
        self._pid = os.getpid()
        # Protects the count inside `_next`: of two threads that read it at once both would get the same id.
        self._lock = Lock()
        self._next = Uuid7(now_ms, random_bits)


new_id: Final = _Mint()

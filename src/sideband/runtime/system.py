"""The clock of this machine, and UUIDv7 ids made from it."""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Final

_RANDOM_BITS: Final = 74
_RANDOM_MASK: Final = (1 << _RANDOM_BITS) - 1
_LOW_BITS: Final = 62
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_MS_MASK: Final = (1 << 48) - 1

# The end of the year 9999, the last moment that `datetime` can represent.
_LATEST_MS: Final = 253_402_300_799_999

# The clock.


class SystemClock:
    """The clock of the machine; `monotonic` is the time of the running event loop, by which `sleep` is measured too."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return now_ms()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def moment(ms: int, *, timespec: str = "milliseconds") -> str:
    """Format milliseconds since the epoch as RFC 3339."""
    found = datetime.fromtimestamp(max(0, min(ms, _LATEST_MS)) / 1_000, UTC)
    return found.isoformat(timespec=timespec).replace("+00:00", "Z")


# Ids.


class Uuid7:
    """A generator of ids: each call returns an id greater than the one before, even if the clock goes back.

    `clock_ms` returns milliseconds since the epoch, `random_bits(n)` returns n random bits. Within one millisecond the
    random part counts up from a random start; the top bit of the start is clear, which leaves room to count. If the
    clock goes back, ids continue from the last millisecond seen. An id has 48 bits of time, the version, 12 random bits,
    the variant, and 62 random bits.
    """

    def __init__(self, clock_ms: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._clock_ms = clock_ms
        self._random_bits = random_bits
        self._ms = -1
        self._tail = 0

    def __call__(self) -> str:
        now = self._clock_ms()
        if now > self._ms:
            self._ms, self._tail = now, self._random_bits(_RANDOM_BITS - 1)
        elif self._tail < _RANDOM_MASK:
            self._tail += 1
        else:
            self._ms, self._tail = self._ms + 1, 0
        ms, low = self._ms & _MS_MASK, self._tail & _LOW_MASK
        high = self._tail >> _LOW_BITS
        return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{high:03x}-{0x8000 | low >> 48:04x}-{low & _MS_MASK:012x}"


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

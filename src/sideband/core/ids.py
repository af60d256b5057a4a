"""Identifiers: UUIDv7, ascending within a process even when the clock is not."""

from collections.abc import Callable
from typing import Final

_RANDOM_BITS: Final = 74
_RANDOM_MASK: Final = (1 << _RANDOM_BITS) - 1
_LOW_BITS: Final = 62
_LOW_MASK: Final = (1 << _LOW_BITS) - 1


class Uuid7:
    """Each call mints one id, greater than the last.

    `clock_ms` tells milliseconds since the epoch, `random_bits` so many random bits. Ids of one millisecond count up
    from a random start, whose top bit is clear so that there is room; should the clock step back, they go on from the
    last millisecond seen.
    """

    def __init__(self, clock_ms: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._clock_ms = clock_ms
        self._random_bits = random_bits
        self._last_ms = -1
        self._tail = 0

    def __call__(self) -> str:
        now = self._clock_ms()
        if now > self._last_ms:
            self._last_ms = now
            self._tail = self._random_bits(_RANDOM_BITS - 1)
        elif self._tail < _RANDOM_MASK:
            self._tail += 1
        else:
            self._last_ms += 1
            self._tail = 0
        digits = f"{uuid7_int(self._last_ms, self._tail):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uuid7_int(ms: int, tail: int) -> int:
    """The 128 bits of a UUIDv7: 48 of time, version, 12 of the tail, variant, 62 of the tail."""
    high = tail >> _LOW_BITS
    return (ms & (1 << 48) - 1) << 80 | 7 << 76 | high << 64 | 2 << _LOW_BITS | tail & _LOW_MASK

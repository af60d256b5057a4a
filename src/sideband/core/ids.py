"""Identifiers: UUIDv7, ascending within a process even when the clock is not."""

import re
from collections.abc import Callable
from typing import Final

_RANDOM_BITS: Final = 74
_RANDOM_MASK: Final = (1 << _RANDOM_BITS) - 1
_LOW_BITS: Final = 62
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_UUID7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_LAST_BITS: Final = 48
_LAST_MASK: Final = (1 << _LAST_BITS) - 1


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
        # Of ids that count up only the last group of digits changes, but for once in a very long while.
        self._groups = ""
        self._group = _LAST_MASK

    def __call__(self) -> str:
        now = self._clock_ms()
        if now > self._last_ms:
            return self._start(now, self._random_bits(_RANDOM_BITS - 1))
        group = self._group
        if group < _LAST_MASK:
            self._group = group = group + 1
            return f"{self._groups}{group:012x}"
        tail = self._tail | _LAST_MASK
        if tail < _RANDOM_MASK:
            return self._start(self._last_ms, tail + 1)
        return self._start(self._last_ms + 1, 0)

    def _start(self, ms: int, tail: int) -> str:
        self._last_ms = ms
        self._tail = tail
        self._group = tail & _LAST_MASK
        digits = f"{uuid7_int(ms, tail):032x}"
        self._groups = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-"
        return f"{self._groups}{digits[20:]}"


def uuid7_int(ms: int, tail: int) -> int:
    """The 128 bits of a UUIDv7: 48 of time, version, 12 of the tail, variant, 62 of the tail."""
    high = tail >> _LOW_BITS
    return (ms & (1 << 48) - 1) << 80 | 7 << 76 | high << 64 | 2 << _LOW_BITS | tail & _LOW_MASK


def uuid7_ms(identifier: str) -> int | None:
    """When a UUIDv7 was minted, in milliseconds since the epoch; None for any other identifier."""
    return int(identifier[:13].replace("-", ""), 16) if _UUID7.fullmatch(identifier) else None

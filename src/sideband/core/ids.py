"""UUIDv7 identifiers that always increase within a process, even if the clock goes back."""

import re
from collections.abc import Callable
from typing import Final

_RANDOM_BITS: Final = 74
_RANDOM_MASK: Final = (1 << _RANDOM_BITS) - 1
_LOW_BITS: Final = 62
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_MS_MASK: Final = (1 << 48) - 1
_UUID7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Uuid7:
    """A generator of ids: each call returns an id greater than the one before.

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


def uuid7_ms(identifier: str) -> int | None:
    """The time of a UUIDv7, in milliseconds since the epoch; None for any other identifier."""
    return int(identifier[:13].replace("-", ""), 16) if _UUID7.fullmatch(identifier) else None

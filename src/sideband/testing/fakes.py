"""Deterministic replacements for the clock and the ids."""

import asyncio
import heapq
import itertools


class FakeClock:
    """A clock that moves only by `advance`; with `patient=False`, a sleep advances the clock and returns at once."""

    def __init__(self, *, start_ms: int = 1_700_000_000_000, patient: bool = False) -> None:
        self._seconds = 0.0
        self._start_ms = start_ms
        self._patient = patient
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self._seconds

    def now_ms(self) -> int:
        return self._start_ms + int(self._seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        if not self._patient:
            self._seconds += seconds
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._seconds + seconds, next(self._order), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Let time pass and wake the sleepers whose time has come."""
        self._seconds += seconds
        while self._sleepers and self._sleepers[0][0] <= self._seconds:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)


class CountingIds:
    """An id generator: `r-1`, `r-2`, …"""

    def __init__(self, prefix: str = "r") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"

"""This machine's clock."""

import asyncio
import time

from sideband.runtime.ids import now_ms


class SystemClock:
    """Time as it passes."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return now_ms()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

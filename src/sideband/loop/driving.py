"""Driving a run: to the end, step by step, or iterated over; by one at a time, and never by itself."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self

from sideband.core.failures import LeaseLost
from sideband.loop.run import LoopEvent, LoopResult, Step
from sideband.loop.scope import Ended
from sideband.ports import ModelError


class Driven(ABC):
    """What happens in a run, one event after the other, and how it comes to an end however it is driven."""

    def __init__(self) -> None:
        self.over = False
        self.result: LoopResult | None = None
        self._events = self._play()
        self._begun = self._closed = False
        # Whether somebody wants to see the next event: nobody does of a run that is awaited as a whole.
        self._pauses = False
        # One at a time: whoever comes second waits for the step that the first one is in.
        self._lock = asyncio.Lock()
        self._driver: asyncio.Task[object] | None = None

    # What a run is.

    @abstractmethod
    def _play(self) -> AsyncGenerator[LoopEvent, None]:
        """The run itself, without its end; what happens is told only while it pauses."""

    @abstractmethod
    async def _conclude(self, why: Exception | None) -> LoopResult:
        """Leave nothing open, and say what the run came to; `why` is what ended it before its time."""

    @abstractmethod
    async def _settle(self, *, begun: bool) -> None:
        """Leave nothing open of a run that comes to no result."""

    @abstractmethod
    def cancel(self) -> None:
        """End the turn, and with it the run; the inbox stays as it is."""

    # Driving it.

    @property
    def driven(self) -> bool:
        """Whether somebody awaits it now."""
        return self._lock.locked()

    async def __aiter__(self) -> AsyncIterator[LoopEvent]:
        try:
            while (event := await self.step()) is not None:
                yield event
        finally:
            await self.aclose()

    async def step(self) -> LoopEvent | None:
        """Go on to the next event; None when the run is over."""
        self._refuse_itself()
        async with self._lock:
            return await self._advance(to_the_end=False)

    async def finish(self) -> LoopResult:
        """Run to the end."""
        self._refuse_itself()
        async with self._lock:
            await self._advance(to_the_end=True)
        if self.result is None:
            raise RuntimeError("this run was ended before it came to a result")
        return self.result

    async def aclose(self) -> None:
        """End the run where it stands, if it is not over. Where somebody else drives it, it is cancelled."""
        if self._driver is asyncio.current_task():
            # A hook of the run, or a tool: it ends once they have answered.
            self.cancel()
            return
        if self._lock.locked():
            self.cancel()
        async with self._lock:
            if not self._closed:
                self._closed = True
                await self._events.aclose()
                await self._settle(begun=self._begun)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _advance(self, *, to_the_end: bool) -> LoopEvent | None:
        if self._closed:
            return None
        self._begun, self._driver, self._pauses = True, asyncio.current_task(), not to_the_end
        why: Exception | None = None
        try:
            try:
                event = await anext(self._events, None)
                if event is not None:
                    return event
            except (Ended, ModelError, LeaseLost) as error:
                why = error
            self._closed = True
            self.result = await self._conclude(why)
        except BaseException:
            # Also when it is abandoned or something of ours is broken: no session is left running by nobody.
            self._closed = True
            await self._settle(begun=True)
            raise
        finally:
            self._driver = None
        return LoopEvent(Step.FINISHED, self.result)

    def _refuse_itself(self) -> None:
        if self._driver is not None and self._driver is asyncio.current_task():
            raise RuntimeError("a run is not driven from inside: not by its hooks, and not by its tools")

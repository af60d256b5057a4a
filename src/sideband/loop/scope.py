"""The part of a run that a client may end without ending the run."""

import asyncio
from collections.abc import Coroutine
from math import inf
from typing import Any, TypeVar

import msgspec

_Value = TypeVar("_Value")


class Ended(Exception):
    """What was awaited was ended from outside."""


class OutOfTime(Exception):
    """It took longer than it may. Not a TimeoutError: the code that was awaited may raise one of its own."""


class Forsaken(Exception):
    """What was awaited gave up as if it had been cancelled, though nobody cancelled it."""


class _Stay(msgspec.Struct, eq=False):
    """A task inside a scope; what `asyncio.timeout` does, apart from when it is time.

    `cancelling` is how often the task had been cancelled when it entered.
    """

    task: "asyncio.Task[Any]"
    cancelling: int
    cancelled: bool = False
    handle: asyncio.Handle | None = None

    def end(self) -> None:
        """End it soon, not now: the task may be the caller, and past its last await."""
        if self.handle is None:
            self.handle = self.task.get_loop().call_soon(self.cancel)

    def cancel(self) -> None:
        """Cancel the task, once; only the event loop calls this."""
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()

    def leave(self) -> bool:
        """Whether the task was cancelled here and nowhere else; it goes on as if it had not been."""
        if self.handle is not None:
            self.handle.cancel()
        cancelled, self.cancelled = self.cancelled, False
        return cancelled and self.task.uncancel() <= self.cancelling


class Alarm:
    """Limits of time, nearly all of which are lifted long before they are reached.

    One timer serves them all: it is set for the earliest and, when it goes off, for the earliest that is left. Who sets
    one limit after the other keeps the timer between them, which costs next to nothing, and ends with `off`.
    """

    def __init__(self, *, keeps_timer: bool = False) -> None:
        self._keeps_timer = keeps_timer
        self._due: dict[_Stay, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf

    def set(self, stay: _Stay, when: float, loop: asyncio.AbstractEventLoop) -> None:
        self._due[stay] = when
        if when < self._rings_at:
            self.off()
            self._rings_at, self._timer = when, loop.call_at(when, self._ring)

    def lift(self, stay: _Stay) -> None:
        self._due.pop(stay, None)
        if not (self._keeps_timer or self._due):
            self.off()

    def off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._rings_at = None, inf

    def _ring(self) -> None:
        self._timer, self._rings_at = None, inf
        loop = asyncio.get_running_loop()
        now = loop.time()
        for stay in [stay for stay, when in self._due.items() if when <= now]:
            del self._due[stay]
            stay.cancel()
        if self._due:
            self._rings_at = min(self._due.values())
            self._timer = loop.call_at(self._rings_at, self._ring)


class Scope(msgspec.Struct, eq=False):
    """Awaits what `end` ends; after that nothing more is awaited. Scopes of one run may share an alarm."""

    _alarm: Alarm = msgspec.field(default_factory=Alarm)
    ended: bool = False
    # Nearly always one at most.
    _stays: list[_Stay] = []

    def end(self) -> None:
        """End what is awaited now, and refuse what would be awaited next."""
        self.ended = True
        for stay in self._stays:
            stay.end()

    async def inside(self, work: Coroutine[Any, Any, _Value], *, seconds: float | None = None) -> _Value:
        """What `work` returns, or `Ended`, or `OutOfTime`; it runs in the task that awaits it."""
        if self.ended:
            work.close()
            raise Ended
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None  # noqa: S101 - this is a coroutine of asyncio
        stay = _Stay(task, task.cancelling())
        self._stays.append(stay)
        if seconds is not None:
            self._alarm.set(stay, loop.time() + seconds, loop)
        try:
            return await work
        except asyncio.CancelledError:
            if stay.leave():
                raise self._why() from None
            # Passed on as it is, it would end a run that nobody wanted to end.
            if task.cancelling():
                raise
            raise Forsaken("cancelled by its own doing") from None
        finally:
            self._stays.remove(stay)
            if seconds is not None:
                self._alarm.lift(stay)
            if stay.cancelled or stay.handle is not None:
                stay.leave()

    def _why(self) -> Exception:
        return Ended() if self.ended else OutOfTime()

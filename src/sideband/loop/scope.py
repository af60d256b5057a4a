"""The part of a run that a client may end without ending the run."""

import asyncio
import threading
from collections.abc import Coroutine
from math import inf
from typing import Any, Self, TypeVar

import msgspec

from sideband.loop.problems import Forsaken
from sideband.loop.stepping import Stay, stepped

_Value = TypeVar("_Value")


class Stopped(Exception):
    """What was awaited did not come to its own end; `given_up` where it would not stop and is not waited for."""

    def __init__(self, *, given_up: bool = False) -> None:
        super().__init__()
        self.given_up = given_up


class Ended(Stopped):
    """What was awaited was ended from outside."""


class OutOfTime(Stopped):
    """It took longer than it may. Not a TimeoutError: the code that was awaited may raise one of its own."""


class Alarm:
    """Limits of time, nearly all of which are lifted long before they are reached.

    One timer serves them all: it is set for the earliest and, when it goes off, for the earliest that is left. Who sets
    one limit after the other keeps the timer between them, which costs next to nothing, and ends with `off`.
    """

    def __init__(self, *, keeps_timer: bool = False) -> None:
        self._keeps_timer = keeps_timer
        self._due: dict[Stay, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf

    def set(self, stay: Stay, when: float, loop: asyncio.AbstractEventLoop) -> None:
        self._due[stay] = when
        if when < self._rings_at:
            self.off()
            self._rings_at, self._timer = when, loop.call_at(when, self._ring)

    def lift(self, stay: Stay) -> None:
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
    _stays: list[Stay] = []

    def beside(self) -> Self:
        """Another one with the same alarm, which is not ended when this one is."""
        return type(self)(self._alarm)

    def end(self) -> None:
        """End what is awaited now, and refuse what would be awaited next."""
        self.ended = True
        for stay in self._stays:
            stay.end()

    async def inside(self, work: Coroutine[Any, Any, _Value], *, seconds: float | None = None) -> _Value:
        """What `work` returns or raises; or `Ended`, or `OutOfTime`, also where it comes back after its time.

        Told to stop, it has a little while to do so, and then it is left where it stands. Whatever it raises is an
        `Exception`, unless somebody really cancels the task, or interrupts the program. It runs in the task that awaits
        it.
        """
        if self.ended:
            work.close()
            raise Ended
        loop = asyncio.get_running_loop()
        due = inf if seconds is None else loop.time() + seconds
        stay: Stay | None = None
        try:
            try:
                awaited = work.send(None)
            except StopIteration as end:
                # Over at once, as so much is: there was nothing to end.
                value: _Value = end.value
            else:
                stay = self._stay(loop, due)
                try:
                    value = await stepped(work, awaited, stay)
                finally:
                    self._stays.remove(stay)
                    self._alarm.lift(stay)
        except BaseException as error:
            self._explain(error, stay, late=seconds is not None and loop.time() >= due)
            raise
        if stay is not None and stay.leave():
            raise asyncio.CancelledError
        if seconds is not None and loop.time() >= due and not self.ended:
            raise OutOfTime
        return value

    def _stay(self, loop: asyncio.AbstractEventLoop, due: float) -> Stay:
        task = asyncio.current_task(loop)
        assert task is not None  # noqa: S101 - this is a coroutine of asyncio
        stay = Stay(task, task.cancelling())
        self._stays.append(stay)
        if due < inf:
            self._alarm.set(stay, due, loop)
        if self.ended:
            # It has done so itself, before it waited for anything.
            stay.end()
        return stay

    def _explain(self, error: BaseException, stay: Stay | None, *, late: bool) -> None:
        """Raise what the error means to whoever awaited it, unless it means just what it says."""
        if stay is not None:
            if stay.closed:
                return
            if stay.leave():
                raise asyncio.CancelledError from error
        if late or (stay is not None and stay.cancels):
            raise (Ended if self.ended else OutOfTime)(given_up=stay is not None and stay.given_up) from error
        interrupted = isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
        if not (isinstance(error, Exception) or interrupted):
            raise Forsaken("it gave up as if that were for it to decide") from error

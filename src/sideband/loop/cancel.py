"""Cancellation and time-outs for code that the loop awaits.

`CancelScope.run` awaits a coroutine, which may be user code: a tool, a hook, a provider, a model call. The coroutine can
be cancelled from outside and can have a time limit. Code that ignores its cancellation is abandoned after
`GRACE_SECONDS`, also if the task that awaits it was cancelled.

The coroutine is stepped by hand, with `send` and `throw`, in the task of the caller. A task per call would about double
the cost of a turn. It would also break `asyncio.timeout` and cancel scopes in user code, which must be entered and left
in one task.
"""

import asyncio
import threading
import types
from collections.abc import Coroutine, Generator
from math import inf
from typing import Any, Final, Self, TypeVar

import msgspec

_Value = TypeVar("_Value")

# Code that was cancelled and has not stopped after this time is abandoned.
GRACE_SECONDS: Final = 2.0

# A coroutine may await again each time it is closed. After this many attempts it is left open.
_MAX_CLOSES: Final = 100

# Coroutines that could not be closed. Garbage collection would close them once more and print a warning.
_UNCLOSABLE: list[Coroutine[Any, Any, Any]] = []


class UnexpectedExit(Exception):
    """The awaited code raised SystemExit, CancelledError or another BaseException of its own accord.

    Only the caller may end the run or the program, so the original exception is the `__cause__` of this one.
    """


class Stopped(Exception):
    """The awaited code was stopped; `given_up` if it ignored its cancellation and was abandoned."""

    def __init__(self, *, given_up: bool = False) -> None:
        super().__init__()
        self.given_up = given_up


class Ended(Stopped):
    """The awaited code was stopped because its scope has ended."""


class OutOfTime(Stopped):
    """The awaited code exceeded its time limit. Not a TimeoutError, because that code may raise one of its own."""


# Stepping a coroutine.


class AwaitedCall(msgspec.Struct, eq=False):
    """One coroutine that `CancelScope.run` awaits, and the task that awaits it.

    It cancels that task and later uncancels it, as `asyncio.timeout` does.

    `cancelling` is the task's count of cancellations at the start, `cancels` how many were added here. `interrupted`:
    a cancellation reached the coroutine. `given_up`: the coroutine ignored it. `closed`: the caller itself is being
    closed. `handle` is the scheduled cancellation, `timer` the end of the grace period.
    """

    task: "asyncio.Task[Any]"
    cancelling: int
    cancels: int = 0
    interrupted: bool = False
    given_up: bool = False
    closed: bool = False
    handle: asyncio.Handle | None = None
    timer: asyncio.Handle | None = None

    def cancel_soon(self) -> None:
        """Schedule `cancel`: the caller may be this task itself, and may return without another await."""
        if self.handle is None:
            self.handle = self.task.get_loop().call_soon(self.cancel)

    def cancel(self) -> None:
        """Cancel the task, once. Only the event loop calls this."""
        if not self.cancels:
            self.cancels = 1
            self.task.cancel()
            self.start_grace()

    def start_grace(self) -> None:
        """Give the coroutine `GRACE_SECONDS` to end, counted from its first cancellation."""
        if self.timer is None:
            self.timer = self.task.get_loop().call_later(GRACE_SECONDS, self._give_up)

    def end_grace(self) -> None:
        """Stop the grace period if the coroutine has taken the cancellation back, as `asyncio.timeout` inside it does."""
        if self.timer is not None and not self.cancels and self.task.cancelling() <= self.cancelling:
            self.timer.cancel()
            self.timer = None

    def _give_up(self) -> None:
        self.given_up = True
        self.cancels += 1
        self.task.cancel()

    def leave(self) -> bool:
        """Take back the cancellations made here; return whether the task was also cancelled from elsewhere."""
        for scheduled in (self.handle, self.timer):
            if scheduled is not None:
                scheduled.cancel()
        for _ in range(self.cancels):
            self.task.uncancel()
        # `cancelling` alone is not enough: a cancellation during the last step is raised at the task's next await.
        return self.interrupted and self.task.cancelling() > self.cancelling


@types.coroutine
def _drive(work: Coroutine[Any, Any, _Value], awaited: object, call: AwaitedCall) -> Generator[Any, Any, _Value]:
    """Step `work`, which waits for `awaited`, to its end; raise CancelledError if it is given up."""
    try:
        while True:
            try:
                # A plain future is done as soon as it is cancelled. A task or a group of tasks may go on.
                if isinstance(awaited, asyncio.Future) and type(awaited) is not asyncio.Future:
                    yield from _wait_for_task(awaited, call)
                else:
                    yield awaited
            except GeneratorExit:
                call.closed = True
                _close(work)
                raise
            except BaseException as error:
                call.interrupted = True
                if call.given_up:
                    _close(work)
                    raise
                # Without a cancellation of the task, a future that the code awaits was cancelled, which the code handles itself.
                if call.task.cancelling() > call.cancelling:
                    call.start_grace()
                awaited = work.throw(error)
            else:
                awaited = work.send(None)
            call.end_grace()
    except StopIteration as end:
        value: _Value = end.value
        return value


def _wait_for_task(awaited: "asyncio.Future[Any]", call: AwaitedCall) -> Generator[Any, Any, None]:
    """Wait until the task is done, cancel it when the call is cancelled, and stop waiting when the call is given up."""
    while not awaited.done():
        try:
            yield from asyncio.wait((awaited,)).__await__()
        except asyncio.CancelledError:
            if call.given_up:
                raise
            call.interrupted = True
            call.start_grace()
            awaited.cancel()


def _close(work: Coroutine[Any, Any, Any]) -> None:
    for _ in range(_MAX_CLOSES):
        try:
            work.close()
        except RuntimeError:
            # It awaited something else instead of ending.
            continue
        except BaseException:  # noqa: BLE001 - the code was abandoned; no caller is left for what it raises
            return
        return
    _UNCLOSABLE.append(work)


# Deadlines.


class Deadlines:
    """The time limits of running calls, nearly all of which are removed long before they are reached.

    One timer serves all of them. It is set for the earliest limit, and set again when it fires. With `keeps_timer` it
    also stays set while there is no limit, so that a series of calls does not set and cancel a timer each; call `stop`
    at the end.
    """

    def __init__(self, *, keeps_timer: bool = False) -> None:
        self._keeps_timer = keeps_timer
        self._due: dict[AwaitedCall, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = inf

    def add(self, call: AwaitedCall, when: float, loop: asyncio.AbstractEventLoop) -> None:
        self._due[call] = when
        if when < self._fires_at:
            self.stop()
            self._fires_at, self._timer = when, loop.call_at(when, self._fire)

    def remove(self, call: AwaitedCall) -> None:
        self._due.pop(call, None)
        if not (self._keeps_timer or self._due):
            self.stop()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._fires_at = None, inf

    def _fire(self) -> None:
        self._timer, self._fires_at = None, inf
        loop = asyncio.get_running_loop()
        now = loop.time()
        for call in [call for call, when in self._due.items() if when <= now]:
            del self._due[call]
            call.cancel()
        if self._due:
            self._fires_at = min(self._due.values())
            self._timer = loop.call_at(self._fires_at, self._fire)


# Scopes.


class CancelScope(msgspec.Struct, eq=False):
    """Runs coroutines that `end` cancels. After `end`, no coroutine begins. The scopes of one run may share deadlines."""

    _deadlines: Deadlines = msgspec.field(default_factory=Deadlines)
    ended: bool = False
    # A list, because it nearly always holds one call at most.
    _calls: list[AwaitedCall] = []

    def sibling(self) -> Self:
        """Another scope with the same deadlines, which does not end with this one."""
        return type(self)(self._deadlines)

    def end(self) -> None:
        """Cancel what runs now, and refuse what would run next."""
        self.ended = True
        for call in self._calls:
            call.cancel_soon()

    async def run(self, work: Coroutine[Any, Any, _Value], *, seconds: float | None = None) -> _Value:
        """Await `work` and return its value.

        Raise `Ended` if the scope ends first, and `OutOfTime` if `work` takes longer than `seconds`, even if it returns
        a value after that. `work` runs in the caller's task. It can raise nothing but an `Exception`, unless the task is
        really cancelled or the program is interrupted.
        """
        if self.ended:
            work.close()
            raise Ended
        loop = asyncio.get_running_loop()
        due = inf if seconds is None else loop.time() + seconds
        call: AwaitedCall | None = None
        try:
            try:
                awaited = work.send(None)
            except StopIteration as end:
                # Fast path: much code returns without waiting, and there is nothing to cancel.
                value: _Value = end.value
            else:
                call = self._enter(loop, due)
                try:
                    value = await _drive(work, awaited, call)
                finally:
                    self._calls.remove(call)
                    self._deadlines.remove(call)
        except BaseException as error:
            self._translate(error, call, late=seconds is not None and loop.time() >= due)
            raise
        if call is not None and call.leave():
            raise asyncio.CancelledError
        if seconds is not None and loop.time() >= due and not self.ended:
            raise OutOfTime
        return value

    def _enter(self, loop: asyncio.AbstractEventLoop, due: float) -> AwaitedCall:
        task = asyncio.current_task(loop)
        assert task is not None  # noqa: S101 - this is a coroutine of asyncio
        call = AwaitedCall(task, task.cancelling())
        self._calls.append(call)
        if due < inf:
            self._deadlines.add(call, due, loop)
        if self.ended:
            # The code ended the scope itself, before it waited for anything.
            call.cancel_soon()
        return call

    def _translate(self, error: BaseException, call: AwaitedCall | None, *, late: bool) -> None:
        """Raise what the error means to the caller; return if the error itself is to be raised."""
        if call is not None:
            cancelled = call.leave()
            if call.closed:
                return
            if cancelled:
                raise asyncio.CancelledError from error
        if late or (call is not None and call.cancels):
            raise (Ended if self.ended else OutOfTime)(given_up=call is not None and call.given_up) from error
        interrupted = isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
        if not (isinstance(error, Exception) or interrupted):
            raise UnexpectedExit(f"the code raised {type(error).__name__}") from error

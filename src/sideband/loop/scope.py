"""The part of a run that a client may end without ending the run."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Value = TypeVar("_Value")


class Ended(Exception):
    """What was awaited was ended from outside."""


class OutOfTime(Exception):
    """It took longer than it may. Not a TimeoutError: the code that was awaited may raise one of its own."""


class Forsaken(Exception):
    """What was awaited gave up as if it had been cancelled, though nobody cancelled it."""


class _Stay:
    """A task inside a scope. Like `asyncio.timeout`, without what that costs where there is no limit."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task
        self._cancelling = task.cancelling()
        self._cancelled = False
        self._handle: asyncio.Handle | None = None

    def end_in(self, seconds: float) -> None:
        """Cancel the task once, after so long; never at once: the task may be the caller, and past its last await."""
        if self._cancelled:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._task.get_loop().call_later(seconds, self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True
        self._task.cancel()

    def leave(self) -> bool:
        """Whether the task was cancelled here and nowhere else; it goes on as if it had not been."""
        if self._handle is None:
            return False
        self._handle.cancel()
        self._handle = None
        return self._cancelled and self._task.uncancel() <= self._cancelling


class Scope:
    """Awaits what `end` ends; after that nothing more is awaited."""

    def __init__(self) -> None:
        self.ended = False
        self._stays: set[_Stay] = set()

    def end(self) -> None:
        """End what is awaited now, and refuse what would be awaited next."""
        if not self.ended:
            self.ended = True
            for stay in self._stays:
                stay.end_in(0)

    async def inside(self, work: Coroutine[Any, Any, _Value], *, seconds: float | None = None) -> _Value:
        """What `work` returns, or `Ended`, or `OutOfTime`; it runs in the task that awaits it."""
        if self.ended:
            work.close()
            raise Ended
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine of asyncio
        stay = _Stay(task)
        if seconds is not None:
            stay.end_in(seconds)
        self._stays.add(stay)
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
            self._stays.discard(stay)
            stay.leave()

    def _why(self) -> Exception:
        return Ended() if self.ended else OutOfTime()

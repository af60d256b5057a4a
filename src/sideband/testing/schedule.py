"""An event loop whose scheduling depends only on a seed: the same seed gives the same interleaving on any machine."""

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, NoReturn, TypeVar

_Value = TypeVar("_Value")

# Callbacks that remain after the end may finish within this many rounds; tasks that do not are left behind.
_ROUNDS_TO_SETTLE: Final = 1_000


class ScheduleError(AssertionError):
    """The coroutine of a schedule did not end cleanly."""


class Stuck(ScheduleError):
    """A deadlock: tasks are waiting, but nothing is ready and no timer is set."""


class LeftBehind(ScheduleError):
    """The coroutine has ended, but tasks that it started have not."""


class Unhandled(ScheduleError):
    """An exception was not handled: in a callback, or in a task whose result was never retrieved."""


class SeededEventLoop(asyncio.BaseEventLoop):
    """Runs ready callbacks in an order that the seed determines, and advances time only when nothing is ready.

    Time is simulated, so timers cost no waiting. Threads, sockets and processes are not supported, because a seed
    cannot control them. A hook that is a plain function would run in a thread, so use coroutine functions.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.unhandled: list[str] = []
        self._seconds = 0.0
        self._numbers = itertools.count()
        # Private attributes of the base class; a contract test notices if they are renamed.
        self._ready = _ShuffledQueue(seed)
        self._selector = _TimerSelector(self)
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: object) -> NoReturn:
        """Raise `NotImplementedError`: a seed cannot control when a thread is done."""
        raise NotImplementedError("a seeded schedule does not support threads")

    def settle(self) -> list[str]:
        """Run ready callbacks without advancing time; return the names of the tasks that are not done."""
        for _ in range(_ROUNDS_TO_SETTLE):
            if not self._ready:
                break
            self.stop()
            self.run_forever()
        return sorted(task.get_name() for task in asyncio.all_tasks(self))

    def _new_task(
        self,
        _loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,  # noqa: ANN401 - those of asyncio.Task
    ) -> asyncio.Task[Any]:
        return _NumberedTask(work, number=next(self._numbers), loop=self, **options)

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.unhandled.append(context["message"] if error is None else f"{context['message']}: {error!r}")

    def _process_events(self, _events: object) -> None:
        """Do nothing: the loop has no I/O events."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never blocks, so it need not be woken."""


class _ShuffledQueue(deque[asyncio.Handle]):
    """A queue that returns its entries in random order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed).random  # noqa: S311 - not used for security

    def popleft(self) -> asyncio.Handle:
        waiting = len(self)
        if waiting > 1:
            chosen = int(self._random() * waiting)
            self[0], self[chosen] = self[chosen], self[0]
        return super().popleft()


class _TimerSelector:
    """Replaces the selector: instead of waiting for I/O, time jumps to the next timer."""

    def __init__(self, loop: SeededEventLoop) -> None:
        self._loop = loop

    def select(self, seconds: float | None) -> tuple[()]:
        if seconds is None:
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            raise Stuck(f"deadlock: nothing is ready and no timer is set; still waiting: {', '.join(waiting)}")
        self._loop.advance(seconds)
        return ()


class _NumberedTask(asyncio.Task[Any]):
    """A task with a reproducible hash: sets are iterated in hash order, which by default depends on the address."""

    def __init__(
        self,
        work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        number: int,
        **options: Any,  # noqa: ANN401 - those of asyncio.Task
    ) -> None:
        self._number = number
        super().__init__(work, **options)

    def __hash__(self) -> int:
        return self._number


def run_schedule(seed: int, main: Callable[[], Coroutine[Any, Any, _Value]]) -> _Value:
    """Run `main()` with the interleaving of this seed and return its result.

    Raises a `ScheduleError` if it deadlocks, leaves tasks behind, or leaves an exception unhandled.
    """
    loop = SeededEventLoop(seed)
    try:
        value = loop.run_until_complete(main())
        left = loop.settle()
        if left:
            raise LeftBehind(f"tasks are left behind: {', '.join(left)}")
        if loop.unhandled:
            raise Unhandled("; ".join(loop.unhandled))
        return value
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.settle()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

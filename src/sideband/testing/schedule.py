"""An event loop whose order of things a seed decides: the same seed is the same interleaving, on any machine."""

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, NoReturn, TypeVar

_Value = TypeVar("_Value")

# What is left to run after the end may finish within so many rounds; what does not is left behind.
_ROUNDS_TO_SETTLE: Final = 1_000


class ScheduleError(AssertionError):
    """What was run under a schedule did not come to a clean end."""


class Stuck(ScheduleError):
    """Nothing is ready and no timer runs: whoever still waits would wait for ever."""


class LeftBehind(ScheduleError):
    """It is over, and tasks that it started are not."""


class Unhandled(ScheduleError):
    """Something failed where nobody looked: a callback, or a task whose exception was never read."""


class SeededEventLoop(asyncio.BaseEventLoop):
    """Runs what is ready in the order of a seed, and lets time pass only when nothing is.

    Time is the loop's own: a timer costs no waiting, however long it is. There is no room for what a seed could not
    decide: threads, sockets and processes. A hook that is a plain function runs in a thread, so give coroutines.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.unhandled: list[str] = []
        self._seconds = 0.0
        self._numbers = itertools.count()
        # These two are the base class's own affair; a contract test notices should they be renamed.
        self._ready = _Shuffled(seed)
        self._selector = _Idleness(self)
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: object) -> NoReturn:
        """There are no threads: no seed could decide when one of them is done."""
        raise NotImplementedError("a schedule has no room for threads")

    def settle(self) -> list[str]:
        """Run what is ready until nothing is, without letting time pass; the names of the tasks that are not done."""
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
        """There are none: nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody waits outside the loop who would have to be woken."""


class _Shuffled(deque[asyncio.Handle]):
    """A queue out of which any entry may come next, also one that came in last."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed).random  # noqa: S311 - an interleaving, no secret

    def popleft(self) -> asyncio.Handle:
        waiting = len(self)
        if waiting > 1:
            chosen = int(self._random() * waiting)
            self[0], self[chosen] = self[chosen], self[0]
        return super().popleft()


class _Idleness:
    """Stands where other loops wait for the world: here time jumps to the next timer."""

    def __init__(self, loop: SeededEventLoop) -> None:
        self._loop = loop

    def select(self, seconds: float | None) -> tuple[()]:
        if seconds is None:
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            raise Stuck(f"nothing will ever happen again; still waiting: {', '.join(waiting)}")
        self._loop.advance(seconds)
        return ()


class _NumberedTask(asyncio.Task[Any]):
    """Sets of tasks are gone through in the order of hashes; by address, that would be another one in each run."""

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
    """What `main()` returns under the interleaving of this seed; a `ScheduleError` unless it ends cleanly.

    It may leave no task behind, wait for nothing that cannot come, and let nothing fail unseen.
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

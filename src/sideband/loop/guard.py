"""Calls user code (hooks, providers, tools, watchers, compactors) so that its failures become problems of the run.

A failure never stops the run: it is a `UserCodeFailed` for the caller to report, and `LoopResult.problems` lists it.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from sideband.core.errors import ReminderError, shown
from sideband.loop.cancel import CancelScope, Ended, OutOfTime, UnexpectedExit
from sideband.ports import FileChange, Watcher
from sideband.threads import run_in_thread

# The longest description of an exception, and the longest name of a function, in characters.
MAX_DESCRIPTION: Final = 10_000
MAX_NAME: Final = 200

# A run lists this many different problems; further ones are only counted.
MAX_PROBLEMS: Final = 100

_Params = ParamSpec("_Params")
_Value = TypeVar("_Value")

# Types whose equality is known. Comparing any other callable would run user code, so its id stands for it.
_COMPARABLE: Final = (FunctionType, BuiltinFunctionType, MethodType)

# Functions whose call timed out and still runs, in a thread that cannot be ended.
_STILL_RUNNING: set[Hashable] = set()


# Problems.


class Problem(NamedTuple):
    """A failure of user code that did not stop the run; `times` counts failures with the same message."""

    where: str
    message: str
    times: int = 1


class Problems:
    """The problems of one run. The same failure in every turn is one problem."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._not_listed = 0

    def report(self, problem: Problem) -> None:
        where, message, times = problem
        known = self._counts.get((where, message), 0)
        if known or len(self._counts) < MAX_PROBLEMS:
            self._counts[where, message] = known + times
        else:
            self._not_listed += times

    def listed(self) -> tuple[Problem, ...]:
        """All problems, in the order in which each first occurred."""
        listed = tuple(Problem(where, message, times) for (where, message), times in self._counts.items())
        if not self._not_listed:
            return listed
        rest = Problem("problems", f"only the first {MAX_PROBLEMS} different problems are listed", self._not_listed)
        return (*listed, rest)


class UserCodeFailed(Exception):
    """User code raised, timed out, or returned a value that cannot be read."""


def describe(error: BaseException) -> str:
    """The type and message of an exception, even if its message cannot be read."""
    if isinstance(error, UnexpectedExit) and error.__cause__ is not None:
        error = error.__cause__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - `__str__` is user code
        message = "(its message cannot be read)"
    return f"{type(error).__name__}: {message}"[:MAX_DESCRIPTION]


def name_of(function: object) -> str:
    """The name of a function or of the type of a callable object, for reports."""
    try:
        name = getattr(function, "__qualname__", None)
    except Exception:  # noqa: BLE001 - `__getattr__` is user code
        name = None
    return name[:MAX_NAME] if isinstance(name, str) else type(function).__qualname__


# Calling.


async def call_guarded(
    function: Callable[..., Any], *args: object, scope: CancelScope | None = None, seconds: float | None = None
) -> object:
    """Call the function and return its value; `UserCodeFailed` if it raises or takes longer than `seconds`.

    A function that is not a coroutine function runs in a thread, so that it cannot block the event loop.
    """
    try:
        return await (scope or CancelScope()).run(_call(function, *args), seconds=seconds)
    except (Ended, UserCodeFailed):
        raise
    except OutOfTime as late:
        abandoned = ", ignored its cancellation and was abandoned" if late.given_up else ""
        raise UserCodeFailed(f"{name_of(function)} took longer than {seconds or 0:g} s{abandoned}") from None
    except Exception as error:
        raise UserCodeFailed(f"{name_of(function)} raised {describe(error)}") from error


def read_guarded(reader: Callable[_Params, _Value], *args: _Params.args, **kwargs: _Params.kwargs) -> _Value:
    """Read a value that user code returned; whatever its methods raise becomes `UserCodeFailed`."""
    try:
        return reader(*args, **kwargs)
    except (ReminderError, UserCodeFailed):
        raise
    except Exception as error:
        raise UserCodeFailed(f"the returned value cannot be read: {describe(error)}") from error


async def _call(function: Callable[..., Any], *args: object) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    returned = await _call_in_thread(function, *args)
    return await returned if isinstance(returned, Awaitable) else returned


async def _call_in_thread(function: Callable[..., Any], *args: object) -> object:
    key: Hashable = function if isinstance(function, _COMPARABLE) else id(function)
    if key in _STILL_RUNNING:
        # Otherwise a function that hangs would cost another thread in every turn.
        raise UserCodeFailed(f"{name_of(function)} was not called: an earlier call of it is still running")
    returned = False

    def end() -> None:
        nonlocal returned
        returned = True
        _STILL_RUNNING.discard(key)

    try:
        value, error = await run_in_thread(lambda: function(*args), on_end=end)
    except asyncio.CancelledError:
        _STILL_RUNNING.add(key)
        if returned:
            # The thread ended between the cancellation and the line above.
            _STILL_RUNNING.discard(key)
        raise
    if error is not None:
        raise UserCodeFailed(f"{name_of(function)} raised {describe(error)}") from error
    return value


# Watchers.


async def file_changes(
    watcher: Watcher, report: Callable[[Problem], None], *, scope: CancelScope, seconds: float
) -> tuple[FileChange, ...]:
    """The file changes since the last call; none, and a reported problem, if the watcher fails."""
    try:
        return read_guarded(_read_changes, await call_guarded(watcher.changes, scope=scope, seconds=seconds))
    except UserCodeFailed as error:
        report(Problem("watcher", str(error)))
        return ()


def _read_changes(changes: object) -> tuple[FileChange, ...]:
    if not isinstance(changes, Iterable) or isinstance(changes, str | bytes):
        raise UserCodeFailed(f"changes() must return a list of FileChange, not {shown(changes)}")
    found = tuple(changes)
    for change in found:
        if not isinstance(change, FileChange) or not all(isinstance(part, str) for part in (change.path, change.kind)):
            raise UserCodeFailed(f"changes() must return FileChange entries with texts, not {shown(change)}")
    return found

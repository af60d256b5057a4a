"""Asking somebody else's code: whatever it does, the run goes on, and it is known by name what it did."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Hashable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, ParamSpec, TypeVar

from sideband.core.errors import ReminderError
from sideband.loop.problems import describe
from sideband.loop.scope import Ended, OutOfTime, Scope

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")

MAX_NAME: Final = 200

# What is known by what it is; of everything else it is not known what it says when it is compared.
_COMPARABLE: Final = (FunctionType, BuiltinFunctionType, MethodType)

# The functions that were given up and are still at it, in threads that nobody can end.
_HANGING: set[Hashable] = set()


class Failed(Exception):
    """Somebody else's code raised, took too long, or answered what cannot be read; the run goes on."""


async def ask(
    function: Callable[..., Any], *args: object, scope: Scope | None = None, seconds: float | None = None
) -> object:
    """What the function returns. One that is no coroutine runs beside the loop, so that it cannot stop it."""
    try:
        return await (scope or Scope()).inside(_answer(function, *args), seconds=seconds)
    except Ended:
        raise
    except OutOfTime as late:
        stubborn = ", does not stop, and was left to itself" if late.given_up else ""
        raise Failed(f"{name_of(function)} took longer than {seconds or 0:g} s{stubborn}") from None
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"{name_of(function)} raised {describe(error)}") from error


def read(reader: Callable[_Given, _Value], *args: _Given.args, **kwargs: _Given.kwargs) -> _Value:
    """What the reader makes of an answer: anything may come out of it, and objects of others raise what they like."""
    try:
        return reader(*args, **kwargs)
    except (ReminderError, Failed):
        raise
    except Exception as error:
        raise Failed(f"what it answered cannot be read: {describe(error)}") from error


def name_of(function: object) -> str:
    """The name under which it is reported."""
    try:
        name = getattr(function, "__qualname__", None)
    except Exception:  # noqa: BLE001 - somebody else's attribute
        name = None
    return name[:MAX_NAME] if isinstance(name, str) else type(function).__qualname__


async def _answer(function: Callable[..., Any], *args: object) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    returned = await _beside(function, *args)
    return await returned if isinstance(returned, Awaitable) else returned


async def _beside(function: Callable[..., Any], *args: object) -> object:
    """Run in a thread that the end of the program does not wait for: it may hang for ever."""
    key: Hashable = function if isinstance(function, _COMPARABLE) else id(function)
    if key in _HANGING:
        # One thread is lost already; with one more in every turn there would be no end to it.
        raise Failed(f"{name_of(function)} was not called: an earlier call of it still hangs")
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()
    through = False

    def settle(value: object, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((value, error))

    def work() -> None:
        nonlocal through
        told: tuple[object, BaseException | None]
        try:
            told = function(*args), None
        except BaseException as error:  # noqa: BLE001 - handed on to whoever waits
            told = None, error
        through = True
        _HANGING.discard(key)
        # The loop may be gone by now; then nobody waits for this.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    try:
        value, error = await outcome
    except asyncio.CancelledError:
        _HANGING.add(key)
        if through:
            # Just now, before it could be seen to hang.
            _HANGING.discard(key)
        raise
    if error is not None:
        raise Failed(f"{name_of(function)} raised {describe(error)}") from error
    return value

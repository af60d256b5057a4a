"""Somebody else's coroutine, taken step by step in the task that awaits it, so that it can be left where it stands.

A task of its own would do, and costs as much as all the rest of a turn; it would also be another task than the one in
which the code began, which time-outs and cancel scopes of its own do not survive.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, Final, TypeVar

import msgspec

_Value = TypeVar("_Value")

# Who was told to stop and has not after so long is not waited for.
GRACE_SECONDS: Final = 2.0
# Code may await something each time it is closed; who does so this often is let be.
_CLOSINGS: Final = 100

# What could not be closed: collected as garbage, it would be closed once more, and complain.
_LEFT: list[Coroutine[Any, Any, Any]] = []


class Stay(msgspec.Struct, eq=False):
    """A task while it is in somebody else's code; what `asyncio.timeout` does, apart from when it is time.

    `cancelling` is how often the task had been cancelled when it entered, `cancels` how often that was done here.
    `disturbed` is whether the code was told of a cancellation, by whomever; `given_up` whether it did not heed ours;
    `closed` whether whoever awaits it is thrown away with it.
    """

    task: "asyncio.Task[Any]"
    cancelling: int
    cancels: int = 0
    disturbed: bool = False
    given_up: bool = False
    closed: bool = False
    handle: asyncio.Handle | None = None

    def end(self) -> None:
        """End it soon, not now: the task may be the caller, and past its last await."""
        if self.handle is None:
            self.handle = self.task.get_loop().call_soon(self.cancel)

    def cancel(self) -> None:
        """Cancel the task, once; only the event loop calls this."""
        if not self.cancels:
            self.cancels = 1
            self.task.cancel()
            self.handle = self.task.get_loop().call_later(GRACE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self.given_up = True
        self.cancels += 1
        self.task.cancel()

    def leave(self) -> bool:
        """Take back what was cancelled here; whether somebody else has cancelled the task meanwhile."""
        if self.handle is not None:
            self.handle.cancel()
        for _ in range(self.cancels):
            self.task.uncancel()
        # Not `cancelling` alone: what came in its last step reaches whatever is awaited next.
        return self.disturbed and self.task.cancelling() > self.cancelling


@types.coroutine
def stepped(work: Coroutine[Any, Any, _Value], awaited: object, stay: Stay) -> Generator[Any, Any, _Value]:
    """What `work`, which waits for `awaited`, returns or raises; CancelledError where it was given up."""
    try:
        while True:
            try:
                # A future that is cancelled is done; a task, or a group of them, may take its time or never be.
                if isinstance(awaited, asyncio.Future) and type(awaited) is not asyncio.Future:
                    yield from _outwaited(awaited, stay)
                else:
                    yield awaited
            except GeneratorExit:
                stay.closed = True
                _close(work)
                raise
            except BaseException as error:
                stay.disturbed = True
                if stay.given_up:
                    _close(work)
                    raise
                awaited = work.throw(error)
            else:
                awaited = work.send(None)
    except StopIteration as end:
        value: _Value = end.value
        return value


def _outwaited(awaited: "asyncio.Future[Any]", stay: Stay) -> Generator[Any, Any, None]:
    """Wait until it is done, and be told at once when nobody wants to wait any longer."""
    while not awaited.done():
        try:
            yield from asyncio.wait((awaited,)).__await__()
        except asyncio.CancelledError:
            if stay.given_up:
                raise
            stay.disturbed = True
            awaited.cancel()


def _close(work: Coroutine[Any, Any, Any]) -> None:
    for _ in range(_CLOSINGS):
        try:
            work.close()
        except RuntimeError:
            # It awaits something else instead.
            continue
        except BaseException:  # noqa: BLE001 - whatever it raises on its way out concerns nobody any more
            return
        return
    _LEFT.append(work)

"""Runs something at the start and again after each settled change, never twice at once."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import aclosing
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sideband.tools.tool import outlast
from sideband.watch.events import STEP_MS
from sideband.watch.tree import SettledChanges, Tree

# A file that changes during so many runs in a row may be output of the command: it no longer kills a run, and runs the
# command again after a time that doubles.
SUSPECTED_RUNS: Final = 3
BACKOFF_SECONDS: Final = 1.0
# A file that changes during so many runs in a row is output of the command.
OUTPUT_RUNS: Final = 8
# An event of the operating system arrives so much later than its change.
EVENT_LAG_SECONDS: Final = 3 * STEP_MS / 1000

_ResultT = TypeVar("_ResultT")


class Rerun(NamedTuple, Generic[_ResultT]):
    """The result of a run that no change has superseded.

    `after_change` is False for the run at the start, and for one that follows only from possible `outputs`.
    """

    result: _ResultT
    after_change: bool
    outputs: tuple[str, ...]


class Outputs:
    """Which files a command writes itself, so that they do not start it again for ever.

    Which process changed a file cannot be observed. A file that changes in run after run is first suspected, and then
    taken as output, until it changes while the command does not run.
    """

    def __init__(self) -> None:
        # In how many runs in a row each file has changed.
        self._runs: dict[str, int] = {}
        self._changed: set[str] = set()

    def begin(self, *, completed: bool) -> None:
        """A run begins; `completed` if the one before was not superseded, and could therefore write all of its output."""
        if completed:
            self._runs = {path: count for path, count in self._runs.items() if path in self._changed}
        self._changed = set()

    def changed(self, paths: Collection[str], *, during_run: bool) -> float | None:
        """Files have changed; return after how many seconds the command has to run again, or None if it need not."""
        if not during_run:
            for path in paths:
                self._runs.pop(path, None)
            return 0.0
        for path in set(paths) - self._changed:
            self._changed.add(path)
            self._runs[path] = self._runs.get(path, 0) + 1
        runs = min(self._runs[path] for path in paths)
        if runs >= OUTPUT_RUNS:
            return None
        return 0.0 if runs < SUSPECTED_RUNS else BACKOFF_SECONDS * 2 ** (runs - SUSPECTED_RUNS)

    def paths(self) -> tuple[str, ...]:
        """The files whose changes do not kill a run."""
        return tuple(sorted(path for path, count in self._runs.items() if count >= SUSPECTED_RUNS))


async def reruns(
    tree: Tree, run: Callable[[], Coroutine[Any, Any, _ResultT]], *, on_ready: Callable[[], object]
) -> AsyncGenerator[Rerun[_ResultT], None]:
    """The result of `run` at the start and after each settled change; a change during a run cancels it and runs again.

    `on_ready` is called when the tree is being watched. The generator ends when the tree no longer exists.
    """
    outputs = Outputs()
    async with aclosing(tree.batches()) as batches:
        if await anext(batches, None) is None:
            return
        on_ready()
        awaited = _next(batches)
        running: asyncio.Task[_ResultT] | None = asyncio.create_task(run())
        after_change = False
        ended = 0.0
        # When to run again because of suspected output; None if there was none.
        due: float | None = None
        try:
            while True:
                tasks: set[asyncio.Future[Any]] = {awaited} if running is None else {awaited, running}
                patience = None if due is None or running is not None else max(0.0, due - time.monotonic())
                done, _ = await asyncio.wait(tasks, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                delay: float | None = None
                if awaited in done:
                    batch = awaited.result()
                    if batch is None:
                        return
                    awaited = _next(batches)
                    during_run = running is not None or batch.began <= ended + EVENT_LAG_SECONDS
                    delay = outputs.changed({change.path for change in batch.changes}, during_run=during_run)
                    due = time.monotonic() + delay if delay else due
                elif running is not None:
                    result, running = running.result(), None
                    ended = time.monotonic()
                    yield Rerun(result, after_change, outputs.paths())
                if delay == 0 or not done:
                    outputs.begin(completed=running is None)
                    await _cancel(running)
                    running = asyncio.create_task(run())
                    after_change = delay == 0
                    due = None
        finally:
            await _cancel(running)
            await _cancel(awaited)


def _next(batches: AsyncGenerator[SettledChanges, None]) -> "asyncio.Future[SettledChanges | None]":
    return asyncio.ensure_future(anext(batches, None))


async def _cancel(future: "asyncio.Future[Any] | None") -> None:
    """Cancel and wait for the end, even if this is cancelled itself."""
    if future is None:
        return
    future.cancel()
    cancelled = await outlast(future)
    if not future.cancelled():
        # An error of something that is no longer awaited.
        future.exception()
    if cancelled:
        raise cancelled

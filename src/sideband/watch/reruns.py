"""Runs something at the start and again after each settled change, never twice at once."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import aclosing
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sideband.tools.tool import outlast
from sideband.watch.events import STEP_MS
from sideband.watch.tree import SettledChanges, Tree

# A file that changes during this many runs in a row may be output of the command: it no longer kills a run, and runs
# the command again after a time that doubles. The same holds for any file after this many runs without a result.
SUSPECTED_RUNS: Final = 3
BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFFS: Final = 4
# A file that changes during this many runs in a row is output of the command.
OUTPUT_RUNS: Final = 8
# How much later than its change an event of the operating system arrives.
EVENT_LAG_SECONDS: Final = 3 * STEP_MS / 1000

_ResultT = TypeVar("_ResultT")


class Rerun(NamedTuple, Generic[_ResultT]):
    """The result of a run that was not killed.

    `after_change` is False for the run at the start, and for one that follows only from possible `outputs`. `changed`
    are files that changed during the run and were not taken as output: the command runs again because of them.
    """

    result: _ResultT
    after_change: bool
    outputs: tuple[str, ...]
    changed: tuple[str, ...]


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
        """A run begins; `completed` if the one before was not superseded, and could write all of its output."""
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
        return 0.0 if runs < SUSPECTED_RUNS else _backoff(runs)

    def paths(self) -> tuple[str, ...]:
        """The files whose changes do not kill a run."""
        return tuple(sorted(path for path, count in self._runs.items() if count >= SUSPECTED_RUNS))


def _backoff(runs: int) -> float:
    """After how many seconds the command runs again if files have changed during this many runs in a row."""
    return BACKOFF_SECONDS * (1 << min(runs - SUSPECTED_RUNS, MAX_BACKOFFS))


class _Disturbances:
    """Which files have changed during a run, and how many runs in a row had such changes, whichever the files."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self._runs = 0

    def begin(self) -> None:
        self.paths = set()

    def reported(self) -> tuple[str, ...]:
        """The result of the run is reported with these files; without any, the row ends."""
        self._runs = self._runs if self.paths else 0
        return tuple(sorted(self.paths))

    def quiet(self) -> None:
        """Files have changed while there was no run and no result: the row ends."""
        self._runs = 0

    def add(self, paths: Collection[str], delay: float) -> float:
        """Files have changed that run the command again after `delay` seconds; return a longer time if it never ends."""
        self._runs += not self.paths
        self.paths.update(paths)
        return delay if self._runs <= SUSPECTED_RUNS else max(delay, _backoff(self._runs - 1))


class _Finished(NamedTuple, Generic[_ResultT]):
    """The result of a run that has ended, until it is known that no file changed during the run."""

    result: _ResultT
    known: float


async def reruns(
    tree: Tree, run: Callable[[], Coroutine[Any, Any, _ResultT]], *, on_ready: Callable[[], object]
) -> AsyncGenerator[Rerun[_ResultT], None]:
    """The result of `run` at the start and after each settled change; a change during a run cancels it and runs again.

    `on_ready` is called when the tree is being watched. The generator ends when the tree no longer exists.

    A change is known only some time after it was made. A result is therefore held until the changes during its run are
    known, and dropped if the command runs again at once because of them.
    """
    outputs = Outputs()
    async with aclosing(tree.batches()) as batches:
        if await anext(batches, None) is None:
            return
        on_ready()
        awaited = _next(batches)
        running: asyncio.Task[_ResultT] | None = asyncio.create_task(run())
        finished: _Finished[_ResultT] | None = None
        after_change = False
        ended = 0.0
        disturbances = _Disturbances()
        # When to run again because of suspected output; None if there was none.
        due: float | None = None
        try:
            while True:
                tasks: set[asyncio.Future[Any]] = {awaited} if running is None else {awaited, running}
                patience = None if due is None or running is not None else max(0.0, due - time.monotonic())
                patience = patience if finished is None else STEP_MS / 1000
                done, _ = await asyncio.wait(tasks, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                delay: float | None = None
                if awaited in done:
                    batch = awaited.result()
                    if batch is None:
                        return
                    awaited = _next(batches)
                    during_run = running is not None or batch.began <= ended + EVENT_LAG_SECONDS
                    paths = {change.path for change in batch.changes}
                    delay = outputs.changed(paths, during_run=during_run)
                    if not during_run and finished is None:
                        disturbances.quiet()
                    elif delay is not None:
                        delay = disturbances.add(paths, delay)
                    due = time.monotonic() + delay if delay else due
                elif running is not None:
                    ended = time.monotonic()
                    finished, running = _Finished(running.result(), ended + EVENT_LAG_SECONDS), None
                elif finished is not None:
                    if disturbances.paths or (time.monotonic() >= finished.known and not tree.is_unsettled):
                        yield Rerun(finished.result, after_change, outputs.paths(), disturbances.reported())
                        finished = None
                    continue
                if delay == 0 or not done:
                    outputs.begin(completed=running is None)
                    await _cancel(running)
                    running, finished = asyncio.create_task(run()), None
                    after_change = delay == 0
                    disturbances.begin()
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

"""Settled batches of changed files below a directory: the basis of the watchers of files, commands and tests."""

import os
import time
from collections.abc import AsyncGenerator, Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from sideband.core.errors import InvalidOption, shown
from sideband.core.limits import Bound
from sideband.tools.tool import Halt, offload
from sideband.watch.contents import ChangedFile, Contents
from sideband.watch.events import TreeEvents, WatchState
from sideband.watch.ignore import GITIGNORE, IgnoreRules

DEBOUNCE_SECONDS: Final = 0.1
# A tree that changes all the time is reported after this many times the debounce time.
MAX_DEBOUNCES: Final = 10
# After more events at once the whole tree is compared, because watchfiles can lose an event while others arrive.
RESCAN_EVENTS: Final = 20
# Files are hashed for this time, then events are awaited for as long: half of one processor core is left free.
HASH_SECONDS: Final = 0.01

_DEBOUNCE: Final = Bound(0, whole=False, above=True)


class SettledChanges(NamedTuple):
    """Files that changed together; `began` is when the first event arrived, on the monotonic clock."""

    changes: tuple[ChangedFile, ...]
    began: float


class _Unsettled:
    """Paths that were touched, until nothing is touched for `quiet` seconds."""

    def __init__(self, quiet: float) -> None:
        self.paths: set[str] = set()
        self.began = 0.0
        self._last = 0.0
        self._quiet = quiet

    @property
    def due(self) -> float:
        return min(self._last + self._quiet, self.began + self._quiet * MAX_DEBOUNCES)

    def add(self, paths: set[str], now: float) -> None:
        if not paths:
            return
        if not self.paths:
            self.began = now
        self._last = now
        self.paths |= paths


class Tree:
    """A directory with all that is below it, or a single file.

    `without` are files whose changes are ignored. `InvalidOption` if `root` does not exist; `field` is the name of the
    option in its message.
    """

    def __init__(
        self, root: Path, *, debounce_seconds: float, without: Collection[Path] = (), field: str = "root"
    ) -> None:
        _DEBOUNCE.check("debounce_seconds", debounce_seconds)
        try:
            place = root.resolve(strict=True)
        except OSError as error:
            raise InvalidOption(
                f"{field} must be a directory or a file that exists, not {shown(str(root))} ({error.strerror})",
                field=field,
                value=str(root),
            ) from None
        self.is_file = not place.is_dir()
        # An editor replaces a file when it saves it, and only the directory shows that.
        self.folder = place.parent if self.is_file else place
        if not os.access(self.folder, os.R_OK | os.X_OK):
            raise InvalidOption(
                f"{field} must be a directory or a file that can be read, not {shown(str(root))} (Permission denied)",
                field=field,
                value=str(root),
            )
        self._only = place.name if self.is_file else None
        self._debounce_seconds = debounce_seconds
        # Whether files were touched that no batch has reported yet; written by the thread that awaits a batch.
        self.is_unsettled = False
        outside = [path.parent.resolve() / path.name for path in without]
        self._without = {
            path.relative_to(self.folder).as_posix() for path in outside if path.is_relative_to(self.folder)
        }

    async def batches(self) -> AsyncGenerator[SettledChanges, None]:
        """The batches from now on; the first one is empty and says that the tree is being watched.

        The generator ends when the directory no longer exists. Closing it ends its threads.
        """
        events = TreeEvents(self.folder, recursive=not self.is_file)
        settled = self._settled(events)

        def following(halt: Halt) -> SettledChanges | None:
            with halt.stopping(events.stop):
                return next(settled, None)

        try:
            # Events are collected while no batch is awaited, so that a slow reader gets one large batch.
            while (batch := await offload(following, waits=True)) is not None:
                yield batch
        finally:
            events.stop()
            await offload(lambda _: events.join(), waits=True)

    def _settled(self, events: TreeEvents) -> Iterator[SettledChanges]:
        contents = self._contents()
        unsettled = _Unsettled(self._debounce_seconds)
        is_recorded = False
        # Taken before the first event, see `Contents.record`.
        start_ns = time.time_ns()
        events.start()
        while True:
            patience = None if contents.hashed or not is_recorded else HASH_SECONDS
            event = events.get(max(0.0, unsettled.due - time.monotonic()) if unsettled.paths else patience)
            now = time.monotonic()
            match event:
                case WatchState.STOPPED:
                    return
                case WatchState.ESTABLISHED if not is_recorded:
                    contents.record(start_ns)
                    is_recorded = True
                    yield SettledChanges((), now)
                case WatchState.ESTABLISHED:
                    unsettled.add(contents.differing(), now)
                case None if not unsettled.paths:
                    contents.hash_some(HASH_SECONDS)
                case Exception() as error:
                    raise error
                case set() as paths:
                    unsettled.add({path for path in map(self._relative, paths) if path and contents.wants(path)}, now)
            self.is_unsettled = bool(unsettled.paths)
            is_gone = isinstance(event, set) and not self.folder.is_dir()
            if is_gone or (unsettled.paths and now >= unsettled.due):
                batch = self._compared(contents, unsettled, is_gone=is_gone)
                unsettled = _Unsettled(self._debounce_seconds)
                if batch.changes:
                    yield batch
                self.is_unsettled = False
            if is_gone:
                return

    def _contents(self) -> Contents:
        return Contents(self.folder, IgnoreRules(self.folder), only=self._only, without=self._without)

    def _compared(self, contents: Contents, unsettled: _Unsettled, *, is_gone: bool) -> SettledChanges:
        paths = unsettled.paths
        if is_gone or len(paths) > RESCAN_EVENTS:
            paths |= contents.differing()
        changes = contents.compare(paths)
        if any(change.path.rpartition("/")[2] == GITIGNORE for change in changes):
            contents.reload_rules()
        return SettledChanges(changes, unsettled.began)

    def _relative(self, path: str) -> str:
        below = path.removeprefix(f"{self.folder}{os.sep}")
        return "" if below == path else below.replace(os.sep, "/")

"""The events of the operating system: which paths below a directory were touched, received in a thread of its own."""

import threading
import time
from collections import deque
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

from sideband.logs import LOG

try:
    from watchfiles import Change, watch
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "a watcher needs watchfiles, which is not installed: pip install 'sideband[watch]'", name=missing.name
    ) from missing

# How often the thread looks for events, which costs 40 us of processor time. An event waits for one or two looks.
STEP_MS: Final = 20
# Events that arrive without a pause are passed on after this time.
BURST_MS: Final = 500
# At most this many attempts in a row to establish a watch.
MAX_FAILURES: Final = 3
# How often the directory is compared with the one that is watched: it may have been replaced without an event.
IDENTITY_SECONDS: Final = 1.0
# How often the tree is compared if a part of it cannot be read. watchfiles can then neither watch nor poll it.
COMPARE_SECONDS: Final = 1.0


class WatchState(Enum):
    """What happened to the watch itself. When it is `ESTABLISHED` again, events before that may have been lost."""

    ESTABLISHED = "established"
    STOPPED = "stopped"


TreeEvent: TypeAlias = set[str] | WatchState | Exception


class TreeEvents:
    """The absolute paths of touched files and directories, in sets; an exception if the directory cannot be watched.

    If the operating system refuses the watch, because its limit is reached, the directory is polled instead. If it has
    directories that cannot be read, the reader is asked to compare the tree every second. A directory that is replaced
    by another one of the same name is watched again.
    """

    def __init__(self, folder: Path, *, recursive: bool) -> None:
        self._folder = folder
        self._recursive = recursive
        self._thread = threading.Thread(target=self._receive, daemon=True, name="sideband-watch")
        # Protects the two fields below and announces their changes.
        self._changed = threading.Condition()
        self._events: deque[TreeEvent] = deque()
        self._stopping = False
        self._established = False
        self._failures = 0
        # The directory that is watched, and when it was last compared with that of its name.
        self._identity: tuple[int, int] | None = None
        self._compared = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def get(self, timeout: float | None) -> TreeEvent | None:
        """The next event; None if there is none within `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._stopping, timeout)
            if self._stopping:
                return WatchState.STOPPED
            return self._events.popleft() if self._events else None

    def _put(self, event: TreeEvent) -> None:
        with self._changed:
            last = self._events[-1] if self._events else None
            # Merged, so that a reader that is slow costs no memory.
            if isinstance(last, set) and isinstance(event, set):
                last |= event
            elif last is not event:
                self._events.append(event)
            self._changed.notify_all()

    def is_set(self) -> bool:
        """Whether to end the watch; watchfiles first asks when it is established, and then with each step."""
        if not self._established:
            self._established = True
            self._failures = 0
            self._put(WatchState.ESTABLISHED)
        if time.monotonic() - self._compared < IDENTITY_SECONDS:
            return self._stopping
        return self._stopping or self._is_replaced()

    def _is_replaced(self) -> bool:
        self._compared = time.monotonic()
        return _identity(self._folder) != self._identity

    def _receive(self) -> None:
        polling = None
        while not self._stopping:
            self._established = False
            # Taken before the watch is established: a directory that is replaced in between is then watched once more.
            self._identity = _identity(self._folder)
            self._compared = time.monotonic()
            try:
                for changes in watch(
                    self._folder,
                    watch_filter=None,
                    debounce=BURST_MS,
                    step=STEP_MS,
                    stop_event=self,
                    raise_interrupt=False,
                    force_polling=polling,
                    recursive=self._recursive,
                    # With True the directories that follow the first unreadable one are not watched either.
                    ignore_permission_denied=False,
                ):
                    self._put({path for _, path in changes})
                    # A new directory may get the number of the deleted one.
                    if self._is_replaced() or (Change.deleted, str(self._folder)) in changes:
                        break
            except FileNotFoundError:
                # The reader sees that the directory no longer exists.
                self._put(set())
                return
            except (OSError, RuntimeError) as error:
                if _is_denied(error):
                    LOG.warning(
                        "%s has parts that cannot be read, now comparing it every second: %s", self._folder, error
                    )
                    self._compare()
                    return
                self._failures += 1
                if self._failures == MAX_FAILURES:
                    self._put(error)
                    return
                # Among others: the limit of watches is reached, or a file name is not valid UTF-8.
                polling = True if isinstance(error, OSError) else polling
                how = "polling it" if polling else "watching it again"
                LOG.warning("the watch of %s failed, now %s: %s", self._folder, how, error)

    def _compare(self) -> None:
        """Let the reader compare the tree again and again, until the end or until the directory no longer exists."""
        with self._changed:
            while not self._stopping and self._folder.is_dir():
                self._put(WatchState.ESTABLISHED)
                self._changed.wait_for(lambda: self._stopping, COMPARE_SECONDS)
        self._put(set())


def _identity(folder: Path) -> tuple[int, int] | None:
    """The device and the number of a directory; None if it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_denied(error: Exception) -> bool:
    # The error of a watch that fails after its start has no number.
    return isinstance(error, PermissionError) or "Permission denied" in str(error)

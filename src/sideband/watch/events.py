"""The events of the operating system: which paths below a directory were touched, received in a thread of its own."""

import logging
import threading
from collections import deque
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

try:
    from watchfiles import watch
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "a watcher needs watchfiles, which is not installed: pip install 'sideband[watch]'", name=missing.name
    ) from missing

# How often the thread looks for events, which costs 40 us of processor time. An event waits for one or two looks.
STEP_MS: Final = 20
# Events that arrive without a pause are passed on after this time.
BURST_MS: Final = 500
# So often in a row a watch that cannot be established is tried.
MAX_FAILURES: Final = 3

_LOG: Final = logging.getLogger("sideband")


class WatchState(Enum):
    """What happened to the watch itself. When it is `ESTABLISHED` again, events before that may have been lost."""

    ESTABLISHED = "established"
    STOPPED = "stopped"


TreeEvent: TypeAlias = set[str] | WatchState | Exception


class TreeEvents:
    """The absolute paths of touched files and directories, in sets; an exception if the directory cannot be watched.

    If the operating system refuses the watch, because its limit is reached, the directory is polled instead.
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
            else:
                self._events.append(event)
            self._changed.notify_all()

    def is_set(self) -> bool:
        """Whether to stop; watchfiles asks for the first time when the watch is established."""
        if not self._established:
            self._established = True
            self._failures = 0
            self._put(WatchState.ESTABLISHED)
        return self._stopping

    def _receive(self) -> None:
        polling = None
        while not self._stopping:
            self._established = False
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
                    ignore_permission_denied=True,
                ):
                    self._put({path for _, path in changes})
            except FileNotFoundError:
                # The reader sees that the directory no longer exists.
                self._put(set())
                return
            except (OSError, RuntimeError) as error:
                self._failures += 1
                if self._failures == MAX_FAILURES:
                    self._put(error)
                    return
                # Among others: the limit of watches is reached, or a file name is not valid UTF-8.
                polling = True if isinstance(error, OSError) else polling
                how = "polling it" if polling else "watching it again"
                _LOG.warning("the watch of %s failed, now %s: %s", self._folder, how, error)

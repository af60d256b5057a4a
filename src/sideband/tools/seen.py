"""Which files the agent knows, and what has happened to them since without it."""

import os
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from sideband.ports import FileChange
from sideband.tools.refusal import Refused
from sideband.tools.root import Content, Place, Root, digest

# File systems count time in steps of up to two seconds; two writes inside one step can leave the same times.
SETTLED_NS: Final = 2_000_000_000


class Signature(NamedTuple):
    """What changes with the content of a file, and costs no reading."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Known(NamedTuple):
    """What the agent read or wrote, and what it was `told` is there now; None: that the file is gone.

    Only a `settled` signature can stand for the content. `writes` counts the agent's own.
    """

    digest: bytes
    told: bytes | None
    signature: Signature | None
    settled: bool
    writes: int = 0


def signature(status: os.stat_result) -> Signature:
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Seen:
    """The files the agent has read or written. What a command changed counts as changed by somebody else: the agent has
    not seen it.
    """

    def __init__(self, root: Root, now_ns: Callable[[], int]) -> None:
        self._root = root
        self._now_ns = now_ns
        self._known: dict[Place, Known] = {}
        # Makes a move into place and its note one step, so that nobody takes the agent's own write for another's.
        self.noting = threading.Lock()
        # Makes checking a file and replacing it one step among the agent's own calls.
        self.writing = threading.Lock()

    def knows(self, place: Place) -> bool:
        return place in self._known

    def writes(self, place: Place) -> int:
        known = self._known.get(place)
        return known.writes if known else 0

    def read(self, place: Place, content: Content, *, since: int) -> None:
        """Note what was read; if there are more `writes` than before the read, one has overtaken it and is the news."""
        with self.noting:
            if self.writes(place) == since:
                fresh = self._fresh(digest(content.data), content.status)
                self._known[place] = fresh._replace(writes=since)

    def wrote(self, place: Place, data_digest: bytes, status: os.stat_result) -> None:
        """Note what was written; called with `noting` held since before the file was moved into place."""
        self._known[place] = self._fresh(data_digest, status)._replace(writes=self.writes(place) + 1)

    def refuse_unknown(self, place: Place, content: Content) -> None:
        """Only what the agent has read, and nobody has changed since, may be replaced by it."""
        known = self._known.get(place)
        if known is None:
            raise Refused(f"{place} was not read yet; read_file it first, so that nothing in it is lost unseen")
        if known.digest != digest(content.data):
            raise Refused(f"{place} has changed since it was read; read_file it again")

    def changes(self) -> tuple[FileChange, ...]:
        """What others did to known files since the last call; safe to call from any thread."""
        with self.noting:
            known = tuple(self._known.items())
        changes = []
        for place, before in known:
            now = self._look(place, before)
            if self._noted(place, before, now) and now.told != before.told:
                changes.append(FileChange(path=str(place), kind=_kind(before, now)))
        return tuple(changes)

    def _look(self, place: Place, before: Known) -> Known:
        path = self._root.full_path(place)
        try:
            status = path.lstat()
            if before.settled and before.signature == signature(status):
                return before
            now = self._fresh(self._root.digest(place), status)
        except (FileNotFoundError, NotADirectoryError, Refused):
            return before._replace(told=None, signature=None, settled=False)
        except OSError:
            # What cannot be read is not known to be different.
            return before
        return now._replace(digest=before.digest, writes=before.writes)

    def _noted(self, place: Place, before: Known, now: Known) -> bool:
        """Put `now` in the place of `before`, unless the agent itself came in between."""
        with self.noting:
            if self._known.get(place) is not before:
                return False
            self._known[place] = now
            return True

    def _fresh(self, data_digest: bytes, status: os.stat_result) -> Known:
        latest = max(status.st_mtime_ns, status.st_ctime_ns)
        return Known(data_digest, data_digest, signature(status), self._now_ns() - latest > SETTLED_NS)


def _kind(before: Known, now: Known) -> str:
    if now.told is None:
        return "deleted"
    return "created" if before.told is None else "modified"

"""The files that the agent has read or written, and the changes that others have made to them since."""

import os
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from sideband.ports import FileChange
from sideband.tools.root import Content, Root, WorkspacePath, digest
from sideband.tools.tool import Refused

# File systems record time in steps of up to two seconds; two writes within one step can have equal times.
SETTLED_NS: Final = 2_000_000_000


class Signature(NamedTuple):
    """The part of a file's status that changes with its content, so that the file need not be read."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Known(NamedTuple):
    """What the agent last saw of a file: the digest it read or wrote, and the digest last reported by `changes`.

    `told=None` means that the file was reported as deleted, or was not on the disk. The file is compared again if its
    signature is not `settled`, because only a settled one identifies the content. `writes` counts the agent's own writes.
    """

    digest: bytes
    told: bytes | None
    signature: Signature | None
    settled: bool
    writes: int = 0


def signature(status: os.stat_result) -> Signature:
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Seen:
    """The files the agent has read or written.

    A change made by a command that the agent ran counts as foreign, because the agent has not seen its result.
    """

    def __init__(self, root: Root, now_ns: Callable[[], int]) -> None:
        self._root = root
        self._now_ns = now_ns
        self._known: dict[WorkspacePath, Known] = {}
        # Makes a rename and its record atomic, so that `changes` does not report the agent's own write as foreign.
        self.noting = threading.Lock()
        # Makes checking and replacing a file atomic among the agent's concurrent calls.
        self.writing = threading.Lock()

    def knows(self, place: WorkspacePath) -> bool:
        return place in self._known

    def writes(self, place: WorkspacePath) -> int:
        known = self._known.get(place)
        return known.writes if known else 0

    def read(self, place: WorkspacePath, content: Content, *, since: int) -> None:
        """Record what was read, unless the agent has written the file since: `since` is `writes` before the read."""
        with self.noting:
            if self.writes(place) == since:
                self._known[place] = self._as_read(content)._replace(writes=since)

    def wrote(self, place: WorkspacePath, data_digest: bytes, status: os.stat_result) -> None:
        """Record what was written; the caller must hold `noting` since before the rename."""
        self._known[place] = self._fresh(data_digest, status)._replace(writes=self.writes(place) + 1)

    def wrote_in_editor(self, place: WorkspacePath, data: bytes, *, before: os.stat_result | None) -> None:
        """Record what an editor has written for the agent; `before` is the status of the file before (None: it is new)."""
        with self.noting:
            known = self._as_written(place, data, before)
            self._known[place] = known._replace(writes=self.writes(place) + 1)

    def refuse_unknown(self, place: WorkspacePath, content: Content) -> None:
        """Refuse to replace a file that the agent has not read, or that has changed since."""
        known = self._known.get(place)
        if known is None:
            raise Refused(f"{place} was not read yet; read_file it first, so that its content is not lost")
        if known.digest != digest(content.data):
            raise Refused(f"{place} has changed since it was read; read_file it again")

    def changes(self) -> tuple[FileChange, ...]:
        """The changes that others made to known files since the last call; safe to call from any thread."""
        with self.noting:
            known = tuple(self._known.items())
        changes = []
        for place, before in known:
            now = self._look(place, before)
            if self._noted(place, before, now) and now.told != before.told:
                changes.append(FileChange(path=str(place), kind=_kind(before, now)))
        return tuple(changes)

    def _look(self, place: WorkspacePath, before: Known) -> Known:
        path = self._root.full_path(place)
        try:
            status = path.lstat()
            if before.settled and before.signature == signature(status):
                return before
            now = self._fresh(self._root.digest(place), status)
        except (FileNotFoundError, NotADirectoryError, Refused):
            return before._replace(told=None, signature=None, settled=False)
        except OSError:
            # An unreadable file is not reported: it may be unchanged.
            return before
        return now._replace(digest=before.digest, writes=before.writes)

    def _noted(self, place: WorkspacePath, before: Known, now: Known) -> bool:
        """Replace `before` by `now`, unless the agent has read or written the file in between."""
        with self.noting:
            if self._known.get(place) is not before:
                return False
            self._known[place] = now
            return True

    def _as_read(self, content: Content) -> Known:
        data_digest = digest(content.data)
        if content.status is None:
            return Known(data_digest, None, None, settled=False)
        known = self._fresh(data_digest, content.status)
        # Nothing was changed while the text of the editor is not saved: the file is compared when it changes.
        return known._replace(settled=True) if content.is_unsaved else known

    def _as_written(self, place: WorkspacePath, data: bytes, before: os.stat_result | None) -> Known:
        try:
            saved = self._root.read(place)
        except Refused:
            return self._as_read(Content(data, None))
        if saved.data == data:
            return self._as_read(saved)
        is_as_before = before is not None and saved.status is not None and signature(saved.status) == signature(before)
        # Editors keep the line ends of a file.
        if is_as_before or saved.data.replace(b"\r\n", b"\n") == data.replace(b"\r\n", b"\n"):
            return self._as_read(Content(data, saved.status, is_unsaved=True))
        # The editor has saved something else, for example formatted code. That is reported like every foreign change.
        return self._as_read(Content(data, saved.status))._replace(signature=None, settled=False)

    def _fresh(self, data_digest: bytes, status: os.stat_result) -> Known:
        latest = max(status.st_mtime_ns, status.st_ctime_ns)
        return Known(data_digest, data_digest, signature(status), self._now_ns() - latest > SETTLED_NS)


def _kind(before: Known, now: Known) -> str:
    if now.told is None:
        return "deleted"
    return "created" if before.told is None else "modified"

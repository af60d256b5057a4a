"""What is known of the files below a directory, to distinguish a change of content from a save that changes nothing.

The names and sizes of all files are recorded at the start. Contents are hashed afterwards, while nothing changes. A
file whose earlier content is not known counts as changed: to read it again costs less than to miss a change.
"""

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from sideband.watch.ignore import IgnoreRules

MIB: Final = 1024 * 1024
# More files than this are not remembered: a new one among the rest counts as changed, and its deletion is not reported.
MAX_FILES: Final = 100_000
# A larger file counts as changed with each save.
MAX_HASHED_BYTES: Final = 4 * MIB
# How much is read at the start, and for one batch of changes; other files count as changed with their first save.
MAX_START_BYTES: Final = 256 * MIB
MAX_BATCH_BYTES: Final = 64 * MIB
# A file that was changed so shortly before the start may have been changed after it: file systems have coarse clocks.
START_SLACK_NS: Final = 100_000_000
_DIGEST_BYTES: Final = 16


class ChangeKind(StrEnum):
    CHANGED = "changed"
    CREATED = "created"
    DELETED = "deleted"


class ChangedFile(NamedTuple):
    """A file whose content has changed; `path` is relative to the watched directory, with `/` as the separator."""

    path: str
    kind: ChangeKind


class _KnownFile(NamedTuple):
    """`signature` is the part of the status that changes with the content; `digest=None` if it is not known."""

    signature: int
    digest: bytes | None


class Contents:
    """The files below `root` that are not ignored; `only` narrows them to one file, `without` leaves files out."""

    def __init__(
        self, root: Path, rules: IgnoreRules, *, only: str | None = None, without: Collection[str] = ()
    ) -> None:
        self._root = root
        # Joining strings takes a tenth of the time of joining paths.
        self._prefix = f"{root}{os.sep}"
        self._rules = rules
        self._only = only
        self._without = without
        self._known: dict[str, _KnownFile] = {}
        self._complete = True
        self._start_ns = 0
        self._unhashed: Iterator[str] = iter(())
        self._start_bytes = MAX_START_BYTES
        self.hashed = False

    def wants(self, path: str) -> bool:
        """Whether changes of a file or directory are of interest."""
        if self._only is not None:
            return path == self._only
        return path not in self._without and not self._rules.ignores(path)

    def record(self, start_ns: int) -> None:
        """Record the files that exist; changes since `start_ns` are reported by events."""
        self._start_ns = start_ns
        self._add_unknown()

    def reload_rules(self) -> None:
        """Read the ignore patterns again, and record the files that are no longer ignored."""
        self._rules.reload()
        self._add_unknown()

    def _add_unknown(self) -> None:
        for path, status in self._survey(""):
            if path not in self._known:
                if len(self._known) >= MAX_FILES:
                    self._complete = False
                    break
                self._known[path] = _KnownFile(_signature(status), None)
        self._unhashed = iter(tuple(self._known))
        self.hashed = False

    def hash_some(self, seconds: float) -> None:
        """Hash recorded files for about this many seconds; `hashed` is set when there are none left."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            path = next(self._unhashed, None)
            if path is None or self._start_bytes <= 0:
                self.hashed = True
                return
            known = self._known.get(path)
            if known is not None and known.digest is None and self.wants(path):
                self._known[path] = known._replace(digest=self._digest_at_start(path, known.signature))

    def _digest_at_start(self, path: str, signature: int) -> bytes | None:
        status = self._status(path)
        if status is None or status.st_size > MAX_HASHED_BYTES:
            return None
        self._start_bytes -= status.st_size
        digest = self._digest(path, status)
        after = self._status(path)
        # What was changed since the start was not hashed before its change.
        if after is None or _signature(after) != signature:
            return None
        return digest if max(after.st_mtime_ns, after.st_ctime_ns) < self._start_ns - START_SLACK_NS else None

    def differing(self) -> set[str]:
        """The files that differ from what is known of them, found without events."""
        found = set()
        seen = set()
        for path, status in self._survey(""):
            seen.add(path)
            known = self._known.get(path)
            if (known is None and self._complete) or (known is not None and known.signature != _signature(status)):
                found.add(path)
        return found | (self._known.keys() - seen)

    def compare(self, paths: Iterable[str]) -> tuple[ChangedFile, ...]:
        """The files among `paths`, and in directories among them, whose content has changed; they are then known."""
        room = MAX_BATCH_BYTES
        changes = []
        for path in sorted(self._expanded(paths)):
            if not self.wants(path):
                continue
            before = self._known.get(path)
            status = self._status(path)
            if status is None:
                if self._known.pop(path, None) is not None:
                    changes.append(ChangedFile(path, ChangeKind.DELETED))
                continue
            digest = None
            if status.st_size <= min(room, MAX_HASHED_BYTES):
                room -= status.st_size
                digest = self._digest(path, status)
            now = _KnownFile(_signature(status), digest)
            if before is not None or len(self._known) < MAX_FILES:
                self._known[path] = now
            if before is None:
                changes.append(ChangedFile(path, ChangeKind.CREATED if self._complete else ChangeKind.CHANGED))
            elif not _is_same(before, now):
                changes.append(ChangedFile(path, ChangeKind.CHANGED))
        return tuple(changes)

    def _expanded(self, paths: Iterable[str]) -> set[str]:
        """The paths with the files in directories: a directory that is moved is one event."""
        expanded = set()
        for path in paths:
            expanded.add(path)
            place = self._root / path
            if place.is_dir() and not place.is_symlink():
                expanded.update(file for file, _ in self._survey(path))
            elif path not in self._known and not os.path.lexists(place):
                expanded.update(file for file in self._known if file.startswith(f"{path}/"))
        return expanded

    def _survey(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        """The files below a directory; a file in a directory that is not ignored may itself be ignored."""
        if self._only is not None:
            status = self._status(self._only)
            if status is not None:
                yield self._only, status
            return
        folders = [folder]
        while folders:
            place = folders.pop()
            try:
                with os.scandir(self._root / place) as entries:
                    for entry in entries:
                        path = f"{place}/{entry.name}" if place else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            if not self._rules.ignores(path, is_folder=True):
                                folders.append(path)
                        elif (status := self._status(path)) is not None:
                            yield path, status
            except OSError:
                # Deleted in the meantime, or not readable.
                continue

    def _status(self, path: str) -> os.stat_result | None:
        """The status of a regular file or a symbolic link; None for anything else."""
        try:
            status = os.lstat(self._prefix + path)
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None

    def _digest(self, path: str, status: os.stat_result) -> bytes | None:
        place = self._prefix + path
        try:
            if stat.S_ISLNK(status.st_mode):
                data = os.fsencode(os.readlink(place))  # noqa: PTH115 - half the time, for all files at the start
            else:
                # Not blocking, in case that the file has become a named pipe.
                with open(os.open(place, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
                    data = file.read(status.st_size + 1)
        except OSError:
            return None
        # A file of another size is being written; another event follows.
        return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest() if len(data) == status.st_size else None


def _signature(status: os.stat_result) -> int:
    return hash((status.st_ino, status.st_size, status.st_mtime_ns))


def _is_same(before: _KnownFile, now: _KnownFile) -> bool:
    if before.digest is None and now.digest is None:
        return before.signature == now.signature
    return before.digest == now.digest

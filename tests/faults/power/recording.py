"""A disk that records every operation and sync, so that power cuts can be simulated later."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from sideband.store.sqlite import file as places
from tests.faults.disks import WatchedDisk


class Deed(StrEnum):
    """What can be done to a disk."""

    NAME = "name"
    """A file is known by a name from now on."""
    UNNAME = "unname"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    SYNC_NAMES = "sync_names"
    """The directory is durable, with the names in it."""


class Done(NamedTuple):
    """Something that was done to the file of this number (0: to none)."""

    deed: Deed
    file: int = 0
    name: str = ""
    offset: int = 0
    data: bytes = b""


class RecordingDisk(WatchedDisk):
    """`done` is all that was done, in its order. A file is known by its number, since it may change its name."""

    def __init__(self, directory: Path) -> None:
        super().__init__(syncs=False)
        self.done: list[Done] = []
        self._directory = directory
        self._named: dict[str, int] = {}

    def _file(self, path: str) -> int:
        return Path(path).stat().st_ino

    def opened(self, path: str) -> None:
        if path and self._named.get(name := Path(path).name) != (file := self._file(path)):
            self._named[name] = file
            self.done.append(Done(Deed.NAME, file, name))

    def deleting(self, path: str) -> None:
        name = Path(path).name
        if name in self._named:
            self.done.append(Done(Deed.UNNAME, self._named.pop(name), name))

    def writing(self, path: str, data: bytes, offset: int) -> None:
        self.done.append(Done(Deed.WRITE, self._file(path), offset=offset, data=bytes(data)))

    def truncating(self, path: str, size: int) -> None:
        self.done.append(Done(Deed.TRUNCATE, self._file(path), offset=size))

    def syncing(self, path: str) -> None:
        file = self._file(path)
        self.done.append(Done(Deed.SYNC, file))
        if path.endswith(places.WAL):
            # With a log that it has made, SQLite syncs the directory too.
            self.done.append(Done(Deed.SYNC_NAMES))

    @contextmanager
    def watching_directories(self) -> Iterator[None]:
        """Hear also of what is not done by SQLite: a file gets its name, and the directory is synced."""
        fsync, link = os.fsync, Path.hardlink_to

        def synced(handle: int) -> None:
            if os.fstat(handle).st_ino == self._directory.stat().st_ino:
                self.done.append(Done(Deed.SYNC_NAMES))
            fsync(handle)

        def linked(path: Path, target: str | Path) -> None:
            link(path, target)
            self.opened(str(path))

        with patch.object(os, "fsync", synced), patch.object(Path, "hardlink_to", linked):
            yield

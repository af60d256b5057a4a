"""A VFS below SQLite that is notified before every operation that changes the disk."""

import itertools
from typing import Final

import apsw

_NUMBERS: Final = itertools.count()


class WatchedDisk(apsw.VFS):
    """Subclasses override the notifications, to record an operation or to make it fail.

    Without `syncs`, nothing is synced: a simulated power cut decides what was durable.
    """

    def __init__(self, *, syncs: bool = True) -> None:
        self.syncs = syncs
        self.name = f"watched-{next(_NUMBERS)}"
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "WatchedFile":  # noqa: N802 - SQLite's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        file = WatchedFile(self, path, name, flags)
        self.opened(path)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's
        self.deleting(filename)
        super().xDelete(filename, syncdir)

    def opened(self, path: str) -> None:
        """A file is there now, if it was not before."""

    def deleting(self, path: str) -> None: ...

    def writing(self, path: str, data: bytes, offset: int) -> None: ...

    def truncating(self, path: str, size: int) -> None: ...

    def syncing(self, path: str) -> None: ...


class SpendingDisk(WatchedDisk):
    """For tests that only count operations: `spend` is called before each."""

    def __init__(self) -> None:
        super().__init__(syncs=False)

    def spend(self) -> None:
        raise NotImplementedError

    def deleting(self, path: str) -> None:  # noqa: ARG002 - whatever it is
        self.spend()

    def writing(self, path: str, data: bytes, offset: int) -> None:  # noqa: ARG002 - whatever it is
        self.spend()

    def truncating(self, path: str, size: int) -> None:  # noqa: ARG002 - whatever it is
        self.spend()

    def syncing(self, path: str) -> None:  # noqa: ARG002 - whatever it is
        self.spend()


class WatchedFile(apsw.VFSFile):
    """A file on it."""

    def __init__(self, disk: WatchedDisk, path: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._path = path
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.writing(self._path, data, offset)
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.truncating(self._path, size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.syncing(self._path)
        if self._disk.syncs:
            super().xSync(flags)

"""A disk that fails on demand: a VFS below SQLite that counts every write and sync."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

_NUMBERS: Final = itertools.count()


class FailingDisk(apsw.VFS):
    """Writes and syncs work until none of `remaining` is left; the next `failures` raise `error` (None: all)."""

    def __init__(self) -> None:
        self.name = f"failing-{next(_NUMBERS)}"
        super().__init__(self.name, "")
        self.error: type[apsw.Error] = apsw.IOError
        self.remaining: int | None = None
        self.failures: int | None = None
        self.done = 0
        self.syncs = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "FailingFile":  # noqa: N802 - SQLite's name
        return FailingFile(self, name, flags)

    def spend(self) -> None:
        """One more operation."""
        self.done += 1
        if self.remaining is not None:
            if self.remaining > 0:
                self.remaining -= 1
            elif self.failures != 0:
                self.failures = None if self.failures is None else self.failures - 1
                raise self.error

    @contextmanager
    def fails_after(
        self, operations: int, error: type[apsw.Error] = apsw.IOError, *, failures: int | None = None
    ) -> Iterator[None]:
        self.error, self.remaining, self.failures = error, operations, failures
        try:
            yield
        finally:
            self.remaining = None


class FailingFile(apsw.VFSFile):
    """A file on it."""

    def __init__(self, disk: FailingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.spend()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.spend()
        self._disk.syncs += 1
        super().xSync(flags)

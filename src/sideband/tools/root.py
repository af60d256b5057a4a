"""The folder an agent works in: no path that the model gives leads out of it.

A path is first resolved and checked, then opened from the root folder by folder, without following links. A link that
is created between the check and the opening makes the opening fail instead of leading out of the workspace.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import Final, NamedTuple

from sideband.tools.text import printable
from sideband.tools.tool import Refused, explained

# Larger files are data; the model can inspect them with command-line programs.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 1024 * 1024
DIGEST_BYTES: Final = 16
READ_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# O_NONBLOCK keeps the opening of a pipe from waiting for its other end; it has no effect on regular files.
READ_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class WorkspacePath(NamedTuple):
    """A path relative to the root with all links resolved; without parts it is the root itself."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return printable("/".join(self.parts)) or "."

    @property
    def in_git(self) -> bool:
        """Whether it is inside `.git`, in any case, because some file systems ignore case."""
        return any(part.casefold() == ".git" for part in self.parts)


class Content(NamedTuple):
    """The bytes of a file, and its status from before they were read.

    `status` is None if only an editor has the file. `is_unsaved`: these are the bytes of an editor, and the disk has others.
    """

    data: bytes
    status: os.stat_result | None
    is_unsaved: bool = False


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


class Root:
    """The workspace folder; no path leads out of it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve(strict=True)
        if not self.path.is_dir():
            raise NotADirectoryError(f"{path} is not a directory")

    def resolve(self, given: str) -> WorkspacePath:
        """The path that the model means; the file need not exist yet. Raises `Refused` for paths outside the root."""
        if not given or "\0" in given:
            raise Refused(f"{given!r} is not a path; give one relative to the workspace")
        pure = PurePosixPath(given)
        if ".." in pure.parts:
            raise Refused(f"{given}: '..' is not allowed; give the path relative to the workspace")
        if pure.parts[:1] == ("~",) and not os.path.lexists(self.path / "~"):
            raise Refused(f"{given}: '~' is not expanded; give a path relative to the workspace")
        real = PurePath(os.path.realpath(self.path / given))
        if not real.is_relative_to(self.path):
            raise Refused(f"{given} is outside the workspace; only paths inside it can be used")
        return WorkspacePath(real.relative_to(self.path).parts)

    def full_path(self, place: WorkspacePath) -> Path:
        return self.path.joinpath(*place.parts)

    @contextmanager
    def folder(self, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder, opened without following links; `create` makes missing folders."""
        descriptor = os.open(self.path, READ_FOLDER)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                inner = os.open(part, READ_FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, place: WorkspacePath, *, limit: int = MAX_FILE_BYTES) -> Content:
        """The content of a regular file; other kinds of files, and larger ones than `limit`, are refused."""
        with explained(place), self._opened(place) as (descriptor, status):
            data = b"".join(_chunks(descriptor, limit + 1))
        if len(data) > limit:
            raise Refused(
                f"{place} has more than {limit} bytes, too many for this tool; look at it with run: head, tail, sed"
            )
        return Content(data, status)

    def digest(self, place: WorkspacePath) -> bytes:
        """A digest of a regular file's content, or of its size and time if the file is too large to read."""
        with self._opened(place) as (descriptor, status):
            if status.st_size > MAX_FILE_BYTES:
                mark = f"{status.st_size} {status.st_mtime_ns}".encode()
                return hashlib.blake2b(mark, digest_size=DIGEST_BYTES, person=b"not read").digest()
            found = hashlib.blake2b(digest_size=DIGEST_BYTES)
            for chunk in _chunks(descriptor, MAX_FILE_BYTES):
                found.update(chunk)
        return found.digest()

    @contextmanager
    def _opened(self, place: WorkspacePath) -> Iterator[tuple[int, os.stat_result]]:
        if not place.parts:
            raise Refused(". is a folder; list_dir shows what is in it")
        *parents, name = place.parts
        with self.folder(parents) as folder:
            # Check before opening, because merely opening a device can have effects.
            refuse_irregular(place, os.stat(name, dir_fd=folder, follow_symlinks=False))
            descriptor = os.open(name, READ_FILE, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
            refuse_irregular(place, status)
            yield descriptor, status
        finally:
            os.close(descriptor)


def refuse_irregular(place: WorkspacePath, status: os.stat_result) -> None:
    """Refuse everything but regular files: reading a pipe or a device may never end."""
    if stat.S_ISDIR(status.st_mode):
        raise Refused(f"{place} is a folder; list_dir shows what is in it")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{place} is not a regular file")


def _chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    """The content in chunks, at most `limit` bytes: a file may grow as fast as it is read."""
    left = limit
    while left and (chunk := os.read(descriptor, min(left, CHUNK_BYTES))):
        yield chunk
        left -= len(chunk)

"""The folder an agent works in: every path is resolved first and then opened without following any link.

A path is checked by resolving it; it is used by walking from the root, folder by folder, with links refused. A link
that is put there between the two makes the use fail instead of leading it out.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import Final, NamedTuple

from sideband.tools.output import printable
from sideband.tools.refusal import Refused, explained

# A file beyond this is data, to be looked at with the programs that are made for it.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 1024 * 1024
DIGEST_BYTES: Final = 16
READ_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# Opening a pipe would wait for its other end, were it not for O_NONBLOCK; regular files do not care.
READ_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class Place(NamedTuple):
    """A path below the root with every link in it resolved; without parts it is the root itself."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return printable("/".join(self.parts)) or "."

    @property
    def in_git(self) -> bool:
        """Whether it is the repository's own data; some file systems do not tell upper from lower case."""
        return any(part.casefold() == ".git" for part in self.parts)


class Content(NamedTuple):
    """What is in a file, and its status from before it was read."""

    data: bytes
    status: os.stat_result


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


class Root:
    """The one folder that all paths are in."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve(strict=True)
        if not self.path.is_dir():
            raise NotADirectoryError(f"{path} is not a directory")

    def resolve(self, given: str) -> Place:
        """The place that a path of the model's means; it may not be there yet."""
        if not given or "\0" in given:
            raise Refused(f"{given!r} is no path; give one relative to the workspace")
        pure = PurePosixPath(given)
        if ".." in pure.parts:
            raise Refused(f"{given}: '..' is not allowed; give the path relative to the workspace")
        if pure.parts[:1] == ("~",) and not os.path.lexists(self.path / "~"):
            raise Refused(f"{given}: '~' is not expanded; give a path relative to the workspace")
        real = PurePath(os.path.realpath(self.path / given))
        if not real.is_relative_to(self.path):
            raise Refused(f"{given} is outside of the workspace; only what is inside can be used")
        return Place(real.relative_to(self.path).parts)

    def full_path(self, place: Place) -> Path:
        return self.path.joinpath(*place.parts)

    @contextmanager
    def folder(self, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder, reached without following a link; `create` makes what is missing on the way."""
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

    def read(self, place: Place, *, limit: int = MAX_FILE_BYTES) -> Content:
        """All that is in a regular file; refused where it is something else or larger than `limit`."""
        with explained(place), self._opened(place) as (descriptor, status):
            data = b"".join(_chunks(descriptor, limit + 1))
        if len(data) > limit:
            raise Refused(
                f"{place} has more than {limit} bytes, too many for this tool; look at it with run: head, tail, sed"
            )
        return Content(data, status)

    def digest(self, place: Place) -> bytes:
        """What identifies the content of a regular file; of one that is too large to be read, its size and time do."""
        with self._opened(place) as (descriptor, status):
            if status.st_size > MAX_FILE_BYTES:
                mark = f"{status.st_size} {status.st_mtime_ns}".encode()
                return hashlib.blake2b(mark, digest_size=DIGEST_BYTES, person=b"not read").digest()
            found = hashlib.blake2b(digest_size=DIGEST_BYTES)
            for chunk in _chunks(descriptor, MAX_FILE_BYTES):
                found.update(chunk)
        return found.digest()

    @contextmanager
    def _opened(self, place: Place) -> Iterator[tuple[int, os.stat_result]]:
        if not place.parts:
            raise Refused(". is a folder; list_dir shows what is in it")
        *parents, name = place.parts
        with self.folder(parents) as folder:
            # Looking comes before opening: to open a device can already do something.
            refuse_irregular(place, os.stat(name, dir_fd=folder, follow_symlinks=False))
            descriptor = os.open(name, READ_FILE, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
            refuse_irregular(place, status)
            yield descriptor, status
        finally:
            os.close(descriptor)


def refuse_irregular(place: Place, status: os.stat_result) -> None:
    """Only regular files are read or replaced: reading a pipe or a device may never end."""
    if stat.S_ISDIR(status.st_mode):
        raise Refused(f"{place} is a folder; list_dir shows what is in it")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{place} is no regular file")


def _chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    """What is there, but no more than `limit` bytes: it may grow as fast as it is read."""
    left = limit
    while left and (chunk := os.read(descriptor, min(left, CHUNK_BYTES))):
        yield chunk
        left -= len(chunk)

"""Writing a file in one step: others see the old content or the new, never a part."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from sideband.tools.offload import Halt
from sideband.tools.refusal import Refused, explained
from sideband.tools.root import Content, Place, Root, digest, refuse_irregular
from sideband.tools.seen import Seen, signature

WRITE_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# What file systems without hard links answer.
NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class Staged(NamedTuple):
    """A complete file beside the place it is meant for."""

    folder: int
    name: str
    descriptor: int


def put(root: Root, seen: Seen, place: Place, data: bytes, *, over: Content | None, halt: Halt) -> None:
    """Write `data` in the place of `over`, or of nothing; called with `seen.writing` held since `over` was read."""
    *parents, name = place.parts
    status = over.status if over else None
    with (
        explained(place),
        root.folder(parents, create=over is None) as folder,
        _staged(folder, data, like=status) as staged,
    ):
        halt.check()
        with seen.noting:
            _move(staged, place, name, status)
            seen.wrote(place, digest(data), os.fstat(staged.descriptor))


def existing(root: Root, place: Place) -> Content | None:
    """The file that a write would replace; None where there is none."""
    try:
        return root.read(place)
    except Refused as refusal:
        if isinstance(refusal.__cause__, FileNotFoundError):
            return None
        raise


def refuse_unwritable(place: Place, content: Content | None) -> None:
    """The repository's own data and what is marked read-only are not replaced."""
    if place.in_git:
        raise Refused(f"{place} belongs to git; change it by running git")
    if content is not None and not content.status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise Refused(f"{place} is read-only")


@contextmanager
def _staged(folder: int, data: bytes, *, like: os.stat_result | None) -> Iterator[Staged]:
    name = f".sideband-{secrets.token_hex(8)}.tmp"
    # A file that takes the place of a private one is never readable for others, not even before it has its mode.
    descriptor = os.open(name, WRITE_NEW, 0o666 if like is None else 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        if like is not None:
            # Only the super-user can keep an owner other than itself; anybody else keeps at least the mode.
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
            # As when a file is written to, it does not go on lending its owner's rights.
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
        os.fsync(descriptor)
        yield Staged(folder, name, descriptor)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _move(staged: Staged, place: Place, name: str, over: os.stat_result | None) -> None:
    if over is None:
        _move_new(staged, place, name)
        return
    now = os.stat(name, dir_fd=staged.folder, follow_symlinks=False)
    refuse_irregular(place, now)
    if signature(now) != signature(over):
        raise Refused(f"{place} was changed just now by somebody else; read_file it again")
    os.rename(staged.name, name, src_dir_fd=staged.folder, dst_dir_fd=staged.folder)


def _move_new(staged: Staged, place: Place, name: str) -> None:
    """A rename would replace what somebody else puts there meanwhile; a hard link is refused instead."""
    try:
        os.link(staged.name, name, src_dir_fd=staged.folder, dst_dir_fd=staged.folder)
    except FileExistsError:
        raise Refused(f"{place} was created just now by somebody else; read_file it first") from None
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.rename(staged.name, name, src_dir_fd=staged.folder, dst_dir_fd=staged.folder)
    else:
        os.unlink(staged.name, dir_fd=staged.folder)

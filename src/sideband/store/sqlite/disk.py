"""Where a store file may be, and that it is its owner's alone."""

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sideband.core.failures import StoreDamaged, StoreRefused

OWNER_ONLY: Final = 0o600
WAL: Final = "-wal"
# What SQLite puts beside a file while it is at work.
BESIDE: Final = (WAL, "-shm", "-journal")
MOUNTS: Final = Path("/proc/self/mountinfo")

# Locks and shared memory do not reach from one machine to another on these; a store there would lose what it promised.
NETWORK: Final = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "fuse.ceph",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.goofys",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)
# Folders that a virtual machine shares with its host: what is mapped into memory there is not what the file holds. Not
# so 9p and virtiofs: whole sandboxes stand on these, as on their only disk.
OF_THE_HOST: Final = frozenset({"drvfs", "fuse.grpcfuse", "fuse.osxfs", "fuse.vmhgfs-fuse", "prl_fs", "vboxsf"})


def filesystem_of(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of file system that a path is on; None where the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    found: tuple[int, str] | None = None
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(_unescaped(before.split(" ")[4]))
        # Of two on one point the later one hides the other.
        if path.is_relative_to(point) and (found is None or len(point.parts) >= found[0]):
            found = len(point.parts), after.split(" ")[0]
    return None if found is None else found[1]


def _unescaped(text: str) -> str:
    for escaped, letter in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(escaped, letter)
    return text


def place_of(path: str | Path) -> Path:
    """A path as it is without links and shorthands, where a store can be kept."""
    place = Path(path).expanduser().resolve()
    check_place(place)
    return place


def check_place(path: Path, *, filesystem: Callable[[Path], str | None] = filesystem_of) -> None:
    """Refuse a path at which no store can be kept."""
    if not path.parent.is_dir():
        raise StoreRefused(f"{path} cannot be opened: there is no directory {path.parent}")
    kind = filesystem(path)
    if kind in NETWORK or kind in OF_THE_HOST:
        where = "on a network file system" if kind in NETWORK else "in a folder that is shared with the host"
        raise StoreRefused(
            f"{path} is {where} ({kind}), where a store loses what it promised; "
            "put it on a local disk, or use postgresql://"
        )
    if path.exists() and not path.is_file():
        raise StoreRefused(f"{path} is not a file")
    # In this order: of one that somebody is just making, the file is there first.
    if Path(f"{path}{WAL}").exists() and not path.exists():
        raise StoreDamaged(
            f"{path} is missing, and {path.name}{WAL} beside it holds a part of it; "
            "restore the file, or move that part away to begin with an empty store"
        )
    if path.exists() and path.stat().st_size == 0:
        raise StoreDamaged(f"{path} is empty, which no store is; restore it, or remove it to begin with an empty store")


def identity(path: Path) -> tuple[int, int] | None:
    """Tells the file at a path from any other that is put in its place; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_private(path: Path) -> None:
    """Nobody but the owner reads or writes the file; what SQLite puts beside it gets the same permissions."""
    if stat.S_IMODE(path.stat().st_mode) != OWNER_ONLY:
        path.chmod(OWNER_ONLY)


def create(path: Path, fill: Callable[[Path], None]) -> None:
    """Put a file there that is complete from the first moment; one that somebody else has put there stays."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, OWNER_ONLY))
    try:
        fill(draft)
        _publish(draft, path)
    finally:
        for suffix in ("", *BESIDE):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)
    _sync_directory(path.parent)


def _publish(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    except OSError:
        # Not every file system has hard links; then two that begin at once may both believe they were first.
        if not path.exists():
            draft.rename(path)


def _sync_directory(directory: Path) -> None:
    # A file that a power cut can take away with its name holds nothing durable.
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

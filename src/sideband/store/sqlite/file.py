"""The store file: where it may be, its permissions, its creation, and connections to it."""

import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from sideband.core.errors import StoreDamaged, StoreRefused

OWNER_ONLY: Final = 0o600
WAL: Final = "-wal"
# The files that SQLite keeps next to a database.
BESIDE: Final = (WAL, "-shm", "-journal")
MOUNTS: Final = Path("/proc/self/mountinfo")

# Locks and shared memory do not work across machines on these file systems, so commits would be lost.
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
# Folders that a virtual machine shares with its host, on which memory-mapped files are not coherent. 9p and virtiofs are
# not listed, because they are the only disk of many sandboxes.
OF_THE_HOST: Final = frozenset({"drvfs", "fuse.grpcfuse", "fuse.osxfs", "fuse.vmhgfs-fuse", "prl_fs", "vboxsf"})


def filesystem_of(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system of a path; None if the operating system does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    found: tuple[int, str] | None = None
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(_unescaped(before.split(" ")[4]))
        # Of two mounts on one point, the later one hides the other.
        if path.is_relative_to(point) and (found is None or len(point.parts) >= found[0]):
            found = len(point.parts), after.split(" ")[0]
    return None if found is None else found[1]


def _unescaped(text: str) -> str:
    for escaped, letter in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(escaped, letter)
    return text


def place_of(path: str | Path) -> Path:
    """Resolve a path, and check that a store can be kept there."""
    place = Path(path).expanduser().resolve()
    check_place(place)
    return place


def check_place(path: Path, *, filesystem: Callable[[Path], str | None] = filesystem_of) -> None:
    """Refuse a path at which a store cannot be kept."""
    if not path.parent.is_dir():
        raise StoreRefused(f"{path} cannot be opened: there is no directory {path.parent}")
    kind = filesystem(path)
    if kind in NETWORK or kind in OF_THE_HOST:
        where = "on a network file system" if kind in NETWORK else "in a folder that is shared with the host"
        raise StoreRefused(
            f"{path} is {where} ({kind}), where commits can be lost; put it on a local disk, or use postgresql://"
        )
    if path.exists() and not path.is_file():
        raise StoreRefused(f"{path} is not a file")
    # Look at the log first: another process that creates the store makes the file before the log.
    if Path(f"{path}{WAL}").exists() and not path.exists():
        raise StoreDamaged(
            f"{path} is missing, but its log {path.name}{WAL} is there and may hold committed data; "
            "restore the file, or move the log away to begin with an empty store"
        )
    if path.exists() and path.stat().st_size == 0:
        raise StoreDamaged(
            f"{path} is an empty file and not a store; restore it, or remove it to begin with an empty store"
        )


def identity(path: Path) -> tuple[int, int] | None:
    """Identifies the file at a path, to detect that it was replaced; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_private(path: Path) -> None:
    """Restrict the file to its owner; SQLite gives the files next to it the same permissions."""
    if stat.S_IMODE(path.stat().st_mode) != OWNER_ONLY:
        path.chmod(OWNER_ONLY)


def create(path: Path, fill: Callable[[Path], None]) -> None:
    """Create a file that is complete from the first moment, unless another process has created one meanwhile."""
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
        # The file system has no hard links: two processes that create the store at once may both think they were first.
        if not path.exists():
            draft.rename(path)


def _sync_directory(directory: Path) -> None:
    # Otherwise a power cut can remove the name of the file, and with it every commit.
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


SHORTEST_WAIT: Final = 0.000_2
LONGEST_WAIT: Final = 0.005


def connect(path: Path, *, busy_seconds: float, vfs: str = "") -> apsw.Connection:
    """Open an existing file, so that every commit is on the disk when it returns."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or None)
    connection.set_busy_handler(_Patience(busy_seconds))
    connection.pragma("synchronous", "full")
    # On macOS a plain fsync does not flush the cache of the drive.
    connection.pragma("fullfsync", "on")
    connection.pragma("checkpoint_fullfsync", "on")
    connection.pragma("trusted_schema", "off")
    connection.pragma("cell_size_check", "on")
    return connection


class _Patience:
    """A busy handler that waits longer each time, up to a limit. It starts shorter than the one millisecond of SQLite."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __call__(self, tried: int) -> bool:
        now = time.monotonic()
        if tried == 0:
            self._until = now + self._seconds
        if now >= self._until:
            return False
        time.sleep(min(SHORTEST_WAIT * 2 ** min(tried, 10), LONGEST_WAIT))
        return True

"""Waking other processes that have the same file open, by an empty datagram to the socket of each.

A datagram is only a hint: a process that misses one finds the new events when it next polls the file.
"""

import errno
import hashlib
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

DIRECTORY: Final = "-wake"
OWNER_ONLY: Final = 0o700
# The operating system limits the address of a Unix socket to 104 or 108 bytes.
LONGEST_PATH: Final = 100
NAME_LETTERS: Final = 12
TRIES: Final = 3
SETTLED_NS: Final = 1_000_000_000


def directory_for(store: Path) -> Path:
    """A directory next to the file, or in the temporary directory if that path is too long for a socket."""
    beside = store.with_name(store.name + DIRECTORY)
    if len(os.fsencode(beside)) + 1 + NAME_LETTERS <= LONGEST_PATH:
        return beside
    name = hashlib.sha256(os.fsencode(store)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"sideband-{os.getuid()}-{name}"


def is_dead(directory: Path, address: str) -> bool:
    """Whether the process of this address has certainly died; False if that is not known."""
    if not (address and hasattr(socket, "AF_UNIX")):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hand:
        return _is_refused(directory / address, hand.connect)


def _is_refused(bell: Path, attempt: Callable[[str], object]) -> bool:
    try:
        attempt(str(bell))
    except OSError as error:
        # A full buffer means that it was woken before and has not read yet; a missing file, that it was closed properly.
        return error.errno == errno.ECONNREFUSED
    return False


class Doorbell:
    """The socket by which this process is woken, and those of the other processes."""

    def __init__(self, directory: Path, bell: socket.socket, address: str) -> None:
        self.address = address
        self._directory = directory
        self._bell = bell
        self._hand = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._hand.settimeout(0)
        self._others: list[str] = []
        self._changed = 0

    @classmethod
    def beside(cls, store: Path) -> "Doorbell | None":
        """Make the socket of this process; None if the system has no Unix sockets. Then new events are found by polling."""
        if not hasattr(socket, "AF_UNIX"):
            return None
        directory, address = directory_for(store), secrets.token_hex(NAME_LETTERS // 2)
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bell.settimeout(0)
        for _ in range(TRIES):
            try:
                _make_private(directory)
                bell.bind(str(directory / address))
                (directory / address).chmod(0o600)
            except FileNotFoundError:
                # Another process has just closed its socket and removed the empty directory.
                continue
            except OSError:
                # Not empty, if other processes can use it.
                with suppress(OSError):
                    directory.rmdir()
                break
            return cls(directory, bell, address)
        bell.close()
        return None

    def fileno(self) -> int:
        return self._bell.fileno()

    def answer(self) -> None:
        """Read and drop all datagrams that have arrived."""
        try:
            while self._bell.recv(1):
                pass
        except BlockingIOError:
            pass

    def ring_others(self) -> list[str]:
        """Wake every other process, and return the addresses of those that have died."""
        try:
            self._look_around()
        except OSError:
            return []
        return [name for name in self._others if _is_refused(self._directory / name, self._ring)]

    def _look_around(self) -> None:
        """List the other sockets, if the directory has changed or may have within the resolution of its time stamp."""
        changed = self._directory.stat().st_mtime_ns
        if changed != self._changed or time.time_ns() - changed < SETTLED_NS:
            self._others = [bell.name for bell in self._directory.iterdir() if bell.name != self.address]
            self._changed = changed

    def _ring(self, path: str) -> None:
        self._hand.sendto(b"!", path)

    def is_dead(self, address: str) -> bool:
        """Whether the process of this address has certainly died; False if that is not known."""
        return is_dead(self._directory, address)

    def remove(self, address: str) -> None:
        """Remove the socket of a process that has died."""
        (self._directory / address).unlink(missing_ok=True)

    def close(self) -> None:
        self._bell.close()
        self._hand.close()
        self.remove(self.address)
        try:
            self._directory.rmdir()
        except OSError:
            # Other processes still have their sockets there.
            return


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=OWNER_ONLY, exist_ok=True)
    found = directory.lstat()
    # In a shared temporary directory, another user may have created it first.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "not ours", str(directory))
    if stat.S_IMODE(found.st_mode) != OWNER_ONLY:
        directory.chmod(OWNER_ONLY)

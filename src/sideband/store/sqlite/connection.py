"""A connection to a store file: what is durable stays so, and whoever finds it taken waits a little."""

import time
from pathlib import Path
from typing import Final

import apsw

SHORTEST_WAIT: Final = 0.000_2
LONGEST_WAIT: Final = 0.005


def connect(path: Path, *, busy_seconds: float, vfs: str = "") -> apsw.Connection:
    """Open a file that exists. Every commit on it has reached the disk when it returns."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or None)
    connection.set_busy_handler(_Patience(busy_seconds))
    connection.pragma("synchronous", "full")
    # Where a plain sync stops at the drive's own cache: macOS.
    connection.pragma("fullfsync", "on")
    connection.pragma("checkpoint_fullfsync", "on")
    connection.pragma("trusted_schema", "off")
    connection.pragma("cell_size_check", "on")
    return connection


class _Patience:
    """Looks again after ever longer waits, until it has waited long enough. SQLite's own begin with a millisecond."""

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

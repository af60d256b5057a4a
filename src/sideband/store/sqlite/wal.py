"""The write-ahead log next to a store file: torn commits, and commits that were refused.

SQLite reads the log up to the first frame with a wrong checksum, and takes that for the torn end of a commit that was
never acknowledged. If another commit follows it, the commit was acknowledged, because each commit is synced before the
next one begins. SQLite would lose it silently, so the store is refused.

If the sync of a commit fails, the whole commit may be in the log already. SQLite reports an error, but a process that
reads the log after a crash would accept the commit, so it is overwritten before the caller gets the error.
"""

import contextlib
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from sideband.core.errors import OutcomeUnknown
from sideband.store.sqlite.file import WAL

HEADER: Final = struct.Struct(">8I")
FRAME: Final = struct.Struct(">6I")
# The last bit of the magic number: the byte order of the checksums.
BIG_ENDIAN: Final = 1
_WORD: Final = 0xFFFF_FFFF


class _Frame(NamedTuple):
    """One page in the log; `commits` if it is the last page of a commit."""

    page: int
    commits: bool
    salts: tuple[int, int]
    sums: tuple[int, int]
    summed: bytes


def has_torn_commit(connection: apsw.Connection, wal: Path) -> bool:
    """Whether a commit that SQLite has not accepted is followed by another commit in the log."""
    while True:
        accepted = accepted_frames(connection)
        found = _is_followed(wal, accepted)
        # Other processes may write meanwhile; the result is valid only if SQLite has not accepted more frames.
        if not found or accepted_frames(connection) == accepted:
            return found


def accepted_frames(connection: apsw.Connection) -> int:
    """The number of frames that SQLite has read from the log; -1 if the file has no log."""
    frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return frames


def logged_pages(connection: apsw.Connection, wal: Path) -> frozenset[int]:
    """The numbers of the pages that SQLite reads from the log."""
    accepted = accepted_frames(connection)
    log = _read(wal)
    if log is None or accepted <= 0:
        return frozenset()
    return frozenset(frame.page for frame in islice(log.frames(skip=0), accepted))


def ends_in_a_commit(connection: apsw.Connection, wal: Path) -> bool:
    """Whether a complete commit follows the frames that SQLite has accepted, so that a new reader would accept it.

    After a checkpoint of the whole log, SQLite starts the log again and counts no frame as accepted. Until the new header
    is written, the old commits are still in the log: then the result is True although there is no new commit.
    """
    log = _read(wal)
    if log is None:
        return False
    accepted = accepted_frames(connection)
    sums = log.sums
    for frame in log.frames(skip=max(0, accepted - 1)):
        if accepted > 0:
            accepted, sums = 0, frame.sums
        elif frame.salts != log.salts or _sums(sums, frame.summed, log.order) != frame.sums:
            return False
        elif frame.commits:
            return True
        else:
            sums = frame.sums
    return False


class _Log(NamedTuple):
    """The content of a log; frames with other salts belong to an earlier log."""

    data: bytes
    page_size: int
    order: str
    salts: tuple[int, int]
    sums: tuple[int, int]

    def frames(self, *, skip: int) -> Iterator[_Frame]:
        length = FRAME.size + self.page_size
        for start in range(HEADER.size + skip * length, len(self.data) - length + 1, length):
            page, pages, *words = FRAME.unpack_from(self.data, start)
            summed = self.data[start : start + 8] + self.data[start + FRAME.size : start + length]
            yield _Frame(page, pages > 0, (words[0], words[1]), (words[2], words[3]), summed)


def _read(wal: Path) -> _Log | None:
    try:
        data = wal.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < HEADER.size:
        return None
    magic, _, page_size, _, *words = HEADER.unpack_from(data)
    order = ">" if magic & BIG_ENDIAN else "<"
    return _Log(data, page_size, order, (words[0], words[1]), (words[2], words[3]))


def _is_followed(wal: Path, accepted: int) -> bool:
    log = _read(wal)
    before: _Frame | None = None
    if log is None:
        return False
    for frame in log.frames(skip=accepted):
        current = frame.salts == log.salts
        if current and before is not None and _follows(frame, before, log.order):
            return True
        before = frame if current else None
    return False


def _follows(frame: _Frame, before: _Frame, order: str) -> bool:
    """Whether a frame begins the next commit; a repetition of the frame before only pads a sector."""
    fresh = before.commits and frame.summed != before.summed
    return fresh and _sums(before.sums, frame.summed, order) == frame.sums


def _sums(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """The checksum of a frame, which continues that of the frame before it."""
    first, second = sums
    for one, other in struct.iter_unpack(f"{order}2I", data):
        first = (first + one + second) & _WORD
        second = (second + other + first) & _WORD
    return first, second


def commit(connection: apsw.Connection, path: Path) -> None:
    """Commit the transaction; after an error, make sure that the commit is never read.

    Any error is handled so, not only one of the disk: memory, too, can run out after the commit was written to the log.
    """
    try:
        connection.execute("COMMIT")
    except apsw.Error as error:
        roll_back(connection)
        if _may_be_read(connection, path) and not _is_overwritten(connection):
            raise OutcomeUnknown(str(path)) from error
        raise


def _may_be_read(connection: apsw.Connection, path: Path) -> bool:
    try:
        return ends_in_a_commit(connection, Path(f"{path}{WAL}"))
    except (apsw.Error, OSError):
        return True


def _is_overwritten(connection: apsw.Connection) -> bool:
    """Overwrite the refused commit in the log with one that changes nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.pragma("user_version", connection.pragma("user_version"))
        connection.execute("COMMIT")
    except apsw.Error:
        roll_back(connection)
        return False
    return True


def roll_back(connection: apsw.Connection) -> None:
    """Roll back the transaction, if one is open."""
    if connection.in_transaction:
        with contextlib.suppress(apsw.Error):
            connection.execute("ROLLBACK")

"""What stands in the log beside a store file that SQLite has not accepted: torn commits, and refused ones.

SQLite reads its log up to the first frame whose checksum is wrong and takes that for the torn end of a commit that was
never acknowledged. Where another commit stands behind it, it was not: each is synced before the next one begins. Then
something that was acknowledged would be lost, and nobody would know.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import apsw

HEADER: Final = struct.Struct(">8I")
FRAME: Final = struct.Struct(">6I")
# The last bit of the first word says in which order the machine that wrote it has its bytes.
BIG_ENDIAN: Final = 1
_WORD: Final = 0xFFFF_FFFF


class _Frame(NamedTuple):
    """One page in the log; `commits` where it is the last of a commit."""

    commits: bool
    salts: tuple[int, int]
    sums: tuple[int, int]
    summed: bytes


def has_torn_midst(connection: apsw.Connection, wal: Path) -> bool:
    """Whether behind what SQLite has accepted of the log there is a commit that was followed by another."""
    while True:
        accepted = _accepted(connection)
        found = _is_followed(wal, accepted)
        # Others may be writing meanwhile: only what stays true while nothing is added is true.
        if not found or _accepted(connection) == accepted:
            return found


def _accepted(connection: apsw.Connection) -> int:
    frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return frames


def ends_in_a_commit(connection: apsw.Connection, wal: Path) -> bool:
    """Whether behind what SQLite has accepted of the log there is a whole commit: who reads the log anew takes it.

    Where all of the log is in the file already it is begun anew, and nothing of it counts as accepted any longer. Until
    its new header is written the old commits stand there still, and they are taken for one: True, and nothing is new.
    """
    log = _read(wal)
    if log is None:
        return False
    accepted = _accepted(connection)
    sums = log.sums
    for frame in log.frames(behind=max(0, accepted - 1)):
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
    """A log as it stands in its file; what has other salts is of one before it."""

    data: bytes
    page_size: int
    order: str
    salts: tuple[int, int]
    sums: tuple[int, int]

    def frames(self, *, behind: int) -> Iterator[_Frame]:
        length = FRAME.size + self.page_size
        for start in range(HEADER.size + behind * length, len(self.data) - length + 1, length):
            _, pages, *words = FRAME.unpack_from(self.data, start)
            summed = self.data[start : start + 8] + self.data[start + FRAME.size : start + length]
            yield _Frame(pages > 0, (words[0], words[1]), (words[2], words[3]), summed)


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
    for frame in log.frames(behind=accepted):
        current = frame.salts == log.salts
        if current and before is not None and _follows(frame, before, log.order):
            return True
        before = frame if current else None
    return False


def _follows(frame: _Frame, before: _Frame, order: str) -> bool:
    """Whether a frame begins the next commit; where it only repeats the one before, that was to fill a sector."""
    fresh = before.commits and frame.summed != before.summed
    return fresh and _sums(before.sums, frame.summed, order) == frame.sums


def _sums(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """The checksum of a frame, which goes on from that of the frame before it."""
    first, second = sums
    for one, other in struct.iter_unpack(f"{order}2I", data):
        first = (first + one + second) & _WORD
        second = (second + other + first) & _WORD
    return first, second

"""Disk images after a power cut: everything that was synced, and any part of the rest."""

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.faults.power.recording import Deed, Done

# What a disk writes at once; of a longer piece it may have written a part.
SECTOR: Final = 512


class Loss(StrEnum):
    """What becomes of what was not synced."""

    ALL = "all"
    """Nothing of it was written."""
    END = "end"
    """It was written in order, and the end is missing."""
    SOME = "some"
    """It was written in any order, and anything may be missing."""


class _File:
    """The bytes that are surely there, and what was done since."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.since: list[Done] = []

    def sync(self) -> None:
        for done in self.since:
            _do(self.durable, done)
        self.since = []

    def survives(self, rng: random.Random, loss: Loss) -> bytes:
        data = bytearray(self.durable)
        for done in _surviving(self.since, rng, loss):
            _do(data, done)
        return bytes(data)


def _do(data: bytearray, done: Done) -> None:
    if done.deed is Deed.TRUNCATE:
        del data[done.offset :]
        return
    # Writing beyond the end fills the gap with zeros.
    data.extend(bytes(max(0, done.offset - len(data))))
    data[done.offset : done.offset + len(done.data)] = done.data


def _surviving(since: Sequence[Done], rng: random.Random, loss: Loss) -> list[Done]:
    match loss:
        case Loss.ALL:
            return []
        case Loss.END:
            kept = list(since[: rng.randint(0, len(since))])
        case Loss.SOME:
            kept = [done for done in since if rng.random() < 0.5]
    if kept and rng.random() < 0.5:
        torn = rng.randrange(len(kept)) if loss is Loss.SOME else -1
        sectors = len(kept[torn].data) // SECTOR
        kept[torn] = kept[torn]._replace(data=kept[torn].data[: SECTOR * rng.randint(0, sectors)])
    return kept


class Disk:
    """A disk as it was when so much had been done to it."""

    def __init__(self) -> None:
        self.at = 0
        self._files: dict[int, _File] = {}
        self._durable: dict[str, int] = {}
        self._names: dict[str, int] = {}

    def move_on(self, done: Sequence[Done], at: int) -> None:
        """Up to here."""
        for entry in done[self.at : at]:
            self._take(entry)
        self.at = max(self.at, at)

    def _take(self, entry: Done) -> None:
        match entry.deed:
            case Deed.NAME:
                # The inode number was reused: this is another file.
                if entry.file not in self._names.values():
                    self._files[entry.file] = _File()
                self._names[entry.name] = entry.file
            case Deed.UNNAME:
                del self._names[entry.name]
            case Deed.SYNC_NAMES:
                self._durable = dict(self._names)
            case Deed.SYNC:
                self._files[entry.file].sync()
            case Deed.WRITE | Deed.TRUNCATE:
                self._files[entry.file].since.append(entry)

    def cut_power(self, directory: Path, rng: random.Random) -> Loss:
        """Put into a directory what is there when it comes back."""
        loss: Loss = rng.choice([*Loss])
        names = self._durable if loss is Loss.ALL or rng.random() < 0.5 else self._names
        for path in directory.iterdir():
            path.unlink()
        for name, file in names.items():
            (directory / name).write_bytes(self._files[file].survives(rng, loss))
        return loss

"""The files to look at, and what is in them."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

SUFFIXES: Final = (".py", ".json", ".jsonl", ".ndjson", ".toml")
SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "build", "dist"})
# A reminder is a sentence; a file beyond this is data, and reading it would only cost time.
MAX_BYTES: Final = 8 * 1024 * 1024


class File(NamedTuple):
    """A file to read; one that was `named` is expected to be of use, the others were only come across."""

    path: Path
    named: bool


class NotReadable(Exception):
    """A path that nothing can be read from; the message says why."""

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(f"{path}: {why}")


def files_below(paths: Sequence[Path]) -> Iterator[File | NotReadable]:
    """Each file once, in the order of `paths` and then by name."""
    seen: set[str] = set()
    for path in paths:
        for found in _files(path):
            if isinstance(found, File):
                real = os.path.realpath(found.path)
                if real in seen:
                    continue
                seen.add(real)
            yield found


def _files(path: Path) -> Iterator[File | NotReadable]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        yield NotReadable(path, error.strerror)
        return
    if stat.S_ISDIR(mode):
        yield from _walk(path)
    elif not stat.S_ISREG(mode):
        yield NotReadable(path, "not a regular file")
    elif path.suffix not in SUFFIXES:
        yield NotReadable(path, f"not of a kind that is checked, which are {' '.join(SUFFIXES)}")
    else:
        yield File(path, named=True)


def _walk(folder: Path) -> Iterator[File | NotReadable]:
    # Links are not followed, so there is no way to walk in circles.
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        yield NotReadable(folder, error.strerror)
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED_FOLDERS:
                yield from _walk(folder / entry.name)
        elif entry.is_file(follow_symlinks=False) and PurePath(entry.name).suffix in SUFFIXES:
            yield File(folder / entry.name, named=False)


def content(path: Path) -> bytes | None:
    """What is in the file; None where that is too much."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotReadable(path, error.strerror) from None
    return None if len(raw) > MAX_BYTES else raw

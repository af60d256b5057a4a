"""Find the files to check, and read them."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

SUFFIXES: Final = (".py", ".json", ".jsonl", ".ndjson", ".toml")
SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "build", "dist"})
# Larger files are data rather than source or configuration, and take long to read.
MAX_BYTES: Final = 8 * 1024 * 1024


class File(NamedTuple):
    """A file to read; `named` if the caller listed it, rather than a folder that contains it."""

    path: Path
    named: bool


class NotReadable(Exception):
    """A path that cannot be read; the message gives the path and the reason."""

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(f"{path}: {why}")


def files_below(paths: Sequence[Path]) -> Iterator[File | NotReadable]:
    """Yield each file once, in the order of `paths`; the files of a folder by name."""
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
        yield NotReadable(path, f"files of this kind are not checked; the suffix must be one of {' '.join(SUFFIXES)}")
    else:
        yield File(path, named=True)


def _walk(folder: Path) -> Iterator[File | NotReadable]:
    # Symbolic links are not followed, so the walk cannot loop.
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
    """The content of the file, or None if it is larger than `MAX_BYTES`."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotReadable(path, error.strerror) from None
    return None if len(raw) > MAX_BYTES else raw

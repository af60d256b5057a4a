"""Everything below a folder, in order, without following links."""

import os
import stat
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.tools.offload import Halt
from sideband.tools.refusal import Refused, explained
from sideband.tools.root import Place, Root

# Shown, but not entered on the way: what is in them was made by programs and is not what anybody looks for.
SKIPPED_FOLDERS: Final = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        ".tox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        "__pycache__",
        "node_modules",
    }
)


class Kind(StrEnum):
    """What an entry of a folder is; `unreadable` is a folder that could not be entered."""

    FILE = "file"
    FOLDER = "dir"
    LINK = "link"
    OTHER = "other"
    UNREADABLE = "unreadable"


KINDS: Final[Mapping[int, Kind]] = MappingProxyType(
    {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}
)


class Entry(NamedTuple):
    """One entry; `target` is where a link says it leads."""

    place: Place
    kind: Kind
    size: int
    target: str = ""


def refuse_git(place: Place) -> None:
    if place.in_git:
        raise Refused(f"{place} is git's own data; ask git for what is in it with run")


def walk(root: Root, start: Place, halt: Halt, *, depth: int | None = None) -> Iterator[Entry]:
    """What is in `start` and, down to `depth` levels (None: all), in its folders; a folder comes before its content."""
    with explained(start):
        pending = _content(root, start)[::-1]
    while pending:
        halt.check()
        entry = pending.pop()
        yield entry
        level = len(entry.place.parts) - len(start.parts)
        if entry.kind is not Kind.FOLDER or level == depth or entry.place.parts[-1] in SKIPPED_FOLDERS:
            continue
        try:
            pending.extend(_content(root, entry.place)[::-1])
        except OSError:
            yield entry._replace(kind=Kind.UNREADABLE)


def _content(root: Root, place: Place) -> list[Entry]:
    with root.folder(place.parts) as folder, os.scandir(folder) as listing:
        names = sorted(entry.name for entry in listing)
        return [entry for name in names if (entry := _entry(folder, place, name))]


def _entry(folder: int, parent: Place, name: str) -> Entry | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = KINDS.get(stat.S_IFMT(status.st_mode), Kind.OTHER)
        target = os.readlink(name, dir_fd=folder) if kind is Kind.LINK else ""
    except FileNotFoundError:
        # Deleted since it was listed.
        return None
    return Entry(Place((*parent.parts, name)), kind, status.st_size, target)

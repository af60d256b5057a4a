"""The tools `read_file` and `list_dir`, and the walk over a folder that `search` also uses."""

import os
import stat
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import UNSET

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.editor import Editor, current, editor_of
from sideband.tools.root import Root, WorkspacePath
from sideband.tools.seen import Seen
from sideband.tools.text import (
    LINE_END,
    Caps,
    decoded,
    is_binary,
    line_count,
    line_start,
    printable,
    size,
    whole_characters,
)
from sideband.tools.tool import Halt, ListDir, ReadFile, Refused, WorkspaceTool, explained, offload

# Listed but not entered: their content is generated.
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


class EntryKind(StrEnum):
    """What a folder entry is; `unreadable` is a folder that could not be opened."""

    FILE = "file"
    FOLDER = "dir"
    LINK = "link"
    OTHER = "other"
    UNREADABLE = "unreadable"


ENTRY_KINDS: Final[Mapping[int, EntryKind]] = MappingProxyType(
    {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFLNK: EntryKind.LINK}
)


class FolderEntry(NamedTuple):
    """One folder entry; `target` is the target of a link."""

    place: WorkspacePath
    kind: EntryKind
    size: int
    target: str = ""


def refuse_git(place: WorkspacePath) -> None:
    if place.in_git:
        raise Refused(f"{place} is git's own data; use run to ask git for its content")


def walk(root: Root, start: WorkspacePath, halt: Halt, *, depth: int | None = None) -> Iterator[FolderEntry]:
    """The entries below `start`, sorted, down to `depth` levels (None: all); a folder precedes its content."""
    with explained(start):
        pending = _content(root, start)[::-1]
    while pending:
        halt.check()
        entry = pending.pop()
        yield entry
        level = len(entry.place.parts) - len(start.parts)
        if entry.kind is not EntryKind.FOLDER or level == depth or entry.place.parts[-1] in SKIPPED_FOLDERS:
            continue
        try:
            pending.extend(_content(root, entry.place)[::-1])
        except OSError:
            yield entry._replace(kind=EntryKind.UNREADABLE)


def _content(root: Root, place: WorkspacePath) -> list[FolderEntry]:
    with root.folder(place.parts) as folder, os.scandir(folder) as listing:
        names = sorted(entry.name for entry in listing)
        return [entry for name in names if (entry := _entry(folder, place, name))]


def _entry(folder: int, parent: WorkspacePath, name: str) -> FolderEntry | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = ENTRY_KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
        target = os.readlink(name, dir_fd=folder) if kind is EntryKind.LINK else ""
    except FileNotFoundError:
        # Deleted since the folder was listed.
        return None
    return FolderEntry(WorkspacePath((*parent.parts, name)), kind, status.st_size, target)


def read_file(root: Root, seen: Seen, caps: Caps) -> WorkspaceTool[ReadFile]:
    def read(arguments: ReadFile, editor: Editor | None, halt: Halt) -> ToolOutput:
        place = root.resolve(arguments.path)
        since = seen.writes(place)
        content = current(root, place, editor, halt)
        halt.check()
        output = _shown(place, content.data, arguments, caps)
        seen.read(place, content, since=since)
        return output

    async def perform(arguments: ReadFile, context: ToolContext) -> ToolOutput:
        editor = editor_of(context)
        return await offload(partial(read, arguments, editor), waits=editor is not None)

    return WorkspaceTool(
        name="read_file",
        description=(
            "Read a text file of the workspace, all of it or the lines from start to end. The text comes as it is, "
            "without line numbers; a first line in brackets says which lines these are when they are not all. "
            f"At most {caps.read_bytes} bytes are given at once."
        ),
        arguments=ReadFile,
        idempotent=True,
        perform=perform,
        watcher=seen,
    )


def _shown(place: WorkspacePath, data: bytes, arguments: ReadFile, caps: Caps) -> ToolOutput:
    if is_binary(data):
        raise Refused(f"{place} is a binary file of {len(data)} bytes, not text; look at it with run: file, xxd")
    if not data:
        return ToolOutput(text="[the file is empty]", data={"path": str(place)})
    count = line_count(data)
    first, last = _range(place, arguments, count)
    start = line_start(data, first)
    wanted = (len(data) if last == count else line_start(data, last + 1)) - start
    given = _beginning(data[start : start + min(wanted, caps.read_bytes)], wanted, caps.read_bytes)
    text, valid = decoded(given)
    notes = []
    if len(given) < wanted:
        notes.append(_truncation(given, wanted, first, count))
    elif (first, last) != (1, count):
        notes.append(f"lines {first}-{last} of {count}")
    if not valid:
        notes.append("not valid UTF-8: \ufffd replaces invalid bytes")
    header = f"[{'; '.join(notes)}]\n" if notes else ""
    original = wanted if len(given) < wanted else None
    return ToolOutput(text=header + text, original_bytes=original, data={"path": str(place)})


def _beginning(piece: bytes, wanted: int, limit: int) -> bytes:
    """The part of `piece` that is shown in at most `limit` bytes; `piece` begins a text of `wanted` bytes."""
    if len(piece) < wanted:
        piece = whole_characters(piece)
    if size(piece.decode("utf-8", "replace")) > limit:
        # Each invalid byte is shown as U+FFFD, which has three bytes.
        piece = whole_characters(piece[: limit // 3])
    if len(piece) == wanted:
        return piece
    # End at a line end, so that the next call can continue there; a single line that is too long is split.
    return piece[: piece.rfind(LINE_END) + 1] or piece


def _range(place: WorkspacePath, arguments: ReadFile, count: int) -> tuple[int, int]:
    last = count if arguments.end is UNSET else arguments.end
    if arguments.start > count:
        raise Refused(f"{place} has only {count} lines, start is {arguments.start}")
    if arguments.start > last:
        raise Refused(f"end is {last}, which is before start, {arguments.start}")
    return arguments.start, min(last, count)


def _truncation(given: bytes, wanted: int, first: int, count: int) -> str:
    sizes = f"{len(given)} of {wanted} bytes"
    if not given.endswith(LINE_END):
        return f"truncated: the beginning of line {first} of {count}, {sizes}"
    last = first + given.count(LINE_END) - 1
    return f"truncated: lines {first}-{last} of {count}, {sizes}; read on with start={last + 1}"


def list_dir(root: Root, caps: Caps) -> WorkspaceTool[ListDir]:
    def listed(arguments: ListDir, halt: Halt) -> ToolOutput:
        place = root.resolve(arguments.path)
        refuse_git(place)
        lines = [_entry_line(entry, place) for entry in walk(root, place, halt, depth=arguments.depth)]
        text = "".join(lines[: caps.list_entries])
        data = {"path": str(place), "entries": len(lines)}
        if len(lines) <= caps.list_entries:
            return ToolOutput(text=text or "[the folder is empty]", data=data)
        whole = sum(map(size, lines))
        mark = f"[truncated: {caps.list_entries} of {len(lines)} entries, {size(text)} of {whole} bytes]\n"
        return ToolOutput(text=mark + text, original_bytes=whole, data=data)

    async def perform(arguments: ListDir, _: ToolContext) -> ToolOutput:
        return await offload(partial(listed, arguments))

    return WorkspaceTool(
        name="list_dir",
        description=(
            "List a folder of the workspace, hidden entries included: kind, size in bytes and name of each, sorted by "
            "name. Folders like .git and node_modules are shown but not entered."
        ),
        arguments=ListDir,
        idempotent=True,
        perform=perform,
    )


def _entry_line(entry: FolderEntry, below: WorkspacePath) -> str:
    name = str(WorkspacePath(entry.place.parts[len(below.parts) :]))
    match entry.kind:
        case EntryKind.FILE:
            return f"file {entry.size:>10} {name}\n"
        case EntryKind.LINK:
            name = f"{name} -> {printable(entry.target)}"
        case EntryKind.FOLDER:
            name = f"{name}/"
        case _:
            pass
    return f"{entry.kind:<15} {name}\n"

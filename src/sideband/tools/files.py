"""Looking at files and folders, and writing whole files."""

from functools import partial
from typing import NamedTuple

from msgspec import UNSET

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.arguments import ListDir, ReadFile, WriteFile
from sideband.tools.atomic import existing, put, refuse_unwritable
from sideband.tools.offload import Halt, offload
from sideband.tools.output import Caps, printable, size
from sideband.tools.refusal import Refused
from sideband.tools.root import Content, Place, Root
from sideband.tools.seen import Seen
from sideband.tools.text import LINE_END, decoded, is_binary, line_count, line_start, whole_characters
from sideband.tools.tool import WorkspaceTool
from sideband.tools.walk import Entry, Kind, refuse_git, walk


def read_file(root: Root, seen: Seen, caps: Caps) -> WorkspaceTool[ReadFile]:
    def read(arguments: ReadFile, halt: Halt) -> ToolOutput:
        place = root.resolve(arguments.path)
        since = seen.writes(place)
        content = root.read(place)
        halt.check()
        output = _shown(place, content.data, arguments, caps)
        seen.read(place, content, since=since)
        return output

    async def perform(arguments: ReadFile, _: ToolContext) -> ToolOutput:
        return await offload(partial(read, arguments))

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
    )


def _shown(place: Place, data: bytes, arguments: ReadFile, caps: Caps) -> ToolOutput:
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
        notes.append("not valid UTF-8: \ufffd stands for what could not be read")
    header = f"[{'; '.join(notes)}]\n" if notes else ""
    original = wanted if len(given) < wanted else None
    return ToolOutput(text=header + text, original_bytes=original, data={"path": str(place)})


def _beginning(piece: bytes, wanted: int, limit: int) -> bytes:
    """As much of `piece`, the beginning of `wanted` bytes, as is text of at most `limit` bytes."""
    if len(piece) < wanted:
        piece = whole_characters(piece)
    if size(piece.decode("utf-8", "replace")) > limit:
        # What is no UTF-8 is shown by a character of three bytes.
        piece = whole_characters(piece[: limit // 3])
    if len(piece) == wanted:
        return piece
    # Whole lines can be read on from; a single line that is too long cannot.
    return piece[: piece.rfind(LINE_END) + 1] or piece


def _range(place: Place, arguments: ReadFile, count: int) -> tuple[int, int]:
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


class _Written(NamedTuple):
    place: Place
    size: int
    created: bool


def write_file(root: Root, seen: Seen) -> WorkspaceTool[WriteFile]:
    def write(arguments: WriteFile, halt: Halt) -> _Written:
        place = root.resolve(arguments.path)
        data = arguments.content.encode("utf-8")
        with seen.writing:
            before = existing(root, place)
            refuse_unwritable(place, before)
            if before is not None:
                _refuse_unread(seen, place, before)
            put(root, seen, place, data, over=before, halt=halt)
        return _Written(place, len(data), created=before is None)

    async def perform(arguments: WriteFile, context: ToolContext) -> ToolOutput:
        written = await offload(
            partial(write, arguments),
            landed=lambda done: context.applied(f"{'created' if done.created else 'wrote'} {done.place}"),
        )
        verb = "created" if written.created else "wrote"
        return ToolOutput(
            text=f"{verb} {written.place}, {written.size} bytes",
            data={"path": str(written.place), "bytes": written.size, "created": written.created},
        )

    return WorkspaceTool(
        name="write_file",
        description=(
            "Write a whole file of the workspace in one step, making missing folders. A file that is there already is "
            "only replaced when it was read before and has not changed since. To change a part of it use edit_file."
        ),
        arguments=WriteFile,
        idempotent=False,
        perform=perform,
    )


def _refuse_unread(seen: Seen, place: Place, before: Content) -> None:
    if not seen.knows(place) and is_binary(before.data):
        raise Refused(f"{place} is a binary file, which cannot be read first; move it away with run to replace it")
    seen.refuse_unknown(place, before)


def list_dir(root: Root, caps: Caps) -> WorkspaceTool[ListDir]:
    def listed(arguments: ListDir, halt: Halt) -> ToolOutput:
        place = root.resolve(arguments.path)
        refuse_git(place)
        lines = [_line(entry, place) for entry in walk(root, place, halt, depth=arguments.depth)]
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


def _line(entry: Entry, below: Place) -> str:
    name = str(Place(entry.place.parts[len(below.parts) :]))
    match entry.kind:
        case Kind.FILE:
            return f"file {entry.size:>10} {name}\n"
        case Kind.LINK:
            name = f"{name} -> {printable(entry.target)}"
        case Kind.FOLDER:
            name = f"{name}/"
        case _:
            pass
    return f"{entry.kind:<15} {name}\n"

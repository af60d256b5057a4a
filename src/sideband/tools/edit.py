"""Replacing an exact piece of text, and saying why it could not be done."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.arguments import EditFile
from sideband.tools.atomic import put, refuse_unwritable
from sideband.tools.offload import Halt, offload
from sideband.tools.output import cut
from sideband.tools.refusal import Refused
from sideband.tools.root import Place, Root
from sideband.tools.seen import Seen
from sideband.tools.text import LINE_END, line_end, lines_in
from sideband.tools.tool import WorkspaceTool

# Comparing lines is slow; a hint is not worth more than this.
MAX_COMPARED_LINES: Final = 2000
MAX_COMPARED_CHARACTERS: Final = 200
MAX_LISTED_LINES: Final = 5


class _Edited(NamedTuple):
    place: Place
    replacements: int
    at: str

    @property
    def report(self) -> str:
        plural = "" if self.replacements == 1 else "s"
        return f"edited {self.place}, {self.replacements} replacement{plural} at {self.at}"


def edit_file(root: Root, seen: Seen) -> WorkspaceTool[EditFile]:
    def edit(arguments: EditFile, halt: Halt) -> _Edited:
        place = root.resolve(arguments.path)
        with seen.writing:
            content = root.read(place)
            refuse_unwritable(place, content)
            seen.refuse_unknown(place, content)
            old, new = arguments.old_string.encode("utf-8"), arguments.new_string.encode("utf-8")
            found = _occurrences(content.data, old)
            _refuse_unless_clear(place, content.data, arguments, found)
            edited = _Edited(place, content.data.count(old), found.at(content.data))
            put(root, seen, place, content.data.replace(old, new), over=content, halt=halt)
        return edited

    async def perform(arguments: EditFile, context: ToolContext) -> ToolOutput:
        edited = await offload(partial(edit, arguments), landed=lambda done: context.applied(done.report))
        return ToolOutput(text=edited.report, data={"path": str(edited.place), "replacements": edited.replacements})

    return WorkspaceTool(
        name="edit_file",
        description=(
            "Replace an exact piece of text in a file of the workspace that was read before and has not changed since. "
            "The text to replace must be there exactly once, unless replace_all is set."
        ),
        arguments=EditFile,
        idempotent=False,
        perform=perform,
    )


class _Occurrences(NamedTuple):
    """How often it is there, and where it begins for the first times."""

    times: int
    first: Sequence[int]

    def at(self, data: bytes) -> str:
        numbers = dict.fromkeys(data.count(LINE_END, 0, offset) + 1 for offset in self.first)
        more = " and more" if self.times > len(self.first) else ""
        return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}{more}"


def _occurrences(data: bytes, old: bytes) -> _Occurrences:
    """Where it is; UTF-8 makes a match of bytes a match of whole characters. Two that overlap are two, not one."""
    first: list[int] = []
    offset = data.find(old)
    while offset >= 0 and len(first) < MAX_LISTED_LINES:
        first.append(offset)
        offset = data.find(old, offset + 1)
    return _Occurrences(max(data.count(old), len(first)), first)


def _refuse_unless_clear(place: Place, data: bytes, arguments: EditFile, found: _Occurrences) -> None:
    if arguments.old_string == arguments.new_string:
        raise Refused("old_string and new_string are the same; there is nothing to change")
    if not found.times:
        raise Refused(f"old_string is not in {place}{_near(data, arguments.old_string)}")
    if found.times > 1 and not arguments.replace_all:
        raise Refused(
            f"old_string is {found.times} times in {place}, at {found.at(data)}; "
            "add lines around it until it is there once, or set replace_all"
        )


def _near(data: bytes, old: str) -> str:
    if b"\r\n" in data and "\n" in old and old.replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-8") in data:
        return "; the lines of the file end in \\r\\n, those of old_string in \\n"
    wanted = next((line for line in map(str.strip, old.split("\n")) if line), "")
    if wanted and (number := _line_like(data, wanted)):
        return f"; {_line(number, wanted)} is like its first line, so white space or what follows differs"
    compared = [
        data[start:end].decode("utf-8", "replace").strip()[:MAX_COMPARED_CHARACTERS]
        for start, end in islice(lines_in(data), MAX_COMPARED_LINES)
    ]
    nearest = get_close_matches(wanted[:MAX_COMPARED_CHARACTERS], compared, n=1)
    if not nearest:
        return "; no line of it is like its first line"
    return f"; nearest is {_line(compared.index(nearest[0]) + 1, nearest[0])}"


def _line_like(data: bytes, wanted: str) -> int | None:
    """The number of the first line that is `wanted`, apart from white space around it."""
    needle = wanted.encode("utf-8")
    found = data.find(needle)
    while found >= 0:
        start, end = data.rfind(LINE_END, 0, found) + 1, line_end(data, found)
        if data[start:end].decode("utf-8", "replace").strip() == wanted:
            return data.count(LINE_END, 0, start) + 1
        found = data.find(needle, end)
    return None


def _line(number: int, line: str) -> str:
    return f"line {number}, {cut(line, MAX_COMPARED_CHARACTERS)!r},"

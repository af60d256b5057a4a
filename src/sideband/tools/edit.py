"""Replacing an exact piece of text, and saying why it could not be done."""

from difflib import get_close_matches
from functools import partial
from typing import Final, NamedTuple

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.arguments import EditFile
from sideband.tools.atomic import put, refuse_unwritable
from sideband.tools.offload import Halt, offload
from sideband.tools.output import cut
from sideband.tools.refusal import Refused
from sideband.tools.root import Place, Root
from sideband.tools.seen import Seen
from sideband.tools.text import lines_of
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
            found = _occurrences(content.data, old, overlapping=not arguments.replace_all)
            _refuse_unless_clear(place, content.data, arguments, found)
            edited = _Edited(place, len(found), _at(content.data, found))
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


def _occurrences(data: bytes, old: bytes, *, overlapping: bool) -> list[int]:
    """Where it is; UTF-8 makes a match of bytes a match of whole characters. Overlapping ones are ambiguous, too."""
    offsets = []
    offset = data.find(old)
    while offset >= 0:
        offsets.append(offset)
        offset = data.find(old, offset + (1 if overlapping else len(old)))
    return offsets


def _refuse_unless_clear(place: Place, data: bytes, arguments: EditFile, found: list[int]) -> None:
    if arguments.old_string == arguments.new_string:
        raise Refused("old_string and new_string are the same; there is nothing to change")
    if not found:
        raise Refused(f"old_string is not in {place}{_near(data, arguments.old_string)}")
    if len(found) > 1 and not arguments.replace_all:
        raise Refused(
            f"old_string is {len(found)} times in {place}, at {_at(data, found)}; "
            "add lines around it until it is there once, or set replace_all"
        )


def _near(data: bytes, old: str) -> str:
    if b"\r\n" in data and "\n" in old and old.replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-8") in data:
        return "; the lines of the file end in \\r\\n, those of old_string in \\n"
    wanted = next((line.strip() for line in lines_of(old) if line.strip()), "")
    lines = [line.strip() for line in lines_of(data.decode("utf-8", "replace"))]
    if wanted and wanted in lines:
        return f"; {_line(lines, wanted)} is like its first line, so white space or what follows differs"
    compared = [line[:MAX_COMPARED_CHARACTERS] for line in lines[:MAX_COMPARED_LINES]]
    nearest = get_close_matches(wanted[:MAX_COMPARED_CHARACTERS], compared, n=1)
    return f"; nearest is {_line(compared, nearest[0])}" if nearest else "; no line of it is like its first line"


def _line(lines: list[str], line: str) -> str:
    return f"line {lines.index(line) + 1}, {cut(line, MAX_COMPARED_CHARACTERS)!r},"


def _at(data: bytes, offsets: list[int]) -> str:
    numbers = dict.fromkeys(data.count(b"\n", 0, offset) + 1 for offset in offsets[:MAX_LISTED_LINES])
    more = " and more" if len(offsets) > MAX_LISTED_LINES else ""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}{more}"

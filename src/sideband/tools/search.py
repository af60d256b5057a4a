"""Searching the text files of the workspace, line by line."""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from msgspec import UNSET

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.arguments import Search
from sideband.tools.globs import Glob
from sideband.tools.offload import Halt, offload
from sideband.tools.output import Caps, size
from sideband.tools.patterns import Match, literal, regular
from sideband.tools.refusal import Refused, explained
from sideband.tools.root import Place, Root
from sideband.tools.text import is_binary, line_end
from sideband.tools.tool import WorkspaceTool
from sideband.tools.walk import Kind, refuse_git, walk

# Source is smaller; what is larger is data that one search should not spend its time on.
MAX_SEARCHED_BYTES: Final = 16 * 1024 * 1024
CARRIAGE_RETURN: Final = ord("\r")
# How long a search that is stopped may take to notice.
ENDING_SECONDS: Final = 10


class _Findings:
    """What was found so far; complete only when the search came to its end."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._shown: list[str] = []
        self._whole_bytes = 0
        self._matches = 0
        self._files = 0
        self.searched = 0
        self.skipped = 0

    def add(self, place: Place, data: bytes, matches: Iterable[Match], halt: Halt) -> None:
        """The matches of one file; of those that are not shown only the length is looked at."""
        earlier = self._matches
        around = size(f"{place}:: \n")
        for number, start, column in matches:
            halt.check()
            end = line_end(data, start)
            while end > start and data[end - 1] == CARRIAGE_RETURN:
                end -= 1
            self._whole_bytes += around + len(str(number)) + end - start
            if len(self._shown) < self._caps.search_matches:
                line = data[start:end].decode("utf-8", "replace")
                self._shown.append(f"{place}:{number}: {_excerpt(line, column, self._caps.line_characters)}\n")
            self._files += self._matches == earlier
            self._matches += 1

    def output(self, stopped: str = "") -> ToolOutput:
        """The matches; `stopped` says why there may be more."""
        text = "".join(self._shown)
        notes = [stopped] if stopped else []
        truncated = size(text) < self._whole_bytes
        if truncated:
            notes.append(
                f"truncated: {len(self._shown)} of {self._matches} matches in {self._files} files, "
                f"{size(text)} of {self._whole_bytes} bytes; narrow the pattern, path or glob"
            )
        elif self._matches:
            notes.append(f"matches: {self._matches}, files with one: {self._files}")
        else:
            notes.append(f"no match, files searched: {self.searched}")
        if self.skipped:
            notes.append(f"too large or unreadable, not searched: {self.skipped}")
        return ToolOutput(
            text=f"[{'; '.join(notes)}]\n{text}",
            is_error=bool(stopped),
            original_bytes=self._whole_bytes if truncated else None,
            data={"matches": self._matches, "files": self._files},
        )


def _excerpt(line: str, column: int, limit: int) -> str:
    """A long line around its match."""
    if len(line) <= limit:
        return line
    start = max(0, min(column - limit // 4, len(line) - limit))
    end = start + limit
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def search(root: Root, caps: Caps) -> WorkspaceTool[Search]:
    def searched(arguments: Search, findings: _Findings, halt: Halt) -> None:
        place = root.resolve(arguments.path)
        refuse_git(place)
        if "\n" in arguments.pattern:
            raise Refused("pattern has a line break in it, but lines are searched one by one")
        glob = None if arguments.glob is UNSET else Glob(arguments.glob)
        matching = (
            regular(arguments.pattern, halt, seconds=caps.search_seconds)
            if arguments.regex
            else literal(arguments.pattern)
        )
        with matching as matches:
            for file, data in _texts(root, place, glob, findings, halt):
                findings.add(file, data, matches(data), halt)

    async def perform(arguments: Search, _: ToolContext) -> ToolOutput:
        findings = _Findings(caps)
        try:
            async with asyncio.timeout(caps.search_seconds):
                await offload(partial(searched, arguments, findings))
        except TimeoutError:
            return findings.output(f"stopped after {caps.search_seconds:g} s, there may be more; narrow the search")
        return findings.output()

    return WorkspaceTool(
        name="search",
        description=(
            "Search the text files of the workspace for lines with a literal text or, with regex, a regular "
            f"expression. Gives path:line: text for up to {caps.search_matches} matches, and how many there are. "
            "Binary files and folders like .git, node_modules and .venv are left out."
        ),
        arguments=Search,
        idempotent=True,
        perform=perform,
        seconds=caps.search_seconds + ENDING_SECONDS,
    )


def _texts(
    root: Root, place: Place, glob: Glob | None, findings: _Findings, halt: Halt
) -> Iterator[tuple[Place, bytes]]:
    for file in _files(root, place, findings, halt):
        if glob is not None and not glob.matches(file.parts):
            continue
        try:
            data = root.read(file, limit=MAX_SEARCHED_BYTES).data
        except Refused:
            findings.skipped += 1
            continue
        if data and not is_binary(data):
            findings.searched += 1
            yield file, data


def _files(root: Root, place: Place, findings: _Findings, halt: Halt) -> Iterator[Place]:
    with explained(place):
        is_file = root.full_path(place).is_file()
    if is_file:
        yield place
        return
    for entry in walk(root, place, halt):
        if entry.kind is Kind.FILE:
            yield entry.place
        elif entry.kind is Kind.UNREADABLE:
            findings.skipped += 1

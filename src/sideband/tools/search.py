"""The tool `search`: literal text is matched in this process, regular expressions in a child process."""

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from math import ceil
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from msgspec import UNSET

from sideband.ports import ToolContext, ToolOutput
from sideband.tools import matcher
from sideband.tools.read import EntryKind, refuse_git, walk
from sideband.tools.root import Root, WorkspacePath
from sideband.tools.text import LINE_END, Caps, is_binary, line_end, size
from sideband.tools.tool import Halt, Refused, Search, WorkspaceTool, explained, offload

MATCHER: Final = (sys.executable, "-I", "-S", "-X", "utf8", str(Path(matcher.__file__)))


class Match(NamedTuple):
    """A matching line: its number from 1, its byte offset, and the character offset of its first match."""

    number: int
    start: int
    column: int


# An iterator, because a large file may have millions of matches.
Matching: TypeAlias = Callable[[bytes], Iterator[Match]]


@contextmanager
def literal(text: str) -> Iterator[Matching]:
    needle = text.encode("utf-8")

    def matches(data: bytes) -> Iterator[Match]:
        number, start, found = 1, 0, data.find(needle)
        while found >= 0:
            end = line_end(data, start)
            if end < found:
                number += data.count(LINE_END, start, found)
                start, end = data.rfind(LINE_END, start, found) + 1, line_end(data, found)
            yield Match(number, start, len(data[start:found].decode("utf-8", "replace")))
            number, start = number + 1, end + 1
            found = data.find(needle, start)

    yield matches


@contextmanager
def regular(pattern: str, halt: Halt, *, seconds: float) -> Iterator[Matching]:
    """Match in a child process, which a halt kills: `re` can take exponential time and does not release the GIL."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as answers:
        process = subprocess.Popen(  # noqa: S603 - this interpreter and our own file; the pattern is sent to it as data
            [*MATCHER, str(ceil(seconds) + 1)],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        try:
            with halt.stopping(process.kill):
                yield _conversation(ours, answers, pattern, halt)
        finally:
            process.kill()
            process.wait()


def _conversation(requests: socket.socket, answers: BinaryIO, pattern: str, halt: Halt) -> Matching:
    def ask(payload: bytes) -> bytes:
        answer = None
        with suppress(ConnectionError):
            requests.sendall(matcher.frame(payload))
            answer = matcher.receive(answers)
        if answer is None:
            halt.check()
            raise Refused("matching the pattern took too long or failed; try a simpler pattern")
        return answer

    def matches(data: bytes) -> Iterator[Match]:
        return map(Match._make, matcher.FOUND.iter_unpack(ask(data)))

    if wrong := ask(pattern.encode("utf-8")):
        raise Refused(f"pattern is not a valid regular expression: {wrong.decode('utf-8')}")
    return matches


MAX_ALTERNATIVES: Final = 64
BRACES: Final = re.compile(r"\{([^{}]*)\}")


class Glob:
    """A glob: `*`, `?` and `[…]` within a name, `**` for any folders, `{a,b}` for either.

    A glob without a slash is matched against the file name, one with a slash against the path in the workspace.
    """

    def __init__(self, glob: str) -> None:
        self._alternatives = tuple(_parts(alternative) for alternative in _alternatives(glob))

    def matches(self, path: Sequence[str]) -> bool:
        return any(_matches(path, parts) for parts in self._alternatives)


def _alternatives(glob: str) -> list[str]:
    pending: list[str] = [glob]
    done: list[str] = []
    while pending:
        if len(pending) + len(done) > MAX_ALTERNATIVES:
            raise Refused(f"glob {glob!r} expands to more than {MAX_ALTERNATIVES} patterns; search for fewer at once")
        one = pending.pop()
        braces = BRACES.search(one)
        if braces is None:
            done.append(one)
        else:
            pending.extend(one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(","))
    return done


def _parts(glob: str) -> tuple[str, ...]:
    return tuple(part for part in glob.removeprefix("./").split("/") if part) if "/" in glob else ("**", glob)


def _matches(path: Sequence[str], parts: Sequence[str]) -> bool:
    """Match name by name, tracking all pattern positions at once, so that no choice is tried twice."""
    fitting = _with_empty_folders({0}, parts)
    for name in path:
        fitting = _with_empty_folders(
            {
                position if parts[position] == "**" else position + 1
                for position in fitting
                if position < len(parts) and (parts[position] == "**" or fnmatchcase(name, parts[position]))
            },
            parts,
        )
    return len(parts) in fitting


def _with_empty_folders(positions: set[int], parts: Sequence[str]) -> set[int]:
    """Skip over every `**`, which also matches no folder at all."""
    reached = set(positions)
    for position in range(len(parts)):
        if position in reached and parts[position] == "**":
            reached.add(position + 1)
    return reached


# Source files are smaller; larger files are data and would take too much of the time.
MAX_SEARCHED_BYTES: Final = 16 * 1024 * 1024
CARRIAGE_RETURN: Final = ord("\r")
# How long a search may take to end after its time-out.
ENDING_SECONDS: Final = 10


class _Findings:
    """The matches found so far; complete only when the search has ended."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._shown: list[str] = []
        self._whole_bytes = 0
        self._matches = 0
        self._files = 0
        self.searched = 0
        self.skipped = 0

    def add(self, place: WorkspacePath, data: bytes, matches: Iterable[Match], halt: Halt) -> None:
        """Add the matches of one file; those beyond the limit are only counted."""
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
        """The result of the tool; `stopped` says why there may be more matches."""
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
    """The part of a long line around its match."""
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
            raise Refused("pattern contains a line break, but each line is searched separately")
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
    root: Root, place: WorkspacePath, glob: Glob | None, findings: _Findings, halt: Halt
) -> Iterator[tuple[WorkspacePath, bytes]]:
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


def _files(root: Root, place: WorkspacePath, findings: _Findings, halt: Halt) -> Iterator[WorkspacePath]:
    with explained(place):
        is_file = root.full_path(place).is_file()
    if is_file:
        yield place
        return
    for entry in walk(root, place, halt):
        if entry.kind is EntryKind.FILE:
            yield entry.place
        elif entry.kind is EntryKind.UNREADABLE:
            findings.skipped += 1

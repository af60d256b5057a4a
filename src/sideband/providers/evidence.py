"""Where the payload of an event holds evidence of a failure, and where it must not be looked for.

The input of a tool, the words of people and models, and the content of files that a tool shows are no evidence: a file
may contain any error message.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from sideband.core.hookevents import SessionEvent

_WORD: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
# A tool shows files if its name contains one of these words.
DISPLAYING: Final = frozenset(
    {
        "browse",
        "cat",
        "display",
        "fetch",
        "find",
        "glob",
        "grep",
        "head",
        "less",
        "list",
        "lookup",
        "ls",
        "open",
        "read",
        "rg",
        "search",
        "show",
        "tail",
        "tree",
        "view",
    }
)
# Or one word of each of these two sets.
GETTING: Final = frozenset({"download", "get", "load"})
FILES: Final = frozenset(
    {"content", "contents", "document", "documents", "file", "files", "page", "pages", "resource", "resources", "url"}
)
# Tools that repeat what they wrote, and tools that repeat what another model said.
WRITING: Final = frozenset({"append", "apply", "create", "diff", "edit", "insert", "patch", "replace", "save", "write"})
TALKING: Final = frozenset({"agent", "critic", "delegate", "judge", "reviewer", "subagent"})
# The output of these tools is evidence.
DIAGNOSING: Final = frozenset({"diagnostic", "diagnostics", "lints", "problems"})

# Where a command line is split, and what may precede a program.
_SEPARATOR: Final = r"&&|\|\|?|;|\n"
_ASSIGNMENT: Final = r"[A-Za-z_]\w*="
_PREFIXES: Final = frozenset({"command", "env", "nice", "sudo", "time"})
# Programs without output of their own, which are ignored.
_MOVES: Final = frozenset({"cd", "popd", "pushd", "set", "export"})
PROGRAMS: Final = frozenset(
    {
        "ack",
        "ag",
        "awk",
        "bat",
        "cat",
        "cut",
        "diff",
        "echo",
        "egrep",
        "fd",
        "fgrep",
        "file",
        "find",
        "grep",
        "head",
        "jq",
        "less",
        "ls",
        "more",
        "nl",
        "printf",
        "rg",
        "sed",
        "sort",
        "stat",
        "strings",
        "tail",
        "tree",
        "uniq",
        "wc",
        "xxd",
        "yq",
        "zcat",
        "zgrep",
    }
)
GIT_VIEWS: Final = frozenset({"blame", "cat-file", "diff", "grep", "log", "show", "status"})


def shows_files(tool: str, command: str = "") -> bool:
    """Whether the output of this tool, or of the command it ran, only shows the content of files."""
    words = _words(tool)
    if words & DIAGNOSING:
        return False
    return bool(words & DISPLAYING or (words & GETTING and words & FILES)) or _only_displays(command)


def only_repeats(tool: str) -> bool:
    """Whether the text of this tool repeats what it wrote to a file, or what another model said."""
    return bool(_words(tool) & (WRITING | TALKING))


def command_of(args: Mapping[str, object]) -> str:
    """The command line among the arguments of a tool, or an empty string."""
    for name in ("command", "cmd", "script"):
        match args.get(name):
            case str() as line:
                return line
            case list() | tuple() as words:
                return " ".join(word for word in words if isinstance(word, str))
            case _:
                continue
    return ""


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in re.findall(_WORD, name))


def _only_displays(command: str) -> bool:
    programs = [program for part in re.split(_SEPARATOR, command) if (program := _program(part.split()))]
    return bool(programs) and all(_displays(program) for program in programs)


def _program(words: list[str]) -> tuple[str, str] | None:
    """The program and its first argument in one part of a command line; None if it has no program of interest."""
    while words and (words[0] in _PREFIXES or re.match(_ASSIGNMENT, words[0])):
        words = words[1:]
    if not words or words[0] in _MOVES:
        return None
    return words[0].rpartition("/")[2], words[1] if len(words) > 1 else ""


def _displays(program: tuple[str, str]) -> bool:
    name, argument = program
    return name in PROGRAMS or (name == "git" and argument in GIT_VIEWS)


# Bounds of the search; a payload may contain itself, or share its parts.
MAX_DEPTH: Final = 8
MAX_VALUES: Final = 4_000

# The fields that hold the output of a tool.
OUTPUTS: Final = ("result", "output", "stdout", "stderr", "text", "content")
# The fields that hold the input of a tool, or the words of a person or a model.
INPUTS: Final = frozenset(
    {
        "args",
        "arguments",
        "cmd",
        "command",
        "input",
        "messages",
        "params",
        "prompt",
        "reply",
        "request",
        "task",
        "tool_input",
    }
)
REPORTS: Final = ("tool_results", "results")
SPEAKERS: Final = ("assistant", "developer", "system", "user")


class PayloadEntry(NamedTuple):
    """A value in a payload; `name` is its key, or empty for an item of a list."""

    path: str
    name: str
    value: object


class ToolReport(NamedTuple):
    """The outcome of one tool call.

    If the tool shows files, its output does not count; if it only repeats something, its text does not count.
    """

    path: str
    tool: str
    fields: Mapping[str, object]
    shows_files: bool
    only_repeats: bool

    def at(self, name: str) -> str:
        """The position of a field of this report for a reader: the tool, and the path in the payload."""
        return " ".join(part for part in (self.tool, _below(self.path, name)) if part)

    def texts(self) -> Iterator[tuple[str, str]]:
        """The output texts of the tool with their paths; nothing if they are no evidence."""
        if self.shows_files or self.only_repeats:
            return
        room = iter(range(MAX_VALUES))
        for name in OUTPUTS:
            for entry in _walk(PayloadEntry(name, name, self.fields.get(name)), MAX_DEPTH, room):
                if isinstance(entry.value, str):
                    yield entry.path, entry.value


def fields_of(value: object) -> Mapping[str, object]:
    """The fields of a mapping or a record; empty for any other value."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return value if isinstance(value, Mapping) else {}


def tool_name(fields: Mapping[str, object]) -> str:
    """The name of the tool that an event is about, or an empty string."""
    tool = fields.get("tool")
    for name in (fields.get("tool_name"), fields_of(tool).get("name"), tool):
        if isinstance(name, str) and name.strip():
            return name.strip()
    return ""


def tool_reports(event: str, payload: Mapping[str, object]) -> tuple[ToolReport, ...]:
    """The tool calls that an event reports."""
    reports = [_report("", payload)] if event == SessionEvent.POST_TOOL_USE else []
    for name in REPORTS:
        told = payload.get(name)
        if isinstance(told, list | tuple):
            reports += [_report(f"{name}[{index}]", fields_of(item)) for index, item in enumerate(told[:MAX_VALUES])]
    return tuple(reports)


def entries(payload: Mapping[str, object]) -> Iterator[PayloadEntry]:
    """Every value in a payload that may be evidence, except the output texts of tools."""
    return _walk(PayloadEntry("", "", payload), MAX_DEPTH, iter(range(MAX_VALUES)))


def _report(path: str, fields: Mapping[str, object]) -> ToolReport:
    named = fields.get("name")
    tool = tool_name(fields) or (named if path and isinstance(named, str) else "")
    told = (
        fields,
        *(fields_of(fields.get(name)) for name in ("args", "arguments", "input", "tool_input", "data", "result")),
    )
    command = next((line for given in told if (line := command_of(given))), "")
    return ToolReport(path, tool, fields, shows_files(tool, command), only_repeats(tool))


def _walk(entry: PayloadEntry, depth: int, room: Iterator[int]) -> Iterator[PayloadEntry]:
    if entry.value is None or next(room, None) is None:
        return
    yield entry
    if depth == 0:
        return
    if isinstance(entry.value, list | tuple):
        for index, item in enumerate(entry.value):
            yield from _walk(PayloadEntry(f"{entry.path}[{index}]", "", item), depth - 1, room)
        return
    fields = fields_of(entry.value)
    if not fields or fields.get("role") in SPEAKERS:
        return
    hidden = INPUTS | frozenset(OUTPUTS) if _report("", fields).shows_files else INPUTS
    for name, value in fields.items():
        if name not in hidden:
            yield from _walk(PayloadEntry(_below(entry.path, name), name, value), depth - 1, room)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

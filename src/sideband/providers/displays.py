"""Which tools merely show files: what stands in their output happened to nobody, however much it looks like a failure."""

import re
from collections.abc import Mapping
from typing import Final

_WORD: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
# Any of these words in the name of a tool.
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
# Or one of the first together with one of the second.
GETTING: Final = frozenset({"download", "get", "load"})
FILES: Final = frozenset(
    {"content", "contents", "document", "documents", "file", "files", "page", "pages", "resource", "resources", "url"}
)
# These repeat what they wrote, and these what another model said.
WRITING: Final = frozenset({"append", "apply", "create", "diff", "edit", "insert", "patch", "replace", "save", "write"})
TALKING: Final = frozenset({"agent", "critic", "delegate", "judge", "reviewer", "subagent"})
# What these show are findings.
DIAGNOSING: Final = frozenset({"diagnostic", "diagnostics", "lints", "problems"})

# What a command line is taken apart at, and what may stand in front of a program.
_SEPARATOR: Final = r"&&|\|\|?|;|\n"
_ASSIGNMENT: Final = r"[A-Za-z_]\w*="
_PREFIXES: Final = frozenset({"command", "env", "nice", "sudo", "time"})
# Programs that say nothing of their own: a command of which these are all is no display for that reason.
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
    """Whether all the output of this tool, or of the command it ran, is what stands in files."""
    words = _words(tool)
    if words & DIAGNOSING:
        return False
    return bool(words & DISPLAYING or (words & GETTING and words & FILES)) or _only_displays(command)


def only_repeats(tool: str) -> bool:
    """Whether the text of this tool repeats what it put into a file, or what another model said."""
    return bool(_words(tool) & (WRITING | TALKING))


def command_of(args: Mapping[str, object]) -> str:
    """The command line among the arguments of a tool; none is an empty text."""
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
    """The program of one part of a command line and its first argument."""
    while words and (words[0] in _PREFIXES or re.match(_ASSIGNMENT, words[0])):
        words = words[1:]
    if not words or words[0] in _MOVES:
        return None
    return words[0].rpartition("/")[2], words[1] if len(words) > 1 else ""


def _displays(program: tuple[str, str]) -> bool:
    name, argument = program
    return name in PROGRAMS or (name == "git" and argument in GIT_VIEWS)

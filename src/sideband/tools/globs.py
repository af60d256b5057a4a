"""Which files a glob means: `*`, `?` and `[…]` inside a name, `**` for any folders, `{a,b}` for either."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from sideband.tools.refusal import Refused

MAX_ALTERNATIVES: Final = 64
BRACES: Final = re.compile(r"\{([^{}]*)\}")


class Glob:
    """A glob without a slash is about the name alone, one with a slash about the path from the workspace on."""

    def __init__(self, glob: str) -> None:
        self._alternatives = tuple(_parts(alternative) for alternative in _alternatives(glob))

    def matches(self, path: Sequence[str]) -> bool:
        return any(_matches(path, parts) for parts in self._alternatives)


def _alternatives(glob: str) -> list[str]:
    pending: list[str] = [glob]
    done: list[str] = []
    while pending:
        if len(pending) + len(done) > MAX_ALTERNATIVES:
            raise Refused(f"glob {glob!r} stands for more than {MAX_ALTERNATIVES} others; search for fewer at once")
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
    """Which beginnings of the pattern fit the path so far, name by name: no choice is ever tried twice."""
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
    """`**` also stands for no folder at all."""
    reached = set(positions)
    for position in range(len(parts)):
        if position in reached and parts[position] == "**":
            reached.add(position + 1)
    return reached

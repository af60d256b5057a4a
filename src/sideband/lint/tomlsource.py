"""TOML text as values with their places.

The standard library reads the values and refuses what is not TOML; it does not tell where anything stood. So the text
is walked once more, and as it is known to be valid by then the walk only has to find keys and skip the rest.
"""

import re
import tomllib
from bisect import bisect_right
from typing import Final, TypeAlias

from sideband.lint.literals import MAX_DEPTH, START, Array, Entry, Position, Scalar, Unreadable, Value, table_of

Path: TypeAlias = tuple[str | int, ...]

_SPACE: Final = re.compile(r"[ \t]*")
_BETWEEN: Final = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_KEY_PART: Final = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\]+|\\.)*+"|\'[^\']*\'')
_STRING: Final = re.compile(
    r'"""(?:[^"\\]+|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']+|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\]+|\\.)*+"'
    r"|'[^']*'",
    re.DOTALL,
)
_OTHER: Final = re.compile(r".[^,\]}#\r\n]*")
_WHERE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(text: str) -> Value:
    """The document in `text`."""
    try:
        document = tomllib.loads(text)
        places = _Walk(text.replace("\r\n", "\n")).places()
    except RecursionError:
        raise Unreadable(f"not TOML: nested more than {MAX_DEPTH} deep", START) from None
    except ValueError as error:
        raise _unreadable(str(error), text) from None
    return _value(document, (), START, places)


def _unreadable(message: str, text: str) -> Unreadable:
    where = _WHERE.search(message)
    if where is None:
        return Unreadable(f"not TOML: {message}", START)
    at = Position(int(where[1]), int(where[2])) if where[1] else Position(text.count("\n") + 1, 1)
    return Unreadable(f"not TOML: {message[: where.start()]}", at)


def _value(found: object, path: Path, at: Position, places: dict[Path, Position]) -> Value:
    """The value that was found at `path`; where its place is not known, that of what contains it serves."""
    at = places.get(path, at)
    if len(path) > MAX_DEPTH:
        raise Unreadable(f"not TOML: nested more than {MAX_DEPTH} deep", at)
    if isinstance(found, dict):
        entries = []
        for key, inner in found.items():
            here = places.get((*path, key), at)
            entries.append(Entry(key=key, value=_value(inner, (*path, key), here, places), at=here))
        return table_of(entries, at)
    if isinstance(found, list):
        return Array(items=tuple(_value(item, (*path, n), at, places) for n, item in enumerate(found)), at=at)
    return Scalar(value=found, at=at)


class _Walk:
    """A valid text, how far it has been walked, and where keys and items stood."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        self._line_starts = [match.end() for match in re.finditer("\n", text)]
        self._places: dict[Path, Position] = {}
        # How many tables each array of tables has by now.
        self._tables: dict[Path, int] = {}

    def places(self) -> dict[Path, Position]:
        table: Path = ()
        while self._skip(_BETWEEN) < len(self._text):
            if self._text[self._index] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._places

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._index)
        self._index = self._index if found is None else found.end()
        return self._index

    def _here(self) -> Position:
        line = bisect_right(self._line_starts, self._index)
        start = self._line_starts[line - 1] if line else 0
        return Position(line + 1, self._index - start + 1)

    def _header(self) -> Path:
        at = self._here()
        is_array = self._text.startswith("[[", self._index)
        self._index += 2 if is_array else 1
        *parents, name = self._key()
        self._index += 2 if is_array else 1
        path: Path = ()
        for parent in parents:
            path = self._newest((*path, parent))
        path = (*path, name)
        if is_array:
            self._places.setdefault(path, at)
            self._tables[path] = self._tables.get(path, 0) + 1
            path = self._newest(path)
        self._places.setdefault(path, at)
        return path

    def _newest(self, path: Path) -> Path:
        """The table that a name means: of an array of tables its last."""
        return (*path, self._tables[path] - 1) if path in self._tables else path

    def _key(self) -> list[str]:
        """The parts of a key, and the way to what follows it."""
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            found = _KEY_PART.match(self._text, self._index)
            written = "" if found is None else found.group()
            self._index += len(written)
            parts.append(next(iter(tomllib.loads(f"{written} = 0"))) if written[:1] in {'"', "'"} else written)
            self._skip(_SPACE)
            if self._text[self._index : self._index + 1] != ".":
                return parts
            self._index += 1

    def _pair(self, table: Path) -> None:
        at = self._here()
        path = table
        for part in self._key():
            path = (*path, part)
            self._places.setdefault(path, at)
        self._index += 1  # the equals sign
        self._written_value(path)

    def _written_value(self, path: Path) -> None:
        self._skip(_SPACE)
        match self._text[self._index : self._index + 1]:
            case "[":
                self._inside(path, "]")
            case "{":
                self._inside(path, "}")
            case '"' | "'":
                self._skip(_STRING)
            case _:
                self._skip(_OTHER)

    def _inside(self, path: Path, end: str) -> None:
        self._index += 1
        count = 0
        while self._skip(_BETWEEN) < len(self._text) and self._text[self._index] != end:
            if end == "}":
                self._pair(path)
                continue
            self._places.setdefault((*path, count), self._here())
            self._written_value((*path, count))
            count += 1
        self._index += 1

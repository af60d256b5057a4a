"""JSON text as values with their places, every key that comes twice included."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from sideband.lint.literals import MAX_DEPTH, Array, Entry, Position, Scalar, Unreadable, Value, table_of

_NOT_BLANK: Final = re.compile(r"[^ \t\r\n]")
_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_SIMPLE: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def read_json(text: str) -> Value:
    """The one value in `text`."""
    return _Reader(text, first_line=1).document()


def read_json_lines(text: str) -> Iterator[Value | Unreadable]:
    """One value for each line that is not blank, or what is wrong with that line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _Reader(line, first_line=number).document()
            except Unreadable as error:
                yield error


class _Reader:
    """A text and how far it has been read."""

    def __init__(self, text: str, *, first_line: int) -> None:
        self._text = text
        self._index = 0
        self._first_line = first_line
        self._line_starts = [match.end() for match in re.finditer("\n", text)]

    def document(self) -> Value:
        value = self._value(depth=0)
        if self._peek():
            raise self._refused("the end of the text was expected")
        return value

    def _here(self) -> Position:
        line = bisect_right(self._line_starts, self._index)
        start = self._line_starts[line - 1] if line else 0
        return Position(self._first_line + line, self._index - start + 1)

    def _refused(self, complaint: str) -> Unreadable:
        return Unreadable(f"not JSON: {complaint}", self._here())

    def _peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        found = _NOT_BLANK.search(self._text, self._index)
        self._index = len(self._text) if found is None else found.start()
        return "" if found is None else found.group()

    def _take(self, *wanted: str) -> str:
        found = self._peek()
        if found not in wanted or not found:
            raise self._refused(f"{' or '.join(map(repr, wanted))} was expected")
        self._index += 1
        return found

    def _value(self, *, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise self._refused(f"nested more than {MAX_DEPTH} deep")
        match self._peek():
            case "{":
                return self._table(depth=depth)
            case "[":
                return self._array(depth=depth)
            case '"':
                at = self._here()
                return Scalar(value=self._string(), at=at)
            case _:
                return self._simple()

    def _table(self, *, depth: int) -> Value:
        at = self._here()
        entries: list[Entry] = []
        self._take("{")
        if self._peek() == "}":
            self._take("}")
            return table_of(entries, at)
        closed = ","
        while closed == ",":
            self._peek()
            key_at = self._here()
            key = self._string()
            self._take(":")
            entries.append(Entry(key=key, value=self._value(depth=depth + 1), at=key_at))
            closed = self._take(",", "}")
        return table_of(entries, at)

    def _array(self, *, depth: int) -> Value:
        at = self._here()
        items: list[Value] = []
        self._take("[")
        if self._peek() == "]":
            self._take("]")
            return Array(items=(), at=at)
        closed = ","
        while closed == ",":
            items.append(self._value(depth=depth + 1))
            closed = self._take(",", "]")
        return Array(items=tuple(items), at=at)

    def _string(self) -> str:
        found = _STRING.match(self._text, self._index)
        if found is None:
            raise self._refused("a string was expected")
        return str(self._decoded(found))

    def _simple(self) -> Value:
        at = self._here()
        found = _SIMPLE.match(self._text, self._index)
        if found is None:
            raise self._refused("a value was expected")
        return Scalar(value=self._decoded(found), at=at)

    def _decoded(self, found: re.Match[str]) -> object:
        try:
            value: object = json.loads(found.group())
        except ValueError:
            # A wrong escape, or a number with more digits than Python converts.
            raise self._refused("this cannot be read") from None
        self._index = found.end()
        return value

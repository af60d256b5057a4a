"""Values as they stand in a file: what is written there, and where."""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec

STAND_IN: Final = "x"
# Deeper than anybody writes, and far from where a reader or `repr` would run out of stack.
MAX_DEPTH: Final = 100


class Unreadable(ValueError):
    """The file is not what its name says; the message says what is wrong, `at` where it is noticed."""

    def __init__(self, message: str, at: "Position") -> None:
        super().__init__(message)
        self.at = at


class Position(NamedTuple):
    """Both count from one; columns count characters."""

    line: int
    column: int


START: Final = Position(1, 1)


class Scalar(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is written out."""

    value: object
    at: Position


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is only known when the program runs.

    `text` is what of it is written out, with `{}` for the rest; `calls` names the functions that it calls.
    """

    at: Position
    text: str = ""
    calls: tuple[str, ...] = ()


class Array(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple["Value", ...]
    at: Position


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a table; `at` is where the key stands. A key is a string everywhere but in Python."""

    key: object
    value: "Value"
    at: Position


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """An object; `open` says that it may have more keys than are written; `repeated` are those that came once more."""

    entries: tuple[Entry, ...]
    at: Position
    open: bool = False
    repeated: tuple[Entry, ...] = ()

    def get(self, key: object) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == key), None)

    def value(self, key: object) -> "Value | None":
        entry = self.get(key)
        return None if entry is None else entry.value

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def without(self, *keys: str) -> "Table":
        """The same table with these keys taken out."""
        return msgspec.structs.replace(self, entries=tuple(entry for entry in self.entries if entry.key not in keys))


Value: TypeAlias = Scalar | Unknown | Array | Table


def table_of(entries: list[Entry], at: Position, *, is_open: bool = False) -> Table:
    """The table of these entries, in which the last of equal keys counts."""
    last: dict[object, Entry] = {}
    repeated = []
    for entry in entries:
        if entry.key in last:
            repeated.append(entry)
        last[entry.key] = entry
    return Table(entries=tuple(last.values()), at=at, open=is_open, repeated=tuple(repeated))


def plain(value: Value) -> object:
    """The value itself; what is not known is a word that fits where text does."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Array):
        return [plain(item) for item in value.items]
    if isinstance(value, Table):
        return {entry.key: plain(entry.value) for entry in value.entries}
    return STAND_IN


def text_of(value: Value | None) -> str | None:
    """The string that is written there, if it is one."""
    return value.value if isinstance(value, Scalar) and isinstance(value.value, str) else None


def tables_in(value: Value) -> Iterator[Table]:
    """Every table in a value, the value included, in the order in which they begin."""
    stack = [value]
    while stack:
        node = stack.pop()
        match node:
            case Table():
                yield node
                stack.extend(entry.value for entry in reversed(node.entries))
            case Array():
                stack.extend(reversed(node.items))
            case _:
                pass

"""Values as they are written in a file, each with its position."""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec

STAND_IN: Final = "x"
# Far deeper than hand-written files, and far from the depth at which a reader or `repr` exhausts the stack.
MAX_DEPTH: Final = 100


class UnreadableSource(ValueError):
    """The file does not have the format that its suffix promises; `at` is where the reader stopped."""

    def __init__(self, message: str, at: "Position") -> None:
        super().__init__(message)
        self.at = at


class Position(NamedTuple):
    """Line and column, both counted from one; columns count characters, not bytes."""

    line: int
    column: int


START: Final = Position(1, 1)


class Scalar(msgspec.Struct, frozen=True, kw_only=True):
    """A literal value."""

    value: object
    at: Position


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is known only when the program runs.

    `text` holds the literal parts of a string, with `{}` for the others; `calls` names the functions it calls.
    """

    at: Position
    text: str = ""
    calls: tuple[str, ...] = ()


class Array(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple["Value", ...]
    at: Position


class TableEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a table with its value; `at` is the position of the key. Keys other than strings occur only in Python."""

    key: object
    value: "Value"
    at: Position


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """An object; `open` if it may have keys that are not written out. `repeated` holds the second and later uses of a key."""

    entries: tuple[TableEntry, ...]
    at: Position
    open: bool = False
    repeated: tuple[TableEntry, ...] = ()

    def get(self, key: object) -> TableEntry | None:
        return next((entry for entry in self.entries if entry.key == key), None)

    def value(self, key: object) -> "Value | None":
        entry = self.get(key)
        return None if entry is None else entry.value

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def without(self, *keys: str) -> "Table":
        return msgspec.structs.replace(self, entries=tuple(entry for entry in self.entries if entry.key not in keys))


Value: TypeAlias = Scalar | Unknown | Array | Table


def table_of(entries: list[TableEntry], at: Position, *, is_open: bool = False) -> Table:
    """Build a table; of equal keys the last one counts."""
    last: dict[object, TableEntry] = {}
    repeated = []
    for entry in entries:
        if entry.key in last:
            repeated.append(entry)
        last[entry.key] = entry
    return Table(entries=tuple(last.values()), at=at, open=is_open, repeated=tuple(repeated))


def plain(value: Value) -> object:
    """The value without positions; an unknown value becomes a short string."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Array):
        return [plain(item) for item in value.items]
    if isinstance(value, Table):
        return {entry.key: plain(entry.value) for entry in value.entries}
    return STAND_IN


def text_of(value: Value | None) -> str | None:
    """The string literal, or None if the value is anything else."""
    return value.value if isinstance(value, Scalar) and isinstance(value.value, str) else None


def tables_in(value: Value) -> Iterator[Table]:
    """Every table in a value, including the value itself, in the order in which they begin."""
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

"""JSON and TOML files: read them as values with positions, and find the uses of Sideband's interfaces in them.

Most documents have nothing to do with reminders. Only the following is checked:

* anywhere: a JSON-RPC message whose method carries a reminder;
* at the top level, in a top-level list, or on a line of its own: `reminder` or `reminders` with a reminder or a list of
  reminders; `hooks`, a list of objects with an `event` and a `reminder` or `effects`; `provider` together with
  `reminder`; `providers` with a list of names, alone or with `enabled` and `config`, also below `reminders`;
* in the same places, a bare object with a `body` and one other field that only reminders have (not `tags`).

`reminders` next to `messages` belong to a request for `sideband render`: each has the fields of `inject_reminder`, and
may name its sender.

A reminder that has both a source and a turn is a record from a session, not a request to one, and is not checked.
"""

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from sideband.core.errors import ReminderError
from sideband.core.hookevents import SessionEvent, WorkerEvent, read_hook_event
from sideband.core.surfaces import LIFECYCLE, Case, Surface, spelled
from sideband.lint.found import (
    TELLING,
    Found,
    HookEvent,
    NamedModel,
    RepeatedKey,
    Spec,
    effects,
    frame,
    looks_like_spec,
    loop_reminders,
    provider_choice,
)
from sideband.lint.literals import (
    MAX_DEPTH,
    START,
    Array,
    Position,
    Scalar,
    Table,
    TableEntry,
    UnreadableSource,
    Value,
    table_of,
    tables_in,
    text_of,
)
from sideband.lint.rules import is_route

CONTAINERS: Final = frozenset({"reminder", "reminders", "hooks", "provider", "providers"})
# Keys by which a reminder in a request for `sideband render` names its sender.
SENDER_KEYS: Final = ("trust", "from")
RETURNED_KEYS: Final = frozenset({"reminder", "effects", "then"})
CHOICE_KEYS: Final = frozenset({"providers", "enabled", "config"})
_CAMEL: Final = frozenset(name for field in LIFECYCLE if (name := spelled(field, Case.CAMEL)) != field)
_SNAKE: Final = frozenset(field for field in LIFECYCLE if spelled(field, Case.CAMEL) != field)


def found_in_data(document: Value) -> Iterator[Found]:
    """Every use of an interface in a document."""
    for table in tables_in(document):
        sent = frame(table)
        if sent is not None:
            yield sent
            yield from _repeated(table)
        model = text_of(table.value("model"))
        if model is not None and is_route(model):
            yield NamedModel(name=model)
    for top in document.items if isinstance(document, Array) else (document,):
        if isinstance(top, Table) and "jsonrpc" not in top and frame(top) is None:
            yield from _top(top)


def _top(table: Table) -> Iterator[Found]:
    bare = "body" in table and any(entry.key in TELLING for entry in table.entries) and not _is_record(table)
    found = (*_checked(table, _producer(table)),) if bare else (*_reminders(table), *_hooks(table))
    yield from found
    if found:
        yield from (RepeatedKey(entry=entry) for entry in table.repeated if entry.key in CONTAINERS)
    alone = table if {entry.key for entry in table.entries} <= CHOICE_KEYS else None
    for options in (alone, table.value("reminders")):
        for chosen in (provider_choice(options), loop_reminders(options, certain=False)):
            if chosen is not None:
                yield chosen


def _reminders(table: Table) -> Iterator[Found]:
    """The values of `reminder` and `reminders`, if at least one of them is a reminder."""
    from_provider = text_of(table.value("provider")) is not None
    in_request = isinstance(table.value("messages"), Array)
    for key in ("reminder", "reminders"):
        value = table.value(key)
        entries = value.items if isinstance(value, Array) else (value,)
        if any(isinstance(entry, Table) and _is_request(entry) for entry in entries):
            for entry in entries:
                if entry is None or (isinstance(entry, Table) and _is_record(entry)):
                    continue
                if in_request and isinstance(entry, Table):
                    yield from _checked(entry.without(*SENDER_KEYS), Surface.PIPELINE)
                else:
                    yield from _checked(entry, Surface.PROVIDER if from_provider else _producer(entry))


def _hooks(table: Table) -> Iterator[Found]:
    hooks = table.value("hooks")
    for hook in hooks.items if isinstance(hooks, Array) else ():
        name = hook.value("event") if isinstance(hook, Table) else None
        if isinstance(hook, Table) and isinstance(name, Scalar) and _brings_reminder(hook):
            yield HookEvent(name=name)
            # Other keys say which hook it is, and are not part of what it returns.
            returned = tuple(entry for entry in hook.entries if entry.key in RETURNED_KEYS)
            yield from effects(msgspec.structs.replace(hook, entries=returned), Surface.HOOK, event=_event(name))
            yield from _repeated(hook)


def _brings_reminder(hook: Table) -> bool:
    inside = [value for key in ("reminder", "effects") if (value := hook.value(key)) is not None]
    return any(_is_request(table) for value in inside for table in tables_in(value))


def _event(name: Scalar) -> SessionEvent | WorkerEvent | None:
    try:
        return read_hook_event(name.value)
    except ReminderError:
        return None


def _checked(value: Value, surface: Surface) -> Iterator[Found]:
    yield Spec(surface=surface, value=value, at=value.at)
    yield from _repeated(value)


def _repeated(value: Value) -> Iterator[Found]:
    for table in tables_in(value):
        yield from (RepeatedKey(entry=entry) for entry in table.repeated)


def _is_request(table: Table) -> bool:
    return looks_like_spec(table) and not _is_record(table)


def _is_record(table: Table) -> bool:
    """Whether the reminder comes from a session: only sessions set the source and the turn."""
    return "source" in table and any(name in table for name in ("fired_at_turn", "firedAtTurn"))


def _producer(value: Value) -> Surface:
    """The surface by the spelling of the keys: camelCase is sent over HTTP, snake_case is used in calls."""
    keys = {entry.key for entry in value.entries} if isinstance(value, Table) else set()
    return Surface.HTTP if keys & _CAMEL and not keys & _SNAKE else Surface.SESSION


# JSON.

_NOT_BLANK: Final = re.compile(r"[^ \t\r\n]")
_JSON_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_JSON_SIMPLE: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def read_json(text: str) -> Value:
    return _JsonReader(text, first_line=1).document()


def read_json_lines(text: str) -> Iterator[Value | UnreadableSource]:
    """Yield the value of each line that is not blank, or the error if the line cannot be read."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _JsonReader(line, first_line=number).document()
            except UnreadableSource as error:
                yield error


class _JsonReader:
    """A JSON parser that records positions and repeated keys, which the standard library does not."""

    def __init__(self, text: str, *, first_line: int) -> None:
        self._text = text
        self._index = 0
        self._first_line = first_line
        self._line_starts = [match.end() for match in re.finditer("\n", text)]

    def document(self) -> Value:
        value = self._value(depth=0)
        if self._peek():
            raise self._refused("expected the end of the text")
        return value

    def _here(self) -> Position:
        line = bisect_right(self._line_starts, self._index)
        start = self._line_starts[line - 1] if line else 0
        return Position(self._first_line + line, self._index - start + 1)

    def _refused(self, complaint: str) -> UnreadableSource:
        return UnreadableSource(f"not JSON: {complaint}", self._here())

    def _peek(self) -> str:
        """Skip blanks and return the next character; empty at the end."""
        found = _NOT_BLANK.search(self._text, self._index)
        self._index = len(self._text) if found is None else found.start()
        return "" if found is None else found.group()

    def _take(self, *wanted: str) -> str:
        found = self._peek()
        if found not in wanted or not found:
            raise self._refused(f"expected {' or '.join(map(repr, wanted))}")
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
        entries: list[TableEntry] = []
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
            entries.append(TableEntry(key=key, value=self._value(depth=depth + 1), at=key_at))
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
        found = _JSON_STRING.match(self._text, self._index)
        if found is None:
            raise self._refused("expected a string")
        return str(self._decoded(found))

    def _simple(self) -> Value:
        at = self._here()
        found = _JSON_SIMPLE.match(self._text, self._index)
        if found is None:
            raise self._refused("expected a value")
        return Scalar(value=self._decoded(found), at=at)

    def _decoded(self, found: re.Match[str]) -> object:
        try:
            value: object = json.loads(found.group())
        except ValueError:
            # An invalid escape, or a number with more digits than Python converts.
            raise self._refused("invalid escape or number") from None
        self._index = found.end()
        return value


# TOML.

KeyPath: TypeAlias = tuple[str | int, ...]

_TOML_SPACE: Final = re.compile(r"[ \t]*")
_TOML_BETWEEN: Final = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_TOML_KEY_PART: Final = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\]+|\\.)*+"|\'[^\']*\'')
_TOML_STRING: Final = re.compile(
    r'"""(?:[^"\\]+|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']+|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\]+|\\.)*+"'
    r"|'[^']*'",
    re.DOTALL,
)
_TOML_OTHER: Final = re.compile(r".[^,\]}#\r\n]*")
_TOML_WHERE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(text: str) -> Value:
    """Read the document in `text`.

    The standard library parses the values and rejects invalid TOML, but gives no positions. So the text is walked a
    second time; because it is known to be valid by then, the walk only has to find keys and skip the rest.
    """
    try:
        document = tomllib.loads(text)
        places = _TomlWalk(text.replace("\r\n", "\n")).places()
    except RecursionError:
        raise UnreadableSource(f"not TOML: nested more than {MAX_DEPTH} deep", START) from None
    except ValueError as error:
        raise _toml_error(str(error), text) from None
    return _toml_value(document, (), START, places)


def _toml_error(message: str, text: str) -> UnreadableSource:
    where = _TOML_WHERE.search(message)
    if where is None:
        return UnreadableSource(f"not TOML: {message}", START)
    at = Position(int(where[1]), int(where[2])) if where[1] else Position(text.count("\n") + 1, 1)
    return UnreadableSource(f"not TOML: {message[: where.start()]}", at)


def _toml_value(found: object, path: KeyPath, at: Position, places: dict[KeyPath, Position]) -> Value:
    """The value at `path`; if its position is unknown, it gets the position of its container."""
    at = places.get(path, at)
    if len(path) > MAX_DEPTH:
        raise UnreadableSource(f"not TOML: nested more than {MAX_DEPTH} deep", at)
    if isinstance(found, dict):
        entries = []
        for key, inner in found.items():
            here = places.get((*path, key), at)
            entries.append(TableEntry(key=key, value=_toml_value(inner, (*path, key), here, places), at=here))
        return table_of(entries, at)
    if isinstance(found, list):
        return Array(items=tuple(_toml_value(item, (*path, n), at, places) for n, item in enumerate(found)), at=at)
    return Scalar(value=found, at=at)


class _TomlWalk:
    """Records the positions of the keys and items of a valid TOML text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        self._line_starts = [match.end() for match in re.finditer("\n", text)]
        self._places: dict[KeyPath, Position] = {}
        # The number of tables so far in each array of tables.
        self._tables: dict[KeyPath, int] = {}

    def places(self) -> dict[KeyPath, Position]:
        table: KeyPath = ()
        while self._skip(_TOML_BETWEEN) < len(self._text):
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

    def _header(self) -> KeyPath:
        at = self._here()
        is_array = self._text.startswith("[[", self._index)
        self._index += 2 if is_array else 1
        *parents, name = self._key()
        self._index += 2 if is_array else 1
        path: KeyPath = ()
        for parent in parents:
            path = self._newest((*path, parent))
        path = (*path, name)
        if is_array:
            self._places.setdefault(path, at)
            self._tables[path] = self._tables.get(path, 0) + 1
            path = self._newest(path)
        self._places.setdefault(path, at)
        return path

    def _newest(self, path: KeyPath) -> KeyPath:
        """The table that a header refers to: in an array of tables, the last one."""
        return (*path, self._tables[path] - 1) if path in self._tables else path

    def _key(self) -> list[str]:
        """Read a dotted key and the blanks after it; return its parts."""
        parts: list[str] = []
        while True:
            self._skip(_TOML_SPACE)
            found = _TOML_KEY_PART.match(self._text, self._index)
            written = "" if found is None else found.group()
            self._index += len(written)
            parts.append(next(iter(tomllib.loads(f"{written} = 0"))) if written[:1] in {'"', "'"} else written)
            self._skip(_TOML_SPACE)
            if self._text[self._index : self._index + 1] != ".":
                return parts
            self._index += 1

    def _pair(self, table: KeyPath) -> None:
        at = self._here()
        path = table
        for part in self._key():
            path = (*path, part)
            self._places.setdefault(path, at)
        self._index += 1  # the equals sign
        self._written_value(path)

    def _written_value(self, path: KeyPath) -> None:
        self._skip(_TOML_SPACE)
        match self._text[self._index : self._index + 1]:
            case "[":
                self._inside(path, "]")
            case "{":
                self._inside(path, "}")
            case '"' | "'":
                self._skip(_TOML_STRING)
            case _:
                self._skip(_TOML_OTHER)

    def _inside(self, path: KeyPath, end: str) -> None:
        self._index += 1
        count = 0
        while self._skip(_TOML_BETWEEN) < len(self._text) and self._text[self._index] != end:
            if end == "}":
                self._pair(path)
                continue
            self._places.setdefault((*path, count), self._here())
            self._written_value((*path, count))
            count += 1
        self._index += 1

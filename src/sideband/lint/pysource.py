"""Python text as a syntax tree whose literals can be read as values with their places."""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from sideband.core.diagnostics import UnknownDiagnostic, diagnostic
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.lint.literals import (
    MAX_DEPTH,
    START,
    Array,
    Entry,
    Position,
    Scalar,
    Table,
    Unknown,
    Unreadable,
    Value,
    table_of,
)

# The members of our own vocabularies are as good as the words they stand for.
_VOCABULARIES: Final[Mapping[str, type[StrEnum]]] = MappingProxyType(
    {words.__name__: words for words in (Propagate, RoleHint, Mode, SessionEvent, WorkerEvent)}
)
_IGNORE: Final = re.compile(r"#\s*sideband:\s*ignore\[([^\]]*)\]")
_LINE_END: Final = re.compile(r"\r\n?")
MAX_REPEATED_TEXT: Final = 1 << 20


class Source:
    """A module that could be parsed."""

    def __init__(self, raw: bytes) -> None:
        # As the parser reads it: every kind of line end is one.
        self._text = _LINE_END.sub("\n", _decoded(raw))
        self._lines = self._text.split("\n")
        self.tree = _parsed(self._text)

    def at(self, node: ast.expr | ast.stmt | ast.keyword) -> Position:
        """Where a node begins; the parser counts bytes, people count characters."""
        before = self._lines[node.lineno - 1].encode()[: node.col_offset]
        return Position(node.lineno, len(before.decode(errors="replace")) + 1)

    def ignored(self) -> Mapping[int, frozenset[str]]:
        """By line, the codes that a comment there asks not to hear of."""
        return ignored_codes(self._text)

    def value(self, node: ast.expr, *, depth: int = 0) -> Value:
        """What an expression is worth without running it."""
        at = self.at(node)
        if depth > MAX_DEPTH:
            return Unknown(at=at)
        match node:
            case ast.Constant(value=value):
                return Scalar(value=value, at=at)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                inner = (self.value(item, depth=depth + 1) for item in items if not isinstance(item, ast.Starred))
                return Array(items=tuple(inner), at=at)
            case ast.Set(elts=items):
                return self._set(items, at, depth=depth)
            case ast.Dict():
                return self.table(node, depth=depth)
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                return self.keywords(keywords, at, depth=depth)
            case ast.Attribute() if (word := _word(node)) is not None:
                return Scalar(value=word, at=at)
            case ast.UnaryOp() | ast.BinOp():
                return self._computed(node, at, depth=depth)
            case _:
                return self._unknown(node, at)

    def keywords(self, keywords: list[ast.keyword], at: Position, *, depth: int = 0) -> Table:
        """Keyword arguments as a table; a `**` makes it open."""
        entries: list[Entry] = []
        is_open = False
        for keyword in keywords:
            value = self.value(keyword.value, depth=depth + 1)
            if keyword.arg is not None:
                entries.append(Entry(key=keyword.arg, value=value, at=self.at(keyword)))
            elif isinstance(value, Table):
                entries.extend(value.entries)
                is_open = is_open or value.open
            else:
                is_open = True
        return table_of(entries, at, is_open=is_open)

    def table(self, node: ast.Dict, *, depth: int = 0) -> Table:
        """A dict as a table; a `**`, or a key that nobody knows, makes it open."""
        entries: list[Entry] = []
        is_open = False
        for key, written in zip(node.keys, node.values, strict=True):
            value = self.value(written, depth=depth + 1)
            name = None if key is None else self.value(key, depth=depth + 1)
            if isinstance(name, Scalar):
                entries.append(Entry(key=name.value, value=value, at=name.at))
            elif key is None and isinstance(value, Table):
                entries.extend(value.entries)
                is_open = is_open or value.open
            else:
                is_open = True
        # Of equal keys Python keeps the last without a word, and other tools warn of it.
        table = table_of(entries, self.at(node), is_open=is_open)
        return Table(entries=table.entries, at=table.at, open=is_open)

    def _set(self, items: list[ast.expr], at: Position, *, depth: int) -> Value:
        inner = [self.value(item, depth=depth + 1) for item in items]
        if all(isinstance(item, Scalar) for item in inner):
            return Scalar(value=frozenset(item.value for item in inner if isinstance(item, Scalar)), at=at)
        return Unknown(at=at)

    def _computed(self, node: ast.UnaryOp | ast.BinOp, at: Position, *, depth: int) -> Value:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return Scalar(value=-number, at=at)
            case ast.BinOp(op=ast.Add()):
                left, right = self.value(node.left, depth=depth + 1), self.value(node.right, depth=depth + 1)
                match left, right:
                    case Scalar(value=str() as head), Scalar(value=str() as tail):
                        return Scalar(value=head + tail, at=at)
            case ast.BinOp(op=ast.Mult(), left=ast.Constant(value=str() as text), right=ast.Constant(value=int() as n)):
                if len(text) * n <= MAX_REPEATED_TEXT:
                    return Scalar(value=text * n, at=at)
        return self._unknown(node, at)

    def _unknown(self, node: ast.expr, at: Position) -> Unknown:
        calls = (dotted(call.func) for call in ast.walk(node) if isinstance(call, ast.Call))
        return Unknown(at=at, text=_template(node, depth=0), calls=tuple(name for name in calls if name))


def dotted(node: ast.expr) -> str:
    """The name that an expression spells, from its first plain name on; empty where it spells none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _word(node: ast.Attribute) -> str | None:
    words = _VOCABULARIES.get(dotted(node.value).rpartition(".")[2])
    member = None if words is None else words.__members__.get(node.attr)
    return None if member is None else member.value


def _template(node: ast.expr, *, depth: int) -> str:
    """What is written out of a text that is put together at run time."""
    if depth > MAX_DEPTH:
        return "{}"
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_template(part, depth=depth + 1) for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _template(left, depth=depth + 1) + _template(right, depth=depth + 1)
        case ast.BinOp(op=ast.Mod(), left=left):
            return _template(left, depth=depth + 1)
        case ast.Call(func=ast.Attribute(attr="format", value=text)):
            return _template(text, depth=depth + 1)
        case _:
            return "{}"


def _decoded(raw: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return raw.decode(encoding)
    except (SyntaxError, LookupError, ValueError) as error:
        raise Unreadable(f"not Python: {error}", START) from None


def _parsed(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # A doubtful escape in somebody's string is not ours to report.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        at = Position(error.lineno or 1, max(1, error.offset or 1))
        raise Unreadable(f"not Python: {error.msg}", at) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"not Python: {str(error) or 'nested too deeply'}", START) from None


def ignored_codes(text: str) -> Mapping[int, frozenset[str]]:
    """By line, the codes that a comment asks not to hear of; one that has its line for itself means the next, too."""
    found: dict[int, frozenset[str]] = {}
    for token in _comments(text):
        match = _IGNORE.search(token.string)
        if match is not None:
            line, column = token.start
            lines = (line,) if token.line[:column].strip() else (line, line + 1)
            found |= {number: found.get(number, frozenset()) | frozenset(_codes(match[1])) for number in lines}
    return found


def _comments(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token
    except (tokenize.TokenError, SyntaxError):
        # The comments up to here have been found; there is nothing to be said about the rest.
        return


def _codes(listed: str) -> Iterator[str]:
    for code in listed.split(","):
        try:
            yield diagnostic(code).code
        except UnknownDiagnostic:
            continue

"""Python files: read their literals as values with positions, and find the uses of Sideband's interfaces by name.

Only literals are checked. Names, calls and f-strings have values that are unknown before the program runs.
"""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from sideband.core.diagnostics import UnknownDiagnostic, diagnostic
from sideband.core.errors import ReminderError
from sideband.core.hookevents import SessionEvent, WorkerEvent, read_hook_event
from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.surfaces import LIFECYCLE, Surface
from sideband.lint.found import (
    ClearCall,
    Found,
    HookEvent,
    NamedModel,
    ProviderEvent,
    ProviderId,
    Spec,
    effects,
    frame,
    looks_like_spec,
    loop_reminders,
    method_surface,
    provider_choice,
    request,
)
from sideband.lint.literals import (
    MAX_DEPTH,
    START,
    Array,
    Position,
    Scalar,
    Table,
    TableEntry,
    Unknown,
    UnreadableSource,
    Value,
    table_of,
    text_of,
)

# A member of these enumerations is read like the string that is its value.
_VOCABULARIES: Final[Mapping[str, type[StrEnum]]] = MappingProxyType(
    {words.__name__: words for words in (Propagate, RoleHint, Mode, SessionEvent, WorkerEvent)}
)
_IGNORE: Final = re.compile(r"#\s*sideband:\s*ignore\[([^\]]*)\]")
_LINE_END: Final = re.compile(r"\r\n?")
MAX_REPEATED_TEXT: Final = 1 << 20


class PythonSource:
    """A parsed module whose literals can be read as values with positions."""

    def __init__(self, raw: bytes) -> None:
        # The parser treats every kind of line ending as one line break.
        self._text = _LINE_END.sub("\n", _decoded(raw))
        self._lines = self._text.split("\n")
        self.tree = _parsed(self._text)

    def at(self, node: ast.expr | ast.stmt | ast.keyword) -> Position:
        """Where a node begins; `ast` counts columns in bytes, a `Position` in characters."""
        before = self._lines[node.lineno - 1].encode()[: node.col_offset]
        return Position(node.lineno, len(before.decode(errors="replace")) + 1)

    def ignored(self) -> Mapping[int, frozenset[str]]:
        """The codes that comments silence, by line."""
        return ignored_codes(self._text)

    def value(self, node: ast.expr, *, depth: int = 0) -> Value:
        """The value of an expression, as far as it is known without running the program."""
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
        """Keyword arguments as a table, which is open after an unknown `**`."""
        entries: list[TableEntry] = []
        is_open = False
        for keyword in keywords:
            value = self.value(keyword.value, depth=depth + 1)
            if keyword.arg is not None:
                entries.append(TableEntry(key=keyword.arg, value=value, at=self.at(keyword)))
            elif isinstance(value, Table):
                entries.extend(value.entries)
                is_open = is_open or value.open
            else:
                is_open = True
        return table_of(entries, at, is_open=is_open)

    def table(self, node: ast.Dict, *, depth: int = 0) -> Table:
        """A dict literal as a table, which is open after an unknown `**` or an unknown key."""
        entries: list[TableEntry] = []
        is_open = False
        for key, written in zip(node.keys, node.values, strict=True):
            value = self.value(written, depth=depth + 1)
            name = None if key is None else self.value(key, depth=depth + 1)
            if isinstance(name, Scalar):
                entries.append(TableEntry(key=name.value, value=value, at=name.at))
            elif key is None and isinstance(value, Table):
                entries.extend(value.entries)
                is_open = is_open or value.open
            else:
                is_open = True
        # Repeated keys are not reported: Python accepts them, and other linters warn about them.
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
    """The dotted name of an expression, without anything before its first plain name; empty if there is no name."""
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
    """The literal parts of a text that is built at run time, with `{}` for the others."""
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
        raise UnreadableSource(f"not Python: {error}", START) from None


def _parsed(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Invalid escape sequences are for other linters to report.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        at = Position(error.lineno or 1, max(1, error.offset or 1))
        raise UnreadableSource(f"not Python: {error.msg}", at) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableSource(f"not Python: {str(error) or 'nested too deeply'}", START) from None


def ignored_codes(text: str) -> Mapping[int, frozenset[str]]:
    """The codes that comments silence, by line; a comment alone on its line also applies to the next line."""
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
        # Comments after the place where tokenizing fails do not count.
        return


def _codes(listed: str) -> Iterator[str]:
    for code in listed.split(","):
        try:
            yield diagnostic(code).code
        except UnknownDiagnostic:
            continue


# Uses of the interfaces.

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

PACKAGE: Final = "sideband"
# Other libraries may have methods of these names, so `x.inject_reminder` counts only if `x` is Sideband's module.
PLAIN_NAMES: Final = frozenset({"inject_reminder", "clear_reminders", "transcript_reminder_event"})
HOOKS: Final = frozenset(
    {"register_tool_hook", "register_step_hook", "register_persona_hook", "register_session_hook"},
)
PROVIDER: Final = "register_reminder_provider"
SESSION_HOOK: Final = "register_session_hook"
REMIND: Final = "remind"
REPLACE: Final = "replace_reminder"
PRODUCER: Final = "Producer"
# The functions and classes with the options of a loop, and the method of a session.
LOOPS: Final = frozenset({"agent_loop", "agent_run", "spawn", "find_worker", "Chat", "Runner"})
CHAT: Final = "chat"
TELLING_KEYS: Final = frozenset({"method", "reminders", "model"})


def found_in_python(source: PythonSource) -> Iterator[Found]:
    """Every use of an interface in a module."""
    module = _Module(source)
    for node in ast.walk(source.tree):
        match node:
            case ast.Call():
                yield from module.call(node)
            case ast.Dict():
                yield from module.literal(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from module.decorated(node)


class _Module:
    """A module with its functions and the names that it imports from Sideband."""

    def __init__(self, source: PythonSource) -> None:
        self._source = source
        self._functions: dict[str, list[Function]] = {}
        self._imported: dict[str, str] = {}
        # The calls whose results are assigned to names, of which some make a `Producer`.
        self._producers: dict[str, ast.Call] = {}
        for node in ast.walk(source.tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._functions.setdefault(node.name, []).append(node)
                case ast.Import(names=names):
                    self._imported |= {alias.asname or PACKAGE: "" for alias in names if _is_ours(alias.name)}
                case ast.ImportFrom(module=str(package), names=names) if _is_ours(package):
                    self._imported |= {alias.asname or alias.name: alias.name for alias in names}
                case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call() as made):
                    self._producers[dotted(target)] = made

    def call(self, node: ast.Call) -> Iterator[Found]:
        """The uses in one call."""
        match self._name(node.func):
            case "inject_reminder":
                yield from self._inject(node)
            case "transcript_reminder_event":
                yield from self._lenient(node)
            case "clear_reminders":
                yield from self._clear(node)
            case "register_reminder_provider":
                yield from self._provider(node)
            case name if name in HOOKS:
                yield from self._hook(node)
            case _:
                yield from self._remind(node)
                yield from self._producer(node)
                yield from self._replace(node)
                yield from self._message(node)
        for keyword in node.keywords:
            if keyword.arg == "model" and (model := text_of(self._source.value(keyword.value))) is not None:
                yield NamedModel(name=model)
            if keyword.arg == "reminders":
                yield from _options(self._source.value(keyword.value), certain=self._is_loop(node.func))

    def literal(self, node: ast.Dict) -> Iterator[Found]:
        """The uses in a dict literal, wherever it is."""
        if not any(isinstance(key, ast.Constant) and key.value in TELLING_KEYS for key in node.keys):
            return
        table = self._source.table(node)
        yield from _one(frame(table))
        yield from _options(table.value("reminders"), certain=False)
        model = text_of(table.value("model"))
        yield from _one(None if model is None else NamedModel(name=model))

    def decorated(self, node: Function) -> Iterator[Found]:
        """The effects of a function that is registered by a decorator."""
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = self._name(call.func if call else decorator)
            if name in HOOKS:
                yield from self._effects(_returned(node), Surface.HOOK, self._event(call) if call else None)
            elif name == PROVIDER:
                yield from self._effects(_returned(node), Surface.PROVIDER, None)

    def _name(self, node: ast.expr) -> str | None:
        """The name of the Sideband function that an expression refers to; None if it refers to something else."""
        if isinstance(node, ast.Name):
            original = self._imported.get(node.id)
            return original or (None if node.id in self._functions else node.id)
        if not isinstance(node, ast.Attribute):
            return None
        root = dotted(node).partition(".")[0]
        return node.attr if node.attr not in PLAIN_NAMES or root in self._imported else None

    def _is_loop(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Attribute) and function.attr == CHAT:
            return self._may_be_session(function.value)
        return self._name(function) in LOOPS

    def _may_be_session(self, receiver: ast.expr) -> bool:
        """Whether a method can be that of a session: the module uses Sideband, or the name says so."""
        return bool(self._imported) or dotted(receiver).lower().endswith("session")

    # The calls.

    def _inject(self, node: ast.Call) -> Iterator[Found]:
        options = self._options(node, "options")
        if options is not None:
            yield Spec(surface=Surface.PIPELINE, value=options, at=self._source.at(node))

    def _lenient(self, node: ast.Call) -> Iterator[Found]:
        payload = self._source.value(node.args[0]) if node.args else None
        if isinstance(payload, Table):
            yield Spec(surface=Surface.PIPELINE, value=payload, at=payload.at, lenient=True)

    def _clear(self, node: ast.Call) -> Iterator[Found]:
        selector = self._options(node, "selector")
        if isinstance(selector, Table):
            yield ClearCall(selector=msgspec.structs.replace(selector, at=self._source.at(node)))

    def _options(self, node: ast.Call, name: str) -> Value | None:
        """The options of a pure function, given as keywords or as one mapping; None if arguments are unpacked."""
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return None
        keywords = self._source.keywords(node.keywords, self._source.at(node))
        if len(node.args) > 1:
            return self._source.value(node.args[1])
        return keywords.value(name) or keywords.without("transcript")

    def _producer(self, node: ast.Call) -> Iterator[Found]:
        """A payload that is passed to a `Producer` whose surface is written in this module."""
        match node:
            case ast.Call(func=ast.Attribute(value=receiver, attr="remind" | "notify"), args=[ast.Dict() as payload]):
                made = receiver if isinstance(receiver, ast.Call) else self._producers.get(dotted(receiver))
                surface = None if made is None else self._surface(made)
                if surface is not None:
                    table = self._source.table(payload)
                    yield Spec(surface=surface, value=table, at=table.at)

    def _surface(self, node: ast.Call) -> Surface | None:
        """The surface of a call of `Producer`; None if it is another call, or the surface is not written there."""
        if self._name(node.func) != PRODUCER:
            return None
        named = next((keyword.value for keyword in node.keywords if keyword.arg == "surface"), None)
        word = dotted(named).rpartition(".")[2] if isinstance(named, ast.Attribute) else ""
        return Surface.__members__.get(word)

    def _replace(self, node: ast.Call) -> Iterator[Found]:
        """The new body of a queued reminder."""
        if not (isinstance(node.func, ast.Attribute) and node.func.attr == REPLACE) or REPLACE in self._functions:
            return
        named = [keyword.value for keyword in node.keywords if keyword.arg == "body"]
        for written in [*node.args[1:2], *named] if self._may_be_session(node.func.value) else ():
            body = self._source.value(written)
            # The reminder has a lifetime already.
            fields = {"body": body, "ttl_turns": Scalar(value=1, at=body.at)}
            entries = tuple(TableEntry(key=key, value=value, at=body.at) for key, value in fields.items())
            yield Spec(surface=Surface.SESSION, value=Table(entries=entries, at=body.at), at=body.at)

    def _remind(self, node: ast.Call) -> Iterator[Found]:
        if not (isinstance(node.func, ast.Attribute) and node.func.attr == REMIND) or REMIND in self._functions:
            return
        if node.args and isinstance(node.args[0], ast.Dict):
            # A payload for a `Producer`.
            return
        options = self._source.keywords(node.keywords, self._source.at(node))
        telling = any(entry.key in LIFECYCLE for entry in options.entries)
        if not (self._may_be_session(node.func.value) or telling):
            return
        match node.args:
            case [ast.Starred(), *_]:
                options = msgspec.structs.replace(options, open=True)
            case [written, *_]:
                body = self._source.value(written)
                entry = TableEntry(key="body", value=body, at=body.at)
                options = msgspec.structs.replace(options, entries=(entry, *options.entries))
        yield Spec(surface=Surface.SESSION, value=options, at=options.at)

    def _hook(self, node: ast.Call) -> Iterator[Found]:
        name = self._event_name(node)
        yield from _one(None if name is None else HookEvent(name=name))
        for returned in self._callbacks(node):
            yield from self._effects(returned, Surface.HOOK, self._event(node))

    def _provider(self, node: ast.Call) -> Iterator[Found]:
        options = self._source.keywords(node.keywords, self._source.at(node))
        if node.args and isinstance(node.args[0], ast.Dict):
            options = self._source.table(node.args[0])
        named = options.get("id")
        provider_id = None if named is None else text_of(named.value)
        if named is not None and provider_id is not None:
            yield ProviderId(id=provider_id, at=named.at)
        subscribed = options.value("subscribes_to")
        for event in subscribed.items if isinstance(subscribed, Array) else (subscribed,):
            if isinstance(event, Scalar):
                yield ProviderEvent(name=event)
        for returned in self._callbacks(node):
            yield from self._effects(returned, Surface.PROVIDER, None)

    def _message(self, node: ast.Call) -> Iterator[Found]:
        """A protocol method and its parameters as arguments of any function: `send("session/remind", {...})`."""
        match node.args:
            case [ast.Constant(value=str() as method), ast.Dict() as written, *_]:
                surface, params = method_surface(method), self._source.table(written)
                if surface and ("reminder" in params or looks_like_spec(params)):
                    yield request(surface, params)

    # Hooks and what they return.

    def _event_name(self, node: ast.Call) -> Scalar | None:
        """The event that a hook is registered for; only session hooks name one."""
        if self._name(node.func) != SESSION_HOOK:
            return None
        named = [keyword.value for keyword in node.keywords if keyword.arg == "event"]
        value = next((self._source.value(name) for name in [*node.args[:1], *named]), None)
        return value if isinstance(value, Scalar) else None

    def _event(self, node: ast.Call) -> SessionEvent | WorkerEvent | None:
        name = self._event_name(node)
        try:
            return None if name is None else read_hook_event(name.value)
        except ReminderError:
            return None

    def _callbacks(self, node: ast.Call) -> Iterator[list[ast.expr]]:
        """The return expressions of each function that is passed to a registration, directly or in a dict."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in arguments:
            if isinstance(argument, ast.Dict):
                arguments.extend(argument.values)
            match argument:
                case ast.Lambda(body=body):
                    yield list(_alternatives(body))
                case ast.Name(id=name) | ast.Attribute(attr=name, value=ast.Name(id="self" | "cls")):
                    for function in self._functions.get(name, ()):
                        yield _returned(function)

    def _effects(
        self, returned: list[ast.expr], surface: Surface, event: SessionEvent | WorkerEvent | None
    ) -> Iterator[Found]:
        for expression in returned:
            yield from effects(self._source.value(expression), surface, event=event)


def _is_ours(package: str) -> bool:
    return package.partition(".")[0] == PACKAGE


def _options(value: Value | None, *, certain: bool) -> Iterator[Found]:
    """The uses in the `reminders` option of a loop."""
    yield from _one(provider_choice(value))
    yield from _one(loop_reminders(value, certain=certain))


def _one(found: Found | None) -> Iterator[Found]:
    if found is not None:
        yield found


def _returned(function: Function) -> list[ast.expr]:
    """The expressions that a function may return, without those of the functions inside it."""
    found: list[ast.expr] = []
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Return) and node.value is not None:
            found.extend(_alternatives(node.value))
        pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def _alternatives(expression: ast.expr) -> Iterator[ast.expr]:
    """The expressions that an expression may evaluate to: both branches of a conditional, for example."""
    pending = [expression]
    while pending:
        match pending.pop():
            case ast.IfExp(body=body, orelse=orelse):
                pending += [orelse, body]
            case ast.BoolOp(values=values):
                pending += reversed(values)
            case ast.NamedExpr(value=value):
                pending.append(value)
            case other:
                yield other

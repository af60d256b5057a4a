"""The uses of our interfaces in a Python module, recognised by name.

Only what is written out is judged: names, calls and f-strings are values that nobody knows before the program runs.
"""

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from sideband.core.errors import ReminderError
from sideband.core.hookevents import SessionEvent, WorkerEvent, read_hook_event
from sideband.core.surfaces import LIFECYCLE, Surface
from sideband.lint.found import Clearing, Found, HookEvent, Model, ProviderEvent, ProviderId, Spec
from sideband.lint.literals import Array, Entry, Scalar, Table, Value, text_of
from sideband.lint.pysource import Source, dotted
from sideband.lint.shapes import effects, frame, looks_like_spec, method_surface, provider_choice, request

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

PACKAGE: Final = "sideband"
# Names that other libraries could use for something else; with a dot in front they count only behind our module.
PLAIN_NAMES: Final = frozenset({"inject_reminder", "clear_reminders", "transcript_reminder_event"})
HOOKS: Final = frozenset(
    {"register_tool_hook", "register_step_hook", "register_persona_hook", "register_session_hook"},
)
PROVIDER: Final = "register_reminder_provider"
SESSION_HOOK: Final = "register_session_hook"
REMIND: Final = "remind"
TELLING_KEYS: Final = frozenset({"method", "reminders", "model"})


def found_in(source: Source) -> Iterator[Found]:
    """Everything of ours in a module."""
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
    """A module, with what its names stand for."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._functions: dict[str, list[Function]] = {}
        self._imported: dict[str, str] = {}
        for node in ast.walk(source.tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._functions.setdefault(node.name, []).append(node)
                case ast.Import(names=names):
                    self._imported |= {alias.asname or PACKAGE: "" for alias in names if _is_ours(alias.name)}
                case ast.ImportFrom(module=str(package), names=names) if _is_ours(package):
                    self._imported |= {alias.asname or alias.name: alias.name for alias in names}

    def call(self, node: ast.Call) -> Iterator[Found]:
        """What one call has to do with us."""
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
                yield from self._message(node)
        for keyword in node.keywords:
            if keyword.arg == "model" and (model := text_of(self._source.value(keyword.value))) is not None:
                yield Model(name=model)
            if keyword.arg == "reminders":
                yield from _one(provider_choice(self._source.value(keyword.value)))

    def literal(self, node: ast.Dict) -> Iterator[Found]:
        """What a dict that stands anywhere has to do with us."""
        if not any(isinstance(key, ast.Constant) and key.value in TELLING_KEYS for key in node.keys):
            return
        table = self._source.table(node)
        yield from _one(frame(table))
        yield from _one(provider_choice(table.value("reminders")))
        model = text_of(table.value("model"))
        yield from _one(None if model is None else Model(name=model))

    def decorated(self, node: Function) -> Iterator[Found]:
        """The effects of a function that a decorator registers."""
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = self._name(call.func if call else decorator)
            if name in HOOKS:
                yield from self._effects(_returned(node), Surface.HOOK, self._event(call) if call else None)
            elif name == PROVIDER:
                yield from self._effects(_returned(node), Surface.PROVIDER, None)

    def _name(self, node: ast.expr) -> str | None:
        """The function of ours that an expression names."""
        if isinstance(node, ast.Name):
            original = self._imported.get(node.id)
            return original or (None if node.id in self._functions else node.id)
        if not isinstance(node, ast.Attribute):
            return None
        root = dotted(node).partition(".")[0]
        return node.attr if node.attr not in PLAIN_NAMES or root in self._imported else None

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
            yield Clearing(selector=msgspec.structs.replace(selector, at=self._source.at(node)))

    def _options(self, node: ast.Call, name: str) -> Value | None:
        """What a pure function is given: keywords, or one mapping; None where arguments are unpacked."""
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return None
        keywords = self._source.keywords(node.keywords, self._source.at(node))
        if len(node.args) > 1:
            return self._source.value(node.args[1])
        return keywords.value(name) or keywords.without("transcript")

    def _remind(self, node: ast.Call) -> Iterator[Found]:
        if not (isinstance(node.func, ast.Attribute) and node.func.attr == REMIND) or REMIND in self._functions:
            return
        options = self._source.keywords(node.keywords, self._source.at(node))
        receiver = dotted(node.func.value).lower()
        telling = any(entry.key in LIFECYCLE for entry in options.entries)
        if not (self._imported or receiver.endswith("session") or telling):
            return
        match node.args:
            case [ast.Starred(), *_]:
                options = msgspec.structs.replace(options, open=True)
            case [written, *_]:
                body = self._source.value(written)
                entry = Entry(key="body", value=body, at=body.at)
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
        """A method of a protocol and its parameters as arguments of somebody's own function."""
        match node.args:
            case [ast.Constant(value=str() as method), ast.Dict() as written, *_]:
                surface, params = method_surface(method), self._source.table(written)
                if surface and ("reminder" in params or looks_like_spec(params)):
                    yield request(surface, params)

    # Hooks and what they return.

    def _event_name(self, node: ast.Call) -> Scalar | None:
        """The event that a hook is registered for; only hooks of a session have one to choose."""
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
        """What each function returns that is handed to a registration, by itself or in a dict."""
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


def _one(found: Found | None) -> Iterator[Found]:
    if found is not None:
        yield found


def _returned(function: Function) -> list[ast.expr]:
    """What a function may return, without what the functions inside it return."""
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
    """The expressions that an expression may come to."""
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

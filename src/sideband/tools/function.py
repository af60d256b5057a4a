"""Tools from plain functions: the JSON Schema comes from the type hints and the docstring.

A function that is not a coroutine function runs in a thread, so that it cannot block the event loop.
"""

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import UNSET, UnsetType

from sideband.core.errors import InvalidOption, shown
from sideband.core.serialize import non_finite
from sideband.ports import FileChange, Tool, ToolContext, ToolOutput, Watcher
from sideband.threads import run_in_thread
from sideband.tools.tool import Arguments, Refused, decode, outlast

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")

# What `tools=` accepts: tools, functions, and sequences of tools such as that of `workspace_tools`.
ToolLike: TypeAlias = Tool | Callable[..., Any] | Sequence[Tool]

# The names that every model API accepts.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

# The result of a function that returns None.
NO_VALUE: Final = "The tool returned no value."


# The tools of a run.


def read_tools(tools: object) -> tuple[Tool, ...]:
    """The tools of the option `tools`, in order: functions become tools, and sequences of tools are joined.

    `InvalidOption` names the place of a value that is not a tool, and of two tools with the same name.
    """
    places: dict[str, str] = {}
    read: list[Tool] = []
    for place, one in _each(tools, "tools"):
        if one.name in places:
            raise InvalidOption(
                f"{places[one.name]} and {place} have the same name, {shown(one.name)}; "
                "give one of them another name, for example with sideband.tool(function, name='...')",
                field=place,
                value=one.name,
            )
        places[one.name] = place
        read.append(one)
    return tuple(read)


def _each(tools: object, place: str) -> Iterator[tuple[str, Tool]]:
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        hint = "; write tools=[...] around it" if callable(tools) or hasattr(tools, "call") else ""
        raise InvalidOption(
            f"{place} must be a list of tools and functions, not {shown(tools)}{hint}", field=place, value=tools
        )
    for index, one in enumerate(tools):
        here = f"{place}[{index}]"
        if isinstance(one, Sequence) and not isinstance(one, str | bytes):
            yield from _each(one, here)
        elif hasattr(one, "call"):
            yield here, _checked(one, here)
        elif callable(one):
            yield here, _make(one, place=here)
        else:
            raise InvalidOption(
                f"{here} must be a function with type hints, or an object with "
                f"{', '.join(_PARTS)} and call(), not {shown(one)}",
                field=here,
                value=one,
            )


# What a tool has besides `call`, and the type of each part.
_PARTS: Final[Mapping[str, type]] = {"name": str, "description": str, "parameters": Mapping, "idempotent": bool}


def _checked(one: object, place: str) -> Tool:
    if isinstance(one, type):
        raise InvalidOption(
            f"{place} is the class {one.__name__}; pass an instance of it: {one.__name__}(...)", field=place, value=one
        )
    for part, kind in _PARTS.items():
        value = getattr(one, part, None)
        if not isinstance(value, kind) or (part == "name" and not value):
            expected = {str: "a string", bool: "True or False"}.get(kind, "a JSON Schema")
            problem = f"must be {expected}, not {shown(value)}" if hasattr(one, part) else "is missing"
            raise InvalidOption(f"{place}: {part!r} of the tool {problem}", field=place, value=value)
    if not callable(cast("Any", one).call):
        raise InvalidOption(f"{place}: 'call' of the tool must be a method", field=place, value=one)
    return cast("Tool", one)


class JoinedWatcher:
    """Several watchers as one."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = tuple(watchers)

    def changes(self) -> tuple[FileChange, ...]:
        return tuple(change for watcher in self._watchers for change in watcher.changes())


def watcher_of(given: object, tools: Sequence[Tool]) -> Watcher | None:
    """What watches the files that these tools read and write; None if nothing does.

    A tool may have an attribute `watcher`. Otherwise the sequence that was given as `tools` may be a watcher.
    """
    found = {id(own): own for own in (getattr(one, "watcher", None) for one in tools) if isinstance(own, Watcher)}
    if not found:
        return given if isinstance(given, Watcher) else None
    return JoinedWatcher(tuple(found.values())) if len(found) > 1 else next(iter(found.values()))


# Tools from functions.


class FunctionTool(Generic[_Params, _Result]):
    """A tool made from a function; it can still be called like the function.

    `seconds` is the time limit of a call (None: `tool_seconds` of the run).
    """

    def __init__(
        self,
        function: Callable[_Params, _Result],
        *,
        name: str,
        description: str,
        idempotent: bool,
        seconds: float | None,
        signature: "ToolSignature",
    ) -> None:
        self.name = name
        self.description = description
        self.idempotent = idempotent
        self.seconds = seconds
        self.function = function
        self._signature = signature

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._signature.schema

    def __call__(self, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            arguments = self._signature.read(self.name, args)
        except Refused as refusal:
            return ToolOutput(text=str(refusal), is_error=True)
        arguments |= dict.fromkeys(self._signature.contexts, context)
        call = functools.partial(cast("Callable[..., Any]", self.function), **arguments)
        return _output(await call() if _is_async(self.function) else await _call_in_thread(call))


async def _call_in_thread(call: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the function returns
    future = run_in_thread(call)
    # Cancelling does not stop the thread, so wait for its end; the loop abandons a call that takes too long to stop.
    cancelled = await outlast(future)
    if cancelled is not None:
        raise cancelled
    value, error = future.result()
    if error is not None:
        raise error
    return await value if isinstance(value, Awaitable) else value


@overload
def tool(
    function: Callable[_Params, _Result],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds: float | None = None,
) -> FunctionTool[_Params, _Result]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds: float | None = None,
) -> Callable[[Callable[_Params, _Result]], FunctionTool[_Params, _Result]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds: float | None = None,
) -> Any:
    """Make a tool from a function: `@tool`, `@tool(idempotent=True)`, or `tool(function, name="…")`.

    The schema of the arguments comes from the type hints. Descriptions come from the docstring (in Google's or Sphinx's
    style) or from `Annotated[str, "…"]`. A parameter with the type `ToolContext` gets the context of the call and is not
    shown to the model. Without `name` and `description` the tool has those of the function. An `idempotent` tool may be
    run again if it is not known whether it ran. `seconds` is the time limit of a call (None: `tool_seconds` of the run).

    The model gets a returned string as it is, and other values as JSON, or as `str()` writes them if JSON cannot.
    """
    options = _ToolOptions(name, description, idempotent, seconds)
    return functools.partial(_make, options=options) if function is None else _make(function, options=options)


class _ToolOptions(NamedTuple):
    name: str | None = None
    description: str | None = None
    idempotent: bool = False
    seconds: float | None = None


_FROM_THE_FUNCTION: Final = _ToolOptions()


def _make(
    function: object, *, options: _ToolOptions = _FROM_THE_FUNCTION, place: str = "tool"
) -> FunctionTool[..., Any]:
    """The tool of a function; errors name the function by its `place`."""
    if isinstance(function, FunctionTool):
        function = function.function
    if not callable(function) or isinstance(function, type):
        raise InvalidOption(
            f"{place} must be a function, a method or an object that can be called, not {shown(function)}",
            field=place,
            value=function,
        )
    target = _target(function)
    name = _read_name(target, options.name, place)
    where = f"{place}, {name}()"
    seconds: object = options.seconds
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise InvalidOption(
            f"{where}: seconds must be a number above 0, or None for the limit of the run, not {shown(seconds)}",
            field="seconds",
            value=seconds,
        )
    documented = _read_docstring(inspect.getdoc(target) or "")
    description: object = documented.text if options.description is None else options.description
    if not isinstance(description, str):
        raise InvalidOption(
            f"{where}: description must be a string, not {shown(description)}", field="description", value=description
        )
    return FunctionTool(
        function,
        name=name,
        description=description,
        idempotent=bool(options.idempotent),
        seconds=options.seconds,
        signature=_read_signature(function, documented.parameters, where),
    )


def _target(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or method that has the hints and the docstring: that of a partial, or `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else cast("Any", function).__call__


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(_target(function))


def _read_name(target: Callable[..., Any], given: object, place: str) -> str:
    name = getattr(target, "__name__", "") if given is None else given
    if given is None and name in ("", "__call__"):
        raise InvalidOption(
            f"{place} is an object without a name; give it one: sideband.tool(object, name='...')", field="name"
        )
    if name == "<lambda>":
        raise InvalidOption(
            f"{place} is a lambda, which has no name and no type hints; write it as a function with def", field="name"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidOption(
            f"{place}: the name of a tool must have 1 to 64 letters, digits, _ or - of ASCII, not {shown(name)}; "
            "choose one with sideband.tool(function, name='...')",
            field="name",
            value=name,
        )
    return name


# Signatures.


class ToolSignature(NamedTuple):
    """What a function takes: the record and the JSON Schema of its arguments, and the parameters for the context.

    `nullable` has the parameters that may be None. Null for any other parameter means that it is left out.
    """

    arguments: type[Arguments]
    schema: Mapping[str, Any]
    nullable: frozenset[str]
    contexts: tuple[str, ...]

    def read(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for a call of the function; `Refused` if the given ones do not fit."""
        present = {key: value for key, value in given.items() if value is not None or key in self.nullable}
        read = decode(name, self.arguments, present, schema=self.schema, dec_hook=_decoded)
        return {key: value for key, value in msgspec.structs.asdict(read).items() if value is not UNSET}


_REFUSED_KINDS: Final[Mapping[object, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, which a model cannot give by name; "
    "use a parameter of the type list",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, which no schema describes; "
    "name each parameter, or use one of the type dict",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and a model gives arguments by name; remove the '/'",
}


def _read_signature(function: Callable[..., Any], descriptions: Mapping[str, str], where: str) -> ToolSignature:
    target = _target(function)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise InvalidOption(
            f"{where} is a generator, and a tool has one result; return a list", field="tool", value=function
        )
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(target, include_extras=True)
    except (ValueError, TypeError, NameError, AttributeError) as error:
        raise InvalidOption(
            f"{where}: its parameters cannot be read: {error}; their types must be names that its module has",
            field="tool",
            value=function,
        ) from None
    bound = function.keywords if isinstance(function, functools.partial) else {}
    properties: dict[str, Any] = {}
    fields: list[Any] = []
    contexts: list[str] = []
    for name, parameter in parameters.items():
        if name in bound:
            # The program has chosen the value, so the model does not see the parameter.
            continue
        _check_parameter(name, parameter, hints, where)
        if _is_context(hints[name]):
            contexts.append(name)
            continue
        properties[name] = _property(name, hints[name], parameter.default, descriptions.get(name), where)
        optional = parameter.default is not parameter.empty
        fields.append((name, Union[hints[name], UnsetType], UNSET) if optional else (name, hints[name]))  # noqa: UP007 - the hint may be a string or a TypeVar
    schema = {
        "type": "object",
        "properties": properties,
        "required": [field[0] for field in fields if len(field) == _REQUIRED],
        "additionalProperties": False,
    }
    arguments = msgspec.defstruct("FunctionArguments", fields, bases=(Arguments,), kw_only=True, frozen=True)
    nullable = frozenset(name for name in properties if _accepts_none(hints[name]))
    return ToolSignature(cast("type[Arguments]", arguments), schema, nullable, tuple(contexts))


# The length of the definition of a field without a default.
_REQUIRED: Final = 2


def _check_parameter(name: str, parameter: inspect.Parameter, hints: Mapping[str, Any], where: str) -> None:
    problem = _REFUSED_KINDS.get(parameter.kind)
    if problem is None and name.startswith("__"):
        problem = "is positional-only because of its name; rename it"
    if problem is None and name not in hints:
        problem = f"has no type hint; write {name}: str, for example"
        if name == "self":
            problem = "has no type hint; pass the method of an object: tools=[object.method]"
    if problem is not None:
        raise InvalidOption(f"{where}: the parameter {shown(name)} {problem}", field=name)


def _is_context(hint: object) -> bool:
    """Whether the hint is `ToolContext`, also in `Annotated` or as one of several types."""
    return hint is ToolContext or any(map(_is_context, get_args(hint)))


def _accepts_none(hint: object) -> bool:
    with suppress(msgspec.ValidationError):
        msgspec.convert(None, type=hint, dec_hook=_decoded)
        return True
    return False


# JSON Schema.


def _property(name: str, hint: object, default: object, documented: str | None, where: str) -> dict[str, Any]:
    """The schema of one parameter."""
    try:
        (schema,), components = msgspec.json.schema_components(
            (hint,), schema_hook=_custom_schema, ref_template=_REFERENCE
        )
        inlined: dict[str, Any] = _inlined(schema, _named(components))
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[-1].replace("`", "")
        raise InvalidOption(
            f"{where}: the type of the parameter {shown(name)} has no JSON Schema: {reason}. Use str, int, float, bool, "
            "list, dict, Literal, an Enum, a TypedDict, a dataclass, a msgspec.Struct or a pydantic model",
            field=name,
            value=hint,
        ) from None
    description = next(_descriptions(hint), None) or documented
    if description:
        inlined["description"] = description
    if default is not inspect.Parameter.empty and default is not None:
        # A default that JSON does not have is not shown; it is used all the same.
        with suppress(TypeError, ValueError, OverflowError, NotImplementedError):
            inlined["default"] = msgspec.json.decode(msgspec.json.encode(default, enc_hook=_encoded))
    return inlined


def _descriptions(hint: object) -> Iterator[str]:
    """The descriptions in `Annotated`: a string, or an object with a description, such as msgspec's `Meta`."""
    if get_origin(hint) is Annotated:
        for note in get_args(hint)[1:]:
            text = note if isinstance(note, str) else getattr(note, "description", None)
            if isinstance(text, str) and text:
                yield text
    elif UnsetType in get_args(hint) or type(None) in get_args(hint):
        for inner in get_args(hint):
            yield from _descriptions(inner)


_REFERENCE: Final = "#/$defs/{name}"
# The keywords of JSON Schema whose value is a schema, a list of schemas, or an object with schemas by name.
_ONE: Final = frozenset({"items", "additionalProperties", "not"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_OBJECTS: Final = frozenset({"properties", "patternProperties"})


def _named(definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {_REFERENCE.format(name=name): schema for name, schema in definitions.items()}


def _inlined(schema: Any, definitions: Mapping[str, Any], inside: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - a schema is an object or a truth value
    """The schema without references, because not every model API resolves them, and without titles."""
    if not isinstance(schema, dict):
        return schema
    definitions = {**definitions, **_named(schema.get("$defs", {}))}
    reference = schema.get("$ref")
    if reference is not None:
        if reference in inside:
            raise TypeError("it refers to itself")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**definitions[reference], **beside}, definitions, (*inside, reference))

    def read(inner: object) -> Any:  # noqa: ANN401 - see above
        return _inlined(inner, definitions, inside)

    inlined = {}
    for key, value in schema.items():
        if key in _ONE:
            inlined[key] = read(value)
        elif key in _LISTS:
            inlined[key] = [read(inner) for inner in value]
        elif key in _OBJECTS:
            inlined[key] = {name: read(inner) for name, inner in value.items()}
        elif key not in ("$defs", "title"):
            inlined[key] = value
    if all(isinstance(word, str) for word in inlined.get("enum", (None,))):
        # Some model APIs need the type, which msgspec leaves out.
        inlined = {"type": "string", **inlined}
    return inlined


# Types that msgspec does not have: any object, paths, and pydantic models, which are recognised without an import.


def _is_pydantic(kind: object) -> bool:
    return hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def _custom_schema(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a type
    if kind is object:
        # msgspec refuses an empty schema, and titles are removed.
        return {"title": "anything"}
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    if _is_pydantic(kind):
        schema: dict[str, Any] = kind.model_json_schema()
        return schema
    raise NotImplementedError


def _decoded(kind: Any, value: Any) -> Any:  # noqa: ANN401 - a type, and a JSON value for it
    if kind is object:
        return value
    if _is_pydantic(kind):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise ValueError(_pydantic_error(error)) from None
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")  # noqa: TRY004 - msgspec adds the path to it
    return kind(value)


def _pydantic_error(error: Any) -> str:  # noqa: ANN401 - pydantic's ValidationError
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _encoded(value: Any) -> Any:  # noqa: ANN401 - any object, and a JSON value for it
    if isinstance(value, PurePath):
        return str(value)
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json")
    raise NotImplementedError


# Results.


def _output(result: object) -> ToolOutput:
    match result:
        case ToolOutput():
            return result
        case None:
            return ToolOutput(text=NO_VALUE)
        case str():
            # Plain text also for an enumeration of strings.
            return ToolOutput(text=str.__str__(result))
        case bytes():
            return ToolOutput(text=result.decode("utf-8", "replace"))
        case _:
            return ToolOutput(text=_json(result))


def _json(result: object) -> str:
    try:
        raw = msgspec.json.encode(result, enc_hook=_encoded)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        return str(result)
    # The encoder writes null for NaN and infinity.
    return str(result) if b"null" in raw and any(True for _ in non_finite(result)) else raw.decode()


# Docstrings.

_GOOGLE: Final = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_SPHINX: Final = re.compile(r":(param|parameter|arg|argument|key|keyword|type|rtype)\b([^:]*):\s*(.*)")
_ABOUT_TYPES: Final = frozenset({"type", "rtype"})


class Documented(NamedTuple):
    """A docstring without the descriptions of parameters, and these by name."""

    text: str
    parameters: Mapping[str, str]


def _read_docstring(docstring: str) -> Documented:
    text: list[str] = []
    found: dict[str, list[str]] = {}
    # The description that the next indented line continues; None outside of one.
    current: list[str] | None = None
    depth: int | None = None
    in_section = False
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        content = line.strip()
        if content and not indent:
            current, depth, in_section = None, None, _GOOGLE.fullmatch(line) is not None
        if in_section:
            if indent:
                depth = indent if depth is None else depth
                entry = _GOOGLE_ENTRY.fullmatch(content) if indent <= depth else None
                if entry is not None:
                    current = found.setdefault(entry[1], [])
                    content = entry[2]
                if current is not None:
                    current.append(content)
        elif (entry := _SPHINX.fullmatch(line)) is not None:
            named = entry[2].split()
            current = [] if entry[1] in _ABOUT_TYPES or not named else found.setdefault(named[-1], [])
            current.append(entry[3])
        elif current is not None and indent:
            current.append(content)
        else:
            text.append(line)
    return Documented("\n".join(text).strip(), {name: " ".join(lines).strip() for name, lines in found.items()})

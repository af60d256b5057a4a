"""What a function takes: the arguments and their JSON Schema, from its type hints and its docstring."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from types import SimpleNamespace
from typing import Annotated, Any, Final, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from sideband.core.errors import InvalidOption, shown, suggestion
from sideband.ports import ToolContext
from sideband.tools.tool import Arguments, Refused, decode, without_nulls

# Functions.


def target_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or method that has the hints and the docstring: that of a partial, or `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else cast("Any", function).__call__


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(target_of(function))


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
        present = without_nulls(self.arguments, given, nullable=self.nullable)
        for key, value in present.items():
            wrong = _unknown_field(value, self.schema["properties"].get(key, {}), key)
            if wrong is not None:
                raise Refused(f"{name}: {wrong}.")
        read = decode(name, self.arguments, present, schema=self.schema, dec_hook=_decoded)
        return {key: _completed(value) for key, value in msgspec.structs.asdict(read).items() if value is not UNSET}


def _unknown_field(value: object, schema: Mapping[str, Any], where: str) -> str | None:
    """The first field in a value that its schema does not have, which converting would ignore; None if there is none."""
    branches = schema.get("anyOf")
    if branches is not None:
        kind = "object" if isinstance(value, dict) else "array"
        fitting = [branch for branch in branches if branch.get("type", kind) == kind]
        wrong = [_unknown_field(value, branch, where) for branch in fitting]
        return wrong[0] if wrong and None not in wrong else None
    if isinstance(value, list):
        entries = [(f"{where}[{place}]", entry) for place, entry in enumerate(value)]
        schemas = [*schema.get("prefixItems", ()), *([schema.get("items")] * len(value))]
    elif isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key in value:
            if key not in known and others is False:
                return f"{where} has no field {shown(key)}; {suggestion(key, known, kind='fields')}"
        entries = [(f"{where}.{key}", entry) for key, entry in value.items()]
        schemas = [known.get(key, others) for key in value]
    else:
        return None
    found = (
        _unknown_field(entry, inner, place)
        for (place, entry), inner in zip(entries, schemas, strict=False)
        if isinstance(inner, dict)
    )
    return next((wrong for wrong in found if wrong is not None), None)


def _completed(value: Any) -> Any:  # noqa: ANN401 - any argument
    """The argument, with the defaults of its dataclasses set: msgspec leaves them to the class, and does not write them."""
    inner: Iterable[object] = ()
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            object.__setattr__(value, field.name, getattr(value, field.name))
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, msgspec.Struct):
        inner = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    for entry in inner:
        _completed(entry)
    return value


_REFUSED_KINDS: Final[Mapping[object, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, which a model cannot give by name; "
    "use a parameter of the type list",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, which no schema describes; "
    "name each parameter, or use one of the type dict",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and a model gives arguments by name; remove the '/'",
}


def read_signature(function: Callable[..., Any], descriptions: Mapping[str, str], where: str) -> ToolSignature:
    target = target_of(function)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise InvalidOption(
            f"{where} is a generator, and a tool has one result; return a list", field="tool", value=function
        )
    try:
        parameters = inspect.signature(function).parameters
        hints = _hints(target)
    except (ValueError, TypeError, NameError, AttributeError) as error:
        raise InvalidOption(
            f"{where}: its parameters cannot be read: {_why_unreadable(function, error)}", field="tool", value=function
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


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    """The type hints of the parameters. That of the result may be a name that only a type checker knows."""
    given = {name: hint for name, hint in getattr(target, "__annotations__", {}).items() if name != "return"}
    described = SimpleNamespace(__annotations__=given, __type_params__=getattr(target, "__type_params__", ()))
    return get_type_hints(described, globalns=getattr(inspect.unwrap(target), "__globals__", {}), include_extras=True)


def _why_unreadable(function: object, error: Exception) -> str:
    if isinstance(function, functools.partial) and isinstance(error, TypeError | ValueError):
        return "the partial binds an argument that its function does not take"
    if isinstance(error, ValueError):
        return "Python does not know them; write a function with type hints that calls it"
    return f"{error}; their types must be names that its module has"


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
        raise InvalidOption(
            f"{where}: the type of the parameter {shown(name)} has no JSON Schema: {_advice(str(error))}",
            field=name,
            value=hint,
        ) from None
    description = next(_descriptions(hint), None) or documented
    if description:
        inlined["description"] = description
    if default is not inspect.Parameter.empty and default is not None:
        # A default that JSON does not have is not shown; it is used all the same.
        with suppress(TypeError, ValueError, OverflowError, NotImplementedError):
            inlined["default"] = msgspec.json.decode(msgspec.json.encode(default, enc_hook=encoded))
    return inlined


def _advice(reason: str) -> str:
    """The reason why a type has no schema, and what to use instead."""
    reason = reason.splitlines()[-1].replace("`", "")
    if _ITSELF in reason:
        return f"{reason}, and not every model can resolve that; use dict for the inner value"
    if reason.startswith("Enums must"):
        return f"{reason}. Make all values of the enum strings"
    return (
        f"{reason}. Use str, int, float, bool, list, dict, Literal, an Enum, a TypedDict, a dataclass, a msgspec.Struct "
        "or a pydantic model"
    )


_ITSELF: Final = "it refers to itself"


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


# Marks the schema of a pydantic model, which says itself whether the model takes other fields.
_FOREIGN: Final = "x-pydantic"


def _inlined(
    schema: Any,  # noqa: ANN401 - a schema is an object or a truth value
    definitions: Mapping[str, Any],
    inside: tuple[str, ...] = (),
    *,
    closes: bool = True,
) -> Any:  # noqa: ANN401 - see above
    """The schema without references, because not every model API resolves them, and without titles.

    With `closes`, an object with named fields has no others.
    """
    if not isinstance(schema, dict):
        return schema
    closes = closes and _FOREIGN not in schema
    definitions = {**definitions, **_named(schema.get("$defs", {}))}
    reference = schema.get("$ref")
    if reference is not None:
        if reference in inside:
            raise TypeError(_ITSELF)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**definitions[reference], **beside}, definitions, (*inside, reference), closes=closes)

    def read(inner: object) -> Any:  # noqa: ANN401 - see above
        return _inlined(inner, definitions, inside, closes=closes)

    inlined = {}
    for key, value in schema.items():
        if key in _ONE:
            inlined[key] = read(value)
        elif key in _LISTS:
            inlined[key] = [read(inner) for inner in value]
        elif key in _OBJECTS:
            inlined[key] = {name: read(inner) for name, inner in value.items()}
        elif key not in ("$defs", "title", _FOREIGN):
            inlined[key] = value
    if closes and "properties" in inlined:
        inlined.setdefault("additionalProperties", False)
    kinds = {type(word) for word in inlined.get("enum", ())}
    if len(kinds) == 1 and (kind := _ENUM_TYPES.get(kinds.pop())) is not None:
        # Some model APIs need the type, which msgspec leaves out.
        inlined = {"type": kind, **inlined}
    return inlined


_ENUM_TYPES: Final[Mapping[type, str]] = {str: "string", int: "integer"}


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
        return {**kind.model_json_schema(), _FOREIGN: True}
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


def encoded(value: Any) -> Any:  # noqa: ANN401 - any object, and a JSON value for it
    if isinstance(value, PurePath):
        return str(value)
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json")
    raise NotImplementedError


# Docstrings.

_GOOGLE: Final = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_SPHINX: Final = re.compile(r":(param|parameter|arg|argument|key|keyword|type|rtype)\b([^:]*):\s*(.*)")
_ABOUT_TYPES: Final = frozenset({"type", "rtype"})


class Documented(NamedTuple):
    """A docstring without the descriptions of parameters, and these by name."""

    text: str
    parameters: Mapping[str, str]


def read_docstring(docstring: str) -> Documented:
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

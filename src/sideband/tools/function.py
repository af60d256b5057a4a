"""Tools from plain functions, and the tools of a run; `schema.py` reads the signatures of functions.

A function that is not a coroutine function runs in a thread, so that it cannot block the event loop.
"""

import functools
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast, overload

import msgspec

from sideband.core.errors import InvalidOption, shown
from sideband.core.serialize import lost_number
from sideband.ports import FileChange, Tool, ToolContext, ToolOutput, Watcher
from sideband.threads import run_in_thread
from sideband.tools.schema import ToolSignature, encoded, is_async, read_docstring, read_signature, target_of
from sideband.tools.tool import Refused, outlast

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
        signature: ToolSignature,
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
        return _output(await call() if is_async(self.function) else await _call_in_thread(call))


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
    if isinstance(function, type):
        raise InvalidOption(
            f"{place} is the class {function.__name__}; pass a function, or an instance that can be called, with a name: "
            f"sideband.tool({function.__name__}(...), name='...')",
            field=place,
            value=function,
        )
    if not callable(function):
        raise InvalidOption(
            f"{place} must be a function, a method or an object that can be called, not {shown(function)}",
            field=place,
            value=function,
        )
    target = target_of(function)
    name = _read_name(target, options.name, place)
    where = f"{place}, {name}()"
    seconds: object = options.seconds
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise InvalidOption(
            f"{where}: seconds must be a number above 0, or None for the limit of the run, not {shown(seconds)}",
            field="seconds",
            value=seconds,
        )
    idempotent: object = options.idempotent
    if not isinstance(idempotent, bool):
        raise InvalidOption(
            f"{where}: idempotent must be True or False, not {shown(idempotent)}", field="idempotent", value=idempotent
        )
    documented = read_docstring(inspect.getdoc(target) or "")
    description: object = documented.text if options.description is None else options.description
    if not isinstance(description, str):
        raise InvalidOption(
            f"{where}: description must be a string, not {shown(description)}", field="description", value=description
        )
    return FunctionTool(
        function,
        name=name,
        description=description,
        idempotent=options.idempotent,
        seconds=options.seconds,
        signature=read_signature(function, documented.parameters, where),
    )


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
        case Iterator() | AsyncIterator():
            return ToolOutput(
                text=f"the tool returned a {type(result).__name__}, which has no text; it must return a list",
                is_error=True,
            )
        case _:
            return ToolOutput(text=_json(result))


def _json(result: object) -> str:
    try:
        raw = msgspec.json.encode(result, enc_hook=encoded)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        return str(result)
    return raw.decode() if lost_number(result, raw) is None else str(result)

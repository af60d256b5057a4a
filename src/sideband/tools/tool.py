"""What every built-in tool shares: validated arguments, their JSON Schema, readable refusals, and work in threads.

File access blocks, so tools run it in a thread; a cancelled caller waits until the thread has ended.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sideband.core.errors import nearest
from sideband.core.serialize import explained as explained_error
from sideband.ports import ToolContext, ToolOutput, Watcher
from sideband.threads import run_in_thread


class Refused(Exception):
    """A tool refuses a call; the message is the result that the model reads, and says what to do instead."""


@contextmanager
def explained(path: object) -> Iterator[None]:
    """Turn an `OSError` into `Refused` with the path as the model knows it."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from error


DEFAULT_SECONDS: Final = 60
MAX_DEPTH: Final = 8


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the arguments of a tool; the field descriptions are read by the model."""


class ReadFile(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    start: Annotated[int, Meta(ge=1, description="First line to read, counted from 1.")] = 1
    end: (
        Annotated[int, Meta(ge=1, description="Last line to read; by default the last line of the file.")] | UnsetType
    ) = UNSET


class WriteFile(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The file, relative to the workspace; missing folders are made.")]
    content: Annotated[str, Meta(description="The complete new content of the file.")]


class EditFile(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    old_string: Annotated[str, Meta(min_length=1, description="The exact text to replace, white space included.")]
    new_string: Annotated[str, Meta(description="The text that replaces it.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False


class ListDir(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The folder, relative to the workspace.")] = "."
    depth: Annotated[int, Meta(ge=1, le=MAX_DEPTH, description="How many levels of folders to show.")] = 1


class Search(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(min_length=1, description="The text that a line must contain, taken literally.")]
    regex: Annotated[bool, Meta(description="Read the pattern as a Python regular expression.")] = False
    path: Annotated[str, Meta(description="The folder or file to search, relative to the workspace.")] = "."
    glob: (
        Annotated[str, Meta(min_length=1, description="Only files like this: *.py or src/**/*.{ts,tsx}.")] | UnsetType
    ) = UNSET


class Run(Arguments, frozen=True, kw_only=True):
    command: Annotated[
        Annotated[str, Meta(min_length=1)] | Annotated[list[str], Meta(min_length=1)],
        Meta(description="A line for the shell, or a program and its arguments as a list, run without a shell."),
    ]
    cwd: Annotated[str, Meta(description="The folder to run it in, relative to the workspace.")] = "."
    timeout: int = DEFAULT_SECONDS


@cache
def run_within(most: int) -> type[Run]:
    """The arguments of `run` with `most` seconds as the upper limit of `timeout`."""

    class RunWithin(Run, frozen=True, kw_only=True):
        timeout: Annotated[int, Meta(ge=1, le=most, description="Seconds after which it is killed.")] = min(
            DEFAULT_SECONDS, most
        )

    return RunWithin


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


@cache
def schema_of(kind: type[Arguments]) -> Mapping[str, Any]:
    """The JSON Schema of the arguments, without references, because not every model API resolves them."""
    _, components = msgspec.json.schema_components((kind,))
    schema = components[kind.__name__]
    # Redundant with the tool's own name and description, and sent with every request.
    return {key: value for key, value in schema.items() if key not in {"title", "description"}}


def without_nulls(kind: type[Arguments], given: Mapping[str, Any], *, nullable: Container[str] = ()) -> dict[str, Any]:
    """The arguments without null for optional ones: models that fill in every argument send it for what they leave out."""
    optional = {field.name for field in msgspec.structs.fields(kind) if not field.required}
    return {
        name: value for name, value in given.items() if value is not None or name in nullable or name not in optional
    }


def decode(
    tool: str,
    kind: type[ArgumentsT],
    given: Mapping[str, Any],
    *,
    schema: Mapping[str, Any],
    dec_hook: Callable[[type, Any], Any] | None = None,
) -> ArgumentsT:
    """The arguments as a record; `Refused` names the first argument that does not fit, its value and what is allowed."""
    try:
        decoded = msgspec.convert(given, type=kind, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        what, where, _ = explained_error(str(error), given, schema)
        raise Refused(f"{tool}: {f'{where}: ' if where else ''}{what}. {_usage(kind, given)}") from None
    for name, text in _texts(decoded):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused(f"{tool}: {name} contains an unpaired surrogate, which cannot be encoded as UTF-8.") from None
    return decoded


def _usage(kind: type[Arguments], present: Mapping[str, object]) -> str:
    fields = msgspec.structs.fields(kind)
    known = [field.name for field in fields]
    listed = ", ".join(field.name if field.required else f"{field.name} (optional)" for field in fields)
    near = {
        name: match for name in map(str, present) if name not in known and (match := nearest(name, known)) is not None
    }
    hints = "".join(f" Did you mean {match} instead of {name}?" for name, match in near.items())
    return f"It takes {listed or 'no arguments'}.{hints}"


def _texts(arguments: Arguments) -> Iterator[tuple[str, str]]:
    for name, value in msgspec.structs.asdict(arguments).items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield name, text


class WorkspaceTool(msgspec.Struct, Generic[ArgumentsT], frozen=True, kw_only=True):
    """One built-in tool; `perform` gets validated arguments.

    `seconds` is the time after which even the longest call has ended by itself and returned what it has so far; None
    means no limit of its own. A caller that cancels earlier loses that partial result. `watcher` reports changes to the
    files that the tool has read or written (None: it reads and writes none).
    """

    name: str
    description: str
    arguments: type[ArgumentsT]
    idempotent: bool
    perform: Callable[[ArgumentsT, ToolContext], Awaitable[ToolOutput]]
    seconds: float | None = None
    watcher: Watcher | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        return schema_of(self.arguments)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            present = without_nulls(self.arguments, args)
            arguments = decode(self.name, self.arguments, present, schema=self.parameters)
            return await self.perform(arguments, context)
        except Refused as refusal:
            return ToolOutput(text=str(refusal), is_error=True)


T = TypeVar("T")


class Halted(Exception):
    """The work stopped because its caller was cancelled."""


class Halt:
    """A request to stop, which the thread checks; a thread cannot be cancelled from outside."""

    def __init__(self) -> None:
        self._set = False
        self._stops: list[Callable[[], object]] = []
        # Protects both fields: a stop that is added while the halt is set is called exactly once.
        self._lock = threading.Lock()

    def set(self) -> None:
        with self._lock:
            self._set = True
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def check(self) -> None:
        if self._set:
            raise Halted

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Within the block a halt also calls `stop`, for a wait that cannot check the halt itself."""
        with self._lock:
            self.check()
            self._stops.append(stop)
        try:
            yield
        finally:
            with self._lock:
                if stop in self._stops:
                    self._stops.remove(stop)


async def outlast(
    future: asyncio.Future[Any], on_cancel: Callable[[], object] = lambda: None
) -> asyncio.CancelledError | None:
    """Wait until `future` is done, even if cancelled; return the cancellation for the caller to raise."""
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            on_cancel()
    return cancelled


async def offload(
    work: Callable[[Halt], T], landed: Callable[[T], object] = lambda _: None, *, waits: bool = False
) -> T:
    """Run `work` in a thread; on cancellation, ask it to halt and wait for its end before raising.

    `landed` gets the result even if the caller was cancelled, because the work has taken effect. Work that `waits` for
    another program has a thread of its own, so that it does not occupy the few threads that all tools share.
    """
    halt = Halt()
    future = asyncio.ensure_future(_in_own_thread(work, halt) if waits else asyncio.to_thread(work, halt))
    cancelled = await outlast(future, halt.set)
    if cancelled is None:
        result = future.result()
        landed(result)
        return result
    if not future.cancelled() and future.exception() is None:
        landed(future.result())
    raise cancelled


async def _in_own_thread(work: Callable[[Halt], T], halt: Halt) -> T:
    result = await run_in_thread(lambda: work(halt))
    if result.error is not None:
        raise result.error
    value: T = result.value
    return value

"""What each tool is called with: the records, the JSON Schema made of them, and strict reading with clear errors."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sideband.tools.refusal import Refused

DEFAULT_SECONDS: Final = 60
MAX_DEPTH: Final = 8


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool; a description of a field is written for the model."""


class ReadFile(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    start: Annotated[int, Meta(ge=1, description="First line to read, counted from 1.")] = 1
    end: Annotated[int, Meta(ge=1, description="Last line to read; left out: to the end.")] | UnsetType = UNSET


class WriteFile(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The file, relative to the workspace; missing folders are made.")]
    content: Annotated[str, Meta(description="All that the file is to hold.")]


class EditFile(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    old_string: Annotated[str, Meta(min_length=1, description="The exact text to replace, white space included.")]
    new_string: Annotated[str, Meta(description="What to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False


class ListDir(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The folder, relative to the workspace.")] = "."
    depth: Annotated[int, Meta(ge=1, le=MAX_DEPTH, description="How many levels of folders to show.")] = 1


class Search(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(min_length=1, description="What a line has to contain, taken literally.")]
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
    """The arguments of a command that may take so many seconds at most."""

    class RunWithin(Run, frozen=True, kw_only=True):
        timeout: Annotated[int, Meta(ge=1, le=most, description="Seconds after which it is killed.")] = min(
            DEFAULT_SECONDS, most
        )

    return RunWithin


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


@cache
def schema_of(kind: type[Arguments]) -> Mapping[str, Any]:
    """The JSON Schema of the arguments, without references, as every wire takes it."""
    _, components = msgspec.json.schema_components((kind,))
    schema = components[kind.__name__]
    # The tool's own name and description say it better, and these would be paid for in every request.
    return {key: value for key, value in schema.items() if key not in {"title", "description"}}


def decode(tool: str, kind: type[ArgumentsT], given: Mapping[str, Any]) -> ArgumentsT:
    """The arguments as a record; null reads as absent, anything else that does not fit is refused with its name."""
    present = {name: value for name, value in given.items() if value is not None}
    try:
        decoded = msgspec.convert(present, type=kind)
    except msgspec.ValidationError as error:
        raise Refused(f"{tool}: {_said(error)}. {_usage(kind, present)}") from None
    for name, text in _texts(decoded):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused(f"{tool}: {name} has half of a surrogate pair in it, which is no text.") from None
    return decoded


def _said(error: msgspec.ValidationError) -> str:
    what, _, where = str(error).partition(" - at `$")
    what = what.replace("`", "").replace("Object ", "").replace("Expected", "expected")
    return f"{where.strip('.`')}: {what}" if where else what


def _usage(kind: type[Arguments], present: Mapping[str, object]) -> str:
    fields = msgspec.structs.fields(kind)
    known = [field.name for field in fields]
    listed = ", ".join(field.name if field.required else f"{field.name} (optional)" for field in fields)
    near = {
        name: match
        for name in map(str, present)
        if name not in known and (match := get_close_matches(name, known, n=1, cutoff=0.5))
    }
    hints = "".join(f" Did you mean {match[0]} instead of {name}?" for name, match in near.items())
    return f"It takes {listed}.{hints}"


def _texts(arguments: Arguments) -> Iterator[tuple[str, str]]:
    for name, value in msgspec.structs.asdict(arguments).items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield name, text

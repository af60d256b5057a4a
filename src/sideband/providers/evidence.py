"""Where in the payload of an event evidence stands, and where it must not be looked for.

What a tool was given, what people and models said, and what a tool shows of files is no evidence of anything.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from sideband.core.hookevents import SessionEvent
from sideband.providers.displays import command_of, only_repeats, shows_files

# Bounds of what is looked at; a payload may contain itself, or share its parts.
MAX_DEPTH: Final = 8
MAX_VALUES: Final = 4_000

# Under these names tools give what they have to say.
OUTPUTS: Final = ("result", "output", "stdout", "stderr", "text", "content")
# Under these names they are given something, or a person or a model is quoted.
INPUTS: Final = frozenset(
    {
        "args",
        "arguments",
        "cmd",
        "command",
        "input",
        "messages",
        "params",
        "prompt",
        "reply",
        "request",
        "task",
        "tool_input",
    }
)
REPORTS: Final = ("tool_results", "results")
SPEAKERS: Final = ("assistant", "developer", "system", "user")


class Entry(NamedTuple):
    """A value in a payload; `name` is the key it stands under, and empty for an item of a list."""

    path: str
    name: str
    value: object


class ToolReport(NamedTuple):
    """What one call of a tool came to.

    Of a tool that shows files nothing in `outputs` counts; of one that only repeats something the text does not.
    """

    path: str
    tool: str
    fields: Mapping[str, object]
    shows_files: bool
    only_repeats: bool

    def at(self, name: str) -> str:
        """Where a field of this report stands, for a reader: the tool, and the place in the payload."""
        return " ".join(part for part in (self.tool, _below(self.path, name)) if part)

    def texts(self) -> Iterator[tuple[str, str]]:
        """All that the tool said, by name, except what it only shows."""
        if self.shows_files or self.only_repeats:
            return
        room = iter(range(MAX_VALUES))
        for name in OUTPUTS:
            for entry in _walk(Entry(name, name, self.fields.get(name)), MAX_DEPTH, room):
                if isinstance(entry.value, str):
                    yield entry.path, entry.value


def fields_of(value: object) -> Mapping[str, object]:
    """The fields of a mapping or a record; anything else has none."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return value if isinstance(value, Mapping) else {}


def tool_name(fields: Mapping[str, object]) -> str:
    """The name of the tool that an event is about; empty where it is not given."""
    tool = fields.get("tool")
    for name in (fields.get("tool_name"), fields_of(tool).get("name"), tool):
        if isinstance(name, str) and name.strip():
            return name.strip()
    return ""


def tool_reports(event: str, payload: Mapping[str, object]) -> tuple[ToolReport, ...]:
    """The calls of tools that an event tells of."""
    reports = [_report("", payload)] if event == SessionEvent.POST_TOOL_USE else []
    for name in REPORTS:
        told = payload.get(name)
        if isinstance(told, list | tuple):
            reports += [_report(f"{name}[{index}]", fields_of(item)) for index, item in enumerate(told[:MAX_VALUES])]
    return tuple(reports)


def entries(payload: Mapping[str, object]) -> Iterator[Entry]:
    """Everything in a payload that may be evidence, but for the text of tools."""
    return _walk(Entry("", "", payload), MAX_DEPTH, iter(range(MAX_VALUES)))


def _report(path: str, fields: Mapping[str, object]) -> ToolReport:
    named = fields.get("name")
    tool = tool_name(fields) or (named if path and isinstance(named, str) else "")
    told = (
        fields,
        *(fields_of(fields.get(name)) for name in ("args", "arguments", "input", "tool_input", "data", "result")),
    )
    command = next((line for given in told if (line := command_of(given))), "")
    return ToolReport(path, tool, fields, shows_files(tool, command), only_repeats(tool))


def _walk(entry: Entry, depth: int, room: Iterator[int]) -> Iterator[Entry]:
    if entry.value is None or next(room, None) is None:
        return
    yield entry
    if depth == 0:
        return
    if isinstance(entry.value, list | tuple):
        for index, item in enumerate(entry.value):
            yield from _walk(Entry(f"{entry.path}[{index}]", "", item), depth - 1, room)
        return
    fields = fields_of(entry.value)
    if not fields or fields.get("role") in SPEAKERS:
        return
    hidden = INPUTS | frozenset(OUTPUTS) if _report("", fields).shows_files else INPUTS
    for name, value in fields.items():
        if name not in hidden:
            yield from _walk(Entry(_below(entry.path, name), name, value), depth - 1, room)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

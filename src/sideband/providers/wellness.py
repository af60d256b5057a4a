"""Telling apart, cheaply, the events in which nothing went wrong: by far the most."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from sideband.core.hookevents import SessionEvent
from sideband.providers.verifiers import may_report

# All that a loop tells of a call, of its output, of the program it ran, and of a step, in the order in which it does;
# with anything else in it an event is looked at closely.
_CALL: Final = (
    "tool_name",
    "tool_call_id",
    "args",
    "result",
    "status",
    "truncated",
    "original_bytes",
    "data",
    "text",
)
_OUTPUT: Final = ("text", "is_error", "original_bytes", "data")
_PROGRAM: Final = frozenset({"command", "exit_code", "duration_ms"})
_STEP: Final = ("turn", "results")
_RESULT: Final = ("tool_name", "status")
_REPLY: Final = ("turn", "text")
# What has no parts: no evidence can stand inside it. A number has no text either.
_NUMBER: Final = frozenset({bool, int, float, type(None)})
_PLAIN: Final = _NUMBER | {str}


def went_well(event: str, payload: Mapping[str, object]) -> bool:
    """True only where a close look surely finds nothing."""
    look = _LOOKS.get(event)
    return look is not None and look(payload)


def _call_went_well(payload: Mapping[str, object]) -> bool:
    if tuple(payload) != _CALL:
        return False
    tool, call_id, _args, result, status, truncated, size, data, told = payload.values()
    if not (isinstance(told, str) and isinstance(result, msgspec.Struct) and result.__struct_fields__ == _OUTPUT):
        return False
    text, is_error, original_bytes, of_result = msgspec.structs.astuple(result)
    return (
        status == "ok"
        and text == told
        and is_error is False
        and type(original_bytes) in _NUMBER
        and type(tool) in _PLAIN
        and type(call_id) in _PLAIN
        and type(truncated) in _PLAIN
        and type(size) in _PLAIN
        and _ended_well(data)
        and (data is of_result or _ended_well(of_result))
        and not may_report(told)
    )


def _ended_well(data: object) -> bool:
    if not (isinstance(data, dict) and data.keys() <= _PROGRAM):
        return False
    return not data or (data.get("exit_code", 0) == 0 and type(data.get("duration_ms")) in _NUMBER)


def _step_went_well(payload: Mapping[str, object]) -> bool:
    if tuple(payload) != _STEP:
        return False
    turn, results = payload.values()
    return type(turn) in _NUMBER and isinstance(results, list) and all(map(_is_ok, results))


def _is_ok(result: object) -> bool:
    if not (isinstance(result, dict) and tuple(result) == _RESULT):
        return False
    return result["status"] == "ok" and type(result["tool_name"]) in _PLAIN


def _reply_went_well(payload: Mapping[str, object]) -> bool:
    return tuple(payload) == _REPLY and type(payload["turn"]) in _PLAIN and type(payload["text"]) in _PLAIN


_LOOKS: Final[Mapping[str, Callable[[Mapping[str, object]], bool]]] = MappingProxyType(
    {
        SessionEvent.POST_TOOL_USE.value: _call_went_well,
        SessionEvent.POST_STEP.value: _step_went_well,
        SessionEvent.POST_AGENT_TURN.value: _reply_went_well,
    }
)

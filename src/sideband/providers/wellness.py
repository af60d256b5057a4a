"""Telling apart, cheaply, the events in which nothing went wrong: by far the most."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from sideband.core.hookevents import SessionEvent
from sideband.providers.verifiers import may_report

# All that a loop tells of a call, of its output, of the program it ran, and of a step; with anything else in it an
# event is looked at closely.
_CALL: Final = frozenset(
    {
        "tool_name",
        "tool_call_id",
        "args",
        "status",
        "truncated",
        "original_bytes",
        "text",
        "result",
        "data",
    }
)
_OUTPUT: Final = ("text", "is_error", "original_bytes", "data")
_PROGRAM: Final = frozenset({"command", "exit_code", "duration_ms"})
_STEP: Final = frozenset({"turn", "results"})
_RESULT: Final = frozenset({"tool_name", "status"})
_REPLY: Final = frozenset({"turn", "text"})
# What has no parts: no evidence can stand inside it. A number has no text either.
_NUMBER: Final = frozenset({bool, int, float, type(None)})
_PLAIN: Final = _NUMBER | {str}


def went_well(event: str, payload: Mapping[str, object]) -> bool:
    """True only where a close look surely finds nothing."""
    look = _LOOKS.get(event)
    return look is not None and look(payload)


def _call_went_well(payload: Mapping[str, object]) -> bool:
    if payload.keys() != _CALL or payload["status"] != "ok":
        return False
    told, result, data = payload["text"], payload["result"], payload["data"]
    if not (isinstance(told, str) and isinstance(result, msgspec.Struct) and result.__struct_fields__ == _OUTPUT):
        return False
    text, is_error, original_bytes, of_result = msgspec.structs.astuple(result)
    return (
        text == told
        and is_error is False
        and type(original_bytes) in _NUMBER
        and type(payload["tool_name"]) in _PLAIN
        and type(payload["tool_call_id"]) in _PLAIN
        and type(payload["truncated"]) in _PLAIN
        and type(payload["original_bytes"]) in _PLAIN
        and _ended_well(data)
        and (data is of_result or _ended_well(of_result))
        and not may_report(told)
    )


def _ended_well(data: object) -> bool:
    if not (isinstance(data, dict) and data.keys() <= _PROGRAM):
        return False
    return not data or (data.get("exit_code", 0) == 0 and type(data.get("duration_ms")) in _NUMBER)


def _step_went_well(payload: Mapping[str, object]) -> bool:
    if payload.keys() != _STEP or type(payload["turn"]) not in _NUMBER:
        return False
    results = payload["results"]
    return isinstance(results, list) and all(map(_is_ok, results))


def _is_ok(result: object) -> bool:
    if not (isinstance(result, dict) and result.keys() == _RESULT):
        return False
    return result["status"] == "ok" and type(result["tool_name"]) in _PLAIN


def _reply_went_well(payload: Mapping[str, object]) -> bool:
    return payload.keys() == _REPLY and type(payload["turn"]) in _PLAIN and type(payload["text"]) in _PLAIN


_LOOKS: Final[Mapping[str, Callable[[Mapping[str, object]], bool]]] = MappingProxyType(
    {
        SessionEvent.POST_TOOL_USE: _call_went_well,
        SessionEvent.POST_STEP: _step_went_well,
        SessionEvent.POST_AGENT_TURN: _reply_went_well,
    }
)

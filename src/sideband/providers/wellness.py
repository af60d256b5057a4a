"""Telling apart, cheaply, the events in which nothing went wrong: by far the most."""

from collections.abc import Mapping
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
    match event:
        case SessionEvent.POST_TOOL_USE:
            return payload.keys() <= _CALL and payload.get("status") == "ok" and _says_nothing(payload)
        case SessionEvent.POST_STEP:
            results = payload.get("results")
            told = payload.keys() <= _STEP and type(payload.get("turn")) in _NUMBER
            return told and isinstance(results, list) and all(map(_is_ok, results))
        case SessionEvent.POST_AGENT_TURN:
            return payload.keys() <= _REPLY and _is_plain(payload, "turn", "text")
        case _:
            return False


def _says_nothing(payload: Mapping[str, object]) -> bool:
    told, result = payload.get("text"), payload.get("result")
    if not (isinstance(told, str) and isinstance(result, msgspec.Struct) and result.__struct_fields__ == _OUTPUT):
        return False
    text, is_error, original_bytes, data = msgspec.structs.astuple(result)
    return (
        text == told
        and is_error is False
        and type(original_bytes) in _NUMBER
        and _is_plain(payload, "tool_name", "tool_call_id", "truncated", "original_bytes")
        and _ended_well(data)
        and (payload.get("data") is data or _ended_well(payload.get("data")))
        and not may_report(told)
    )


def _ended_well(data: object) -> bool:
    if not (isinstance(data, dict) and data.keys() <= _PROGRAM):
        return False
    return data.get("exit_code", 0) == 0 and type(data.get("duration_ms")) in _NUMBER


def _is_ok(result: object) -> bool:
    if not (isinstance(result, dict) and result.keys() <= _RESULT):
        return False
    return result.get("status") == "ok" and _is_plain(result, "tool_name")


def _is_plain(fields: Mapping[str, object], *names: str) -> bool:
    return _PLAIN.issuperset(map(type, map(fields.get, names)))

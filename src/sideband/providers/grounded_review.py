"""`grounded_review`: repeats the failures that verifiers and the runtime report; opinions do not count."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.evidence import ToolReport, entries, tool_reports
from sideband.providers.findings import (
    CallFailure,
    ReviewFinding,
    StatedDiagnostic,
    diagnostics,
    finding,
    runtime_errors,
    verifier_signals,
)
from sideband.providers.quote import packed
from sideband.providers.settings import A_FLAG, A_WHOLE_NUMBER, read_flag, read_number
from sideband.providers.verifiers import may_report, scan

ID: Final = "grounded_review"
DEFAULT_FINDINGS: Final = 6
MOST_FINDINGS: Final = 20
MOST_TEXTS: Final = 64
_DIGITS: Final = 16


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fire when the event contains concrete evidence of a failure."""
    if not ctx.config and went_well(ctx.event, ctx.payload):
        return None
    most = int(read_number(ctx.config, "max_findings", "limit", default=DEFAULT_FINDINGS))
    found = tuple(dict.fromkeys(_findings(ctx)))
    if not found:
        return None
    return {
        "body": _body(ctx.event, found, min(max(most, 1), MOST_FINDINGS)),
        "tags": [ID, "code_review"],
        "dedupe_key": f"{ID}:{ctx.event}:{_digest(found)}",
        "ttl_turns": 2,
        "propagate": "none",
        "role_hint": "developer",
    }


def _findings(ctx: ProviderContext) -> Iterator[ReviewFinding]:
    """The findings, the most reliable first, each once: an event may state a failure that the output reports, too."""
    include_warnings = read_flag(ctx.config, "include_warnings", default=False)
    reports = tool_reports(ctx.event, ctx.payload)
    stated = tuple(entries(ctx.payload))
    known = {item.finding: item for item in diagnostics(stated, include_warnings=include_warnings)}
    scans = read_flag(ctx.config, "text_scan", default=True)
    scanned = dict(_scanned(reports, include_warnings=include_warnings)) if scans else {}
    told = {finding: report for finding, report in scanned.items() if not _is_stated(finding, known.values())}
    yield from (failure.finding for failure in runtime_errors(ctx.payload, reports) if _is_news(failure, scanned))
    yield from _once((*verifier_signals(stated), *known, *told))


def _scanned(reports: Sequence[ToolReport], *, include_warnings: bool) -> Iterator[tuple[ReviewFinding, ToolReport]]:
    """The failures in the outputs of tools, with the reports that they come from."""
    told = ((text, name, report) for report in reports for name, text in report.texts())
    places: dict[str, tuple[str, ToolReport]] = {}
    for text, name, report in islice(told, MOST_TEXTS):
        # An event may contain the same output twice, under two names.
        places.setdefault(text, (report.at(name), report))
    for text, (place, report) in places.items():
        for source, summary, is_count in scan(text, include_warnings=include_warnings):
            yield finding(source, place, summary, is_count=is_count), report


def _is_news(failure: CallFailure, scanned: Mapping[ReviewFinding, ToolReport]) -> bool:
    """Whether a failed call is told besides what was recognised in its output.

    The line that is quoted of the output says less than the failures, but more than a line that only counts them.
    """
    mine = [item for item, report in scanned.items() if report is failure.report]
    return all(item.is_count and item.summary not in failure.finding.summary for item in mine)


def _is_stated(found: ReviewFinding, known: Iterable[StatedDiagnostic]) -> bool:
    return any(item.is_told_by(found.summary) for item in known)


def _once(found: Iterable[ReviewFinding]) -> Iterator[ReviewFinding]:
    """Each finding with its first place; a payload has the data of a result in two places."""
    places: dict[tuple[str, str], ReviewFinding] = {}
    for item in found:
        places.setdefault((item.source, item.summary), item)
    yield from places.values()


def _body(event: str, found: tuple[ReviewFinding, ...], most: int) -> str:
    lines, did_not_fit = packed(f"{item.source}, in {item.provenance}: {item.summary}" for item in found[:most])
    left_out = did_not_fit + max(0, len(found) - most)
    count = "1 failure was" if len(found) == 1 else f"{len(found)} failures were"
    if any(item.is_count for item in found):
        count = "Failures were"
    body = f"{count} reported at {event}. The quoted lines are what was reported, shortened:\n{lines}"
    return f"{body}\nLeft out here: {left_out} more." if left_out else body


def _digest(found: tuple[ReviewFinding, ...]) -> str:
    """A digest that does not depend on the order of the findings, which a parallel run may change."""
    return sha256(msgspec.json.encode(sorted(found))).hexdigest()[:_DIGITS]


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.POST_TOOL_USE, SessionEvent.POST_STEP, SessionEvent.POST_AGENT_TURN),
    evaluate=evaluate,
    canonical=True,
    settings={
        "max_findings": A_WHOLE_NUMBER,
        "limit": A_WHOLE_NUMBER,
        "include_warnings": A_FLAG,
        "text_scan": A_FLAG,
    },
)


# The fields, in order, with which the loop reports a call, its output, the program it ran, and a step. An event with
# any other field is examined completely.
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
# Types without parts, which cannot contain structured evidence; numbers contain no text either.
_NUMBER: Final = frozenset({bool, int, float, type(None)})
_PLAIN: Final = _NUMBER | {str}


def went_well(event: str, payload: Mapping[str, object]) -> bool:
    """Whether an event certainly contains no evidence of a failure; a cheap test, because most events do not."""
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

"""Repeats what verifiers and the runtime report as failed, and nothing that anybody merely thinks."""

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Any, Final

import msgspec

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.evidence import entries, tool_reports
from sideband.providers.findings import Finding, diagnostics, finding, runtime_errors, verifier_signals
from sideband.providers.quoting import packed
from sideband.providers.settings import read_flag, read_number
from sideband.providers.verifiers import scan
from sideband.providers.wellness import went_well

ID: Final = "grounded_review"
DEFAULT_FINDINGS: Final = 6
MOST_FINDINGS: Final = 20
MOST_TEXTS: Final = 64
_DIGITS: Final = 16


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fires when the event carries concrete evidence of a failure."""
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


def _findings(ctx: ProviderContext) -> Iterator[Finding]:
    """The surest first."""
    include_warnings = read_flag(ctx.config, "include_warnings", default=False)
    reports = tool_reports(ctx.event, ctx.payload)
    yield from runtime_errors(ctx.payload, reports)
    stated = tuple(entries(ctx.payload))
    yield from verifier_signals(stated)
    yield from diagnostics(stated, include_warnings=include_warnings)
    if not read_flag(ctx.config, "text_scan", default=True):
        return
    told = ((text, report.at(name)) for report in reports for name, text in report.texts())
    places: dict[str, str] = {}
    for text, place in islice(told, MOST_TEXTS):
        # The same output may stand in an event twice, under two names.
        places.setdefault(text, place)
    for text, place in places.items():
        for source, summary in scan(text, include_warnings=include_warnings):
            yield finding(source, place, summary)


def _body(event: str, found: tuple[Finding, ...], most: int) -> str:
    lines, did_not_fit = packed(f"{item.source}, in {item.provenance}: {item.summary}" for item in found[:most])
    left_out = did_not_fit + max(0, len(found) - most)
    count = "1 failure was" if len(found) == 1 else f"{len(found)} failures were"
    body = f"{count} reported at {event}. The quoted lines are what was reported, shortened:\n{lines}"
    return f"{body}\nLeft out here: {left_out} more." if left_out else body


def _digest(found: tuple[Finding, ...]) -> str:
    """The same for the same findings, in whatever order a parallel run reports them."""
    return sha256(msgspec.json.encode(sorted(found))).hexdigest()[:_DIGITS]


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.POST_TOOL_USE, SessionEvent.POST_STEP, SessionEvent.POST_AGENT_TURN),
    evaluate=evaluate,
    canonical=True,
)

"""`resume_continuity`: tells a resumed worker why it was suspended, who resumed it, and with which input."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sideband.core.hookevents import WorkerEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.evidence import fields_of
from sideband.providers.quote import MARK, named, one_line
from sideband.providers.settings import is_count

ID: Final = "resume_continuity"
# In characters of up to four bytes each; together they fit into a reminder body.
REASON_CHARACTERS: Final = 400
INPUT_CHARACTERS: Final = 600
DIGEST_CHARACTERS: Final = 700

# The paths in the payload of each value, in order of preference.
_INITIATOR: Final = ("resume.initiator", "initiator", "resume.cause", "cause")
_REASON: Final = ("suspension.reason", "reason")
_TURN: Final = ("suspended_at_turn", "suspension.suspended_at_turn", "suspended_turn")
_INPUT: Final = ("input_rendered", "resume.input_rendered", "input", "resume.input")
_DIGEST: Final = ("digest", "resume.digest")
_CONTINUE: Final = ("continue_transcript", "resume.continue_transcript")
_TRIGGER: Final = ("resume.trigger.id", "trigger.id", "resume.trigger_id", "trigger_id")
_EVENT: Final = ("resume.trigger.event_id", "trigger.event_id", "resume.event_id", "event_id")


def evaluate(ctx: ProviderContext) -> dict[str, Any]:
    """Fire whenever a worker is resumed."""
    told = ctx.payload
    parts = _beginning(told)
    parts += _quote("Input given on resumption:", _text(told, _INPUT), INPUT_CHARACTERS) or [
        "No input was given on resumption."
    ]
    if _first(told, _CONTINUE) is False:
        parts.append("The conversation before that is not part of this transcript.")
        parts += _quote("A digest of it:", _text(told, _DIGEST), DIGEST_CHARACTERS) or ["There is no digest of it."]
    return {
        "body": "\n".join(parts),
        "tags": [ID],
        "dedupe_key": ID,
        "ttl_turns": 1,
        "preserve_on_compact": True,
        "propagate": "none",
    }


def _beginning(told: Mapping[str, object]) -> list[str]:
    """Why the session did not go on, and what resumed it."""
    if told.get("process_ended") is True:
        return [f"The process that ran this session ended, and the session has been resumed{_cause(told)}."]
    suspended = f"This session was suspended{_when(told)} and has been resumed{_cause(told)}."
    reason = _quote("Reason given for the suspension:", _text(told, _REASON), REASON_CHARACTERS)
    return [suspended, *(reason or ["No reason for the suspension was given."])]


def _when(told: Mapping[str, object]) -> str:
    turn = _first(told, _TURN)
    return f" at turn {turn}" if is_count(turn) else ""


def _cause(told: Mapping[str, object]) -> str:
    """Who or what resumed the worker, as far as the event says so."""
    match _first(told, _INITIATOR):
        case "parent":
            return " by its parent agent"
        case "timeout":
            return " by a timeout that elapsed"
        case "operator":
            return " by the operator"
        case "trigger" | "triggered":
            trigger, event = _text(told, _TRIGGER), _text(told, _EVENT)
            by = f" by the trigger {named(trigger)}" if trigger else " by a trigger"
            return f"{by} on the event {named(event)}" if event else by
        case _:
            return "; who or what resumed it is not known"


def _quote(heading: str, text: str, most: int) -> list[str]:
    line = one_line(text, most=most)
    return [heading, f"{MARK}{line}"] if line else []


def _text(told: Mapping[str, object], places: tuple[str, ...]) -> str:
    value = _first(told, places)
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return "(something that cannot be written as text)"


def _first(told: Mapping[str, object], places: tuple[str, ...]) -> object:
    """The first of these places whose value is neither missing nor empty."""
    for place in places:
        *folders, name = place.split(".")
        fields = told
        for folder in folders:
            fields = fields_of(fields.get(folder))
        value = fields.get(name)
        if value is not None and value != "":
            return value
    return None


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(WorkerEvent.WORKER_RESUMED,),
    evaluate=evaluate,
    canonical=True,
    settings={},
)

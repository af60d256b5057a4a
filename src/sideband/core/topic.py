"""The lifecycle topic: what observers see of each journal event. It never contains the body of a reminder."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.events import (
    AuditRecorded,
    Begun,
    Deduped,
    Deferred,
    Deleted,
    Dropped,
    Event,
    Expired,
    Fired,
    Inherited,
    InjectAccepted,
    InjectDelivered,
    Injected,
    InjectReplaced,
    InjectRevoked,
    ProviderEvaluated,
    Queued,
    Recorded,
    Replaced,
    Revoked,
)
from sideband.core.masking import mask
from sideband.core.reminder import Reminder
from sideband.core.serialize import JsonRecord
from sideband.core.trust import Provenance

TOPIC: Final = "transcript.reminder.lifecycle"

_CODE: Final = re.compile(r"^HARN-RMD-\d{3}")

KINDS: Final[Mapping[type[Event], str]] = MappingProxyType(
    {
        Queued: "transcript.reminder.queued",
        Replaced: "transcript.reminder.replaced",
        Injected: "transcript.reminder.injected",
        Fired: "transcript.reminder.fired",
        Deduped: "transcript.reminder.deduped",
        Expired: "transcript.reminder.expired",
        Revoked: "transcript.reminder.revoked",
        Dropped: "transcript.reminder.dropped",
        Inherited: "transcript.reminder.inherited",
        ProviderEvaluated: "transcript.reminder.provider_evaluated",
        AuditRecorded: "transcript.reminder.audit_recorded",
        Deferred: "transcript.reminder.deferred",
        InjectAccepted: "transcript.inject.accepted",
        InjectDelivered: "transcript.inject.delivered",
        InjectRevoked: "transcript.inject.revoked",
        InjectReplaced: "transcript.inject.replaced",
    }
)


class Correlation(msgspec.Struct, frozen=True, kw_only=True):
    """The run that an event belongs to; None for ids that are not known."""

    session_id: str | None = None
    task_id: str | None = None
    agent_id: str | None = None


# The named records of a session that say which task and which agent it belongs to.
TASK_RECORD: Final = "task_id"
AGENT_RECORD: Final = "agent"
_CORRELATED: Final = {TASK_RECORD: "task_id", AGENT_RECORD: "agent_id"}


def correlation_of(session_id: str | None, records: Mapping[str, Any]) -> Correlation:
    """The session, and the task and the agent that its named records give."""
    return Correlation(
        session_id=session_id, task_id=_name(records.get(TASK_RECORD)), agent_id=_name(records.get(AGENT_RECORD))
    )


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None


def correlated(before: Correlation, event: Event) -> Correlation:
    """The correlation after this event, which may set the records that task and agent come from."""
    match event:
        case Begun(attributes=records):
            return correlation_of(before.session_id, records)
        case Recorded(name=name, value=value) if name in _CORRELATED:
            return msgspec.structs.replace(before, **{_CORRELATED[name]: _name(value)})
        case Deleted():
            return Correlation(session_id=before.session_id)
        case _:
            return before


class TopicRecord(JsonRecord, msgspec.Struct, frozen=True, kw_only=True):
    """One record of the topic; `seq` counts the events of its store or log.

    `time` is in RFC 3339, in UTC with milliseconds (None: an earlier version of Sideband wrote the event). `session_id` is
    None for a transcript that belongs to no session.
    """

    seq: int
    time: str | None
    kind: str
    session_id: str | None
    payload: dict[str, Any]


def publish(event: Event, correlation: Correlation, *, seq: int = 0, time: str | None = None) -> TopicRecord | None:
    """The topic's record of this event; None for an event that the topic does not have."""
    kind = KINDS.get(type(event))
    if kind is None:
        return None
    payload: dict[str, Any] = {
        "session_id": correlation.session_id,
        "task_id": correlation.task_id,
        "agent_id": correlation.agent_id,
        **mask(_PAYLOADS[type(event)](event)),
    }
    return TopicRecord(seq=seq, time=time, kind=kind, session_id=correlation.session_id, payload=payload)


def _lifecycle(reminder: Reminder) -> dict[str, Any]:
    return {
        "reminder_id": reminder.id,
        "tags": list(reminder.tags),
        "dedupe_key": reminder.dedupe_key,
        "source": reminder.source.value,
        "role_hint": reminder.role_hint.value,
        "ttl_turns": reminder.ttl_turns,
        "preserve_on_compact": reminder.preserve_on_compact,
        "propagate": reminder.propagate.value,
    }


def _origin(provenance: Provenance) -> dict[str, Any]:
    origin: dict[str, Any] = {
        "trust": provenance.trust.name.lower(),
        "principal": provenance.principal,
        "provider_id": provenance.provider_id,
        "requested": provenance.requested,
    }
    return {name: value for name, value in origin.items() if value not in (None, {})}


def _queued(event: Queued | Replaced) -> dict[str, Any]:
    item = event.item
    return {**_lifecycle(item.reminder), "mode": item.mode.value, **_origin(item.provenance)}


def _injected(event: Injected) -> dict[str, Any]:
    seam = {} if event.seam is None else {"seam": event.seam.value}
    return {**_lifecycle(event.reminder), **seam, **_origin(event.provenance)}


def _inherited(event: Inherited) -> dict[str, Any]:
    return {
        "reminder_id": event.reminder.id,
        "originating_agent_id": event.reminder.originating_agent_id,
        "sub_agent_id": event.sub_agent_id,
        "propagate": event.reminder.propagate.value,
    }


def _fired(event: Fired) -> dict[str, Any]:
    carried = {"carried": True} if event.carried else {}
    via = {"via": event.via} if event.via else {}
    return {
        "reminder_id": event.reminder_id,
        "turn_number": event.turn,
        "rendered_role": event.rendered_role,
        **carried,
        **via,
    }


def _deduped(event: Deduped) -> dict[str, Any]:
    return {
        "replaced_id": event.replaced_id,
        "replacing_id": event.replacing_id,
        "dedupe_key": event.dedupe_key,
        **_boundary(event),
    }


def _expired(event: Expired) -> dict[str, Any]:
    return {
        "reminder_id": event.reminder_id,
        "reason": event.reason.value,
        "expired_at_turn": event.turn,
        **_boundary(event),
    }


def _boundary(event: Deduped | Expired) -> dict[str, Any]:
    return {} if event.boundary is None else {"boundary": event.boundary.value}


def _dropped(event: Dropped) -> dict[str, Any]:
    # Without the flag, an observer would take a refused payload for the end of an accepted reminder with the same id.
    refused: dict[str, Any] = {"at_the_door": True} if event.at_the_door else {}
    count = {"count": event.count} if event.count > 1 else {}
    origin = {} if event.provenance is None else _origin(event.provenance)
    return {"reminder_id": event.reminder_id, "reason": event.reason.value, **refused, **count, **origin}


def _provider_evaluated(event: ProviderEvaluated) -> dict[str, Any]:
    # Only the code: the message may quote what the provider returned.
    code = None if event.error is None else next(iter(_CODE.findall(event.error)), "failed")
    outcome = {"error": code, "skipped": event.skipped}
    return {
        "provider_id": event.provider_id,
        "event": event.event_name,
        "fired": event.fired,
        **{name: value for name, value in outcome.items() if value is not None},
    }


def _audit_recorded(event: AuditRecorded) -> dict[str, Any]:
    return {**_lifecycle(event.reminder), "turn_number": event.turn, **_origin(event.provenance)}


def _inject_revoked(event: InjectRevoked) -> dict[str, Any]:
    reason = {} if event.reason is None else {"reason": event.reason.value}
    return {"message_id": event.message_id, **reason}


_PAYLOADS: Final[Mapping[type[Event], Callable[[Any], dict[str, Any]]]] = MappingProxyType(
    {
        Queued: _queued,
        Replaced: _queued,
        Injected: _injected,
        Fired: _fired,
        Deduped: _deduped,
        Expired: _expired,
        Revoked: lambda event: {"reminder_id": event.reminder_id},
        Dropped: _dropped,
        Inherited: _inherited,
        ProviderEvaluated: _provider_evaluated,
        AuditRecorded: _audit_recorded,
        Deferred: lambda event: {"reminder_id": event.reminder_id, "turn_number": event.turn},
        InjectAccepted: lambda event: {"message_id": event.item.message_id, "mode": event.item.mode.value},
        InjectDelivered: lambda event: {"message_id": event.message_id},
        InjectRevoked: _inject_revoked,
        InjectReplaced: lambda event: {"message_id": event.message_id, "revision": event.revision},
    }
)

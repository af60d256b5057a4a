"""The reminder updates of ACP: what a client is told of the lifecycle of a reminder, and in which form."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.surfaces import Case, spelled
from sideband.core.trust import Provenance
from sideband.core.updates import Phase, ReminderUpdate, UpdateKind
from sideband.protocols.acp.messages import EndPhase
from sideband.protocols.wire import outward, to_snake

_PHASES: Final[Mapping[Phase, EndPhase]] = MappingProxyType({phase: EndPhase(phase.value) for phase in Phase})


def reminder_update(update: ReminderUpdate) -> dict[str, Any] | None:
    """The update that a client gets; None for the kinds that clients are not told of."""
    match update.kind:
        case UpdateKind.REMINDER_EMITTED:
            return _emitted(update)
        case UpdateKind.REMINDER_DEDUPED:
            told: dict[str, Any] = {
                "sessionUpdate": "reminder_deduped",
                "reminderId": update.reminder_id,
                "dedupeKey": update.dedupe_key or "",
                "droppedReminderIds": list(update.dropped_ids),
            }
            return _with_meta(told, update, {})
        case UpdateKind.REMINDER_EXPIRED if update.phase is not None:
            return _expired(update, _PHASES[update.phase], {})
        case UpdateKind.REMINDER_REVOKED:
            return _expired(update, EndPhase.CLEARED, {"event": "revoked"})
        case _:
            return None


def carried_update(update: dict[str, Any]) -> dict[str, Any]:
    """The same for a client of protocol version 1 that does not know the update by its name."""
    meta = update.get("_meta", {})
    carrier: dict[str, Any] = {"sideband": {"update": update}}
    if "harn" in meta:
        carrier["harn"] = meta["harn"]
    return {"sessionUpdate": "session_info_update", "_meta": carrier}


def _emitted(update: ReminderUpdate) -> dict[str, Any] | None:
    reminder, provenance = update.reminder, update.provenance
    if reminder is None or provenance is None:
        # An earlier version of Sideband wrote the event, without the record.
        return None
    told: dict[str, Any] = {
        "sessionUpdate": "reminder_emitted",
        "reminderId": reminder.id,
        "body": reminder.body,
        "source": outward(reminder.source, provenance.via),
        "firedAtTurn": reminder.fired_at_turn,
    }
    if reminder.tags:
        told["tags"] = list(reminder.tags)
    if reminder.dedupe_key is not None:
        told["dedupeKey"] = reminder.dedupe_key
    if provenance.provider_id is not None:
        told["providerId"] = provenance.provider_id
    note: dict[str, Any] = {"turn": update.turn, "renderedRole": update.rendered_role}
    if update.via:
        note["via"] = update.via
    if provenance.requested:
        record = msgspec.to_builtins(reminder)
        note["requested"] = {spelled(name, Case.CAMEL): value for name, value in provenance.requested.items()}
        # The mode is not part of the record, and a live reminder has none any more.
        note["effective"] = {
            spelled(name, Case.CAMEL): record.get(name) for name in provenance.requested if name in record
        }
    return _with_meta(told, update, note, {"reminder": to_snake(reminder)})


def _expired(update: ReminderUpdate, phase: EndPhase, note: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "sessionUpdate": "reminder_expired",
        "reminderId": update.reminder_id,
        "phase": phase,
    }
    if update.turn is not None:
        told["expiredAtTurn"] = update.turn
    return _with_meta(told, update, note)


def _with_meta(
    told: dict[str, Any], update: ReminderUpdate, note: dict[str, Any], harn: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Add `_meta`: that of the sender's request, which only the sender gets, and ours."""
    meta = {} if update.provenance is None else repeated_meta(update.provenance)
    if note:
        meta["sideband"] = {**meta.get("sideband", {}), **note}
    if harn is not None:
        meta["harn"] = harn
    if meta:
        told["_meta"] = meta
    return told


def repeated_meta(provenance: Provenance) -> dict[str, Any]:
    """The `_meta` of the sender's request as updates repeat it: without the fields that are ours to set."""
    meta = {name: value for name, value in provenance.meta.items() if name not in ("sideband", "harn")}
    theirs = provenance.meta.get("sideband")
    if isinstance(theirs, dict) and "idempotencyKey" in theirs:
        meta["sideband"] = {"idempotencyKey": theirs["idempotencyKey"]}
    return meta

"""The extension for reminders: its methods, and what it tells callers of the lifecycle of a reminder."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.errors import InvalidOption, UnknownOption, shown, suggestion
from sideband.core.state import Pending
from sideband.core.surfaces import Case, Surface, spelled
from sideband.core.trust import Provenance
from sideband.core.updates import ReminderUpdate, UpdateKind, Viewer
from sideband.protocols.a2a.auth import Caller
from sideband.protocols.a2a.messages import (
    CarriedDeduped,
    CarriedEmitted,
    CarriedExpired,
    ClearRemindersResult,
    EmittedReminder,
    EndedReminder,
    InjectReminderResult,
    KeptReminder,
    PendingReminder,
    PendingRemindersResult,
    PendingState,
    RevokeReminderResult,
)
from sideband.protocols.wire import Clamped, ReplyMeta, outward
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.system import moment

URI: Final = "urn:sideband:a2a:reminders:v1"
"""The extension: its methods, and notifications in the metadata of status updates."""

RAW_URI: Final = "urn:sideband:a2a:reminders-raw:v1"
"""The second extension: notifications also as JSON-RPC frames of their own on the event stream."""

ProducerOf: TypeAlias = Callable[[str], Awaitable[Producer]]
"""The caller's producer for a task; `UnknownSession` if the caller has no such task."""

_Params: TypeAlias = Mapping[str, Any]


def producer_for(session: Session, caller: Caller, surface: Surface = Surface.A2A) -> Producer:
    """The producer by which a caller sends reminders to a task."""
    return Producer(session, caller.provenance, surface=surface, policy=caller.policy, grants=caller.grants)


# Methods.


class Method(NamedTuple):
    """A method: what answers it, its parameters beside `taskId` and `tenant`, and its name on the HTTP+JSON binding."""

    handler: Callable[[Producer, _Params], Awaitable[msgspec.Struct]]
    params: tuple[str, ...]
    verb: str
    id_name: str = "id"


async def answer(name: str, params: object, producer_of: ProducerOf) -> msgspec.Struct:
    """The result of a call of the method with this name; `ReminderError` if it is refused."""
    method = METHODS[name]
    if not isinstance(params, Mapping):
        raise InvalidOption(f"params must be an object, not {shown(params)}", field="params", value=params)
    known = ("taskId", "tenant", *method.params)
    for key in params:
        if key not in known:
            raise UnknownOption(
                f"{name} has no parameter {shown(key)}; {suggestion(key, known, kind='parameters')}",
                field=key,
                value=key,
            )
    _text(params, "tenant", optional=True)
    return await method.handler(await producer_of(_text(params, "taskId")), params)


def _text(params: _Params, name: str, *, optional: bool = False) -> str:
    value = params.get(name)
    if value is None and optional:
        return ""
    if not isinstance(value, str):
        wanted = f"{name} is required and missing" if value is None else f"{name} must be a text, not {shown(value)}"
        raise InvalidOption(wanted, field=name, value=value)
    return value


async def _inject(producer: Producer, params: _Params) -> InjectReminderResult:
    reminder = params.get("reminder")
    if not isinstance(reminder, dict):
        wanted = "is required and missing" if reminder is None else f"must be an object, not {shown(reminder)}"
        raise InvalidOption(f"reminder {wanted}", field="reminder", value=reminder)
    metadata = params.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidOption(f"metadata must be an object, not {shown(metadata)}", field="metadata", value=metadata)
    accepted = await producer.remind(reminder, meta=metadata)
    clamped = None
    if accepted.requested:
        clamped = ReplyMeta(
            sideband=Clamped(requested=in_camel_case(accepted.requested), effective=in_camel_case(accepted.effective))
        )
    return InjectReminderResult(
        reminder_id=accepted.reminder_id,
        deduped_count=accepted.deduped_count,
        accepted_at=moment(accepted.accepted_at),
        meta=clamped,
    )


def in_camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a reminder under their names on the wire."""
    return {spelled(name, Case.CAMEL): value for name, value in fields.items()}


async def _pending(producer: Producer, _params: _Params) -> PendingRemindersResult:
    rows = tuple(_row(entry, producer.provenance) for entry in await producer.pending())
    return PendingRemindersResult(pending_count=len(rows), reminders=rows)


def _row(entry: Pending, caller: Provenance) -> PendingReminder:
    reminder = entry.reminder
    return PendingReminder(
        id=reminder.id,
        state=PendingState(entry.state.value),
        position=entry.place if entry.mode is not None else None,
        mode=entry.mode,
        body=reminder.body,
        tags=reminder.tags,
        dedupe_key=reminder.dedupe_key,
        ttl_turns=reminder.ttl_turns,
        role_hint=reminder.role_hint,
        source=_label(reminder.source, Viewer(provenance=caller).shown(entry.provenance)),
    )


async def _revoke(producer: Producer, params: _Params) -> RevokeReminderResult:
    return RevokeReminderResult(status=(await producer.revoke_reminder(_text(params, "reminderId"))).value)


async def _clear(producer: Producer, params: _Params) -> ClearRemindersResult:
    selectors = {
        option: _text(params, name)
        for option, name in (("id", "id"), ("tag", "tag"), ("dedupe_key", "dedupeKey"))
        if params.get(name) is not None
    }
    if not selectors:
        raise InvalidOption("give an id, a tag or a dedupeKey, to say which reminders to end", field="id")
    return ClearRemindersResult(removed_count=await producer.clear(**selectors))


METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "tasks/inject_reminder": Method(_inject, ("reminder", "metadata"), "injectReminder", "reminder.id"),
        "tasks/pending_reminders": Method(_pending, (), "pendingReminders"),
        "tasks/revoke_reminder": Method(_revoke, ("reminderId",), "revokeReminder", "reminderId"),
        "tasks/clear_reminders": Method(_clear, ("id", "tag", "dedupeKey"), "clearReminders"),
    }
)


# Reminders in the metadata of a message.


def take_reminders(*metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Remove the reminders from the metadata of a message, and return them.

    They are under `harn.reminder`, as earlier callers send them, or under the URI of the extension.
    """
    found: list[object] = []
    for holder in metadata:
        harn = holder.get("harn")
        if isinstance(harn, dict) and "reminder" in harn:
            found.append(harn.pop("reminder"))
            if not harn:
                del holder["harn"]
        ours = holder.get(URI)
        if isinstance(ours, dict) and "reminder" in ours:
            found.append(holder.pop(URI)["reminder"])
    reminders: list[dict[str, Any]] = []
    for reminder in found:
        if not isinstance(reminder, dict):
            raise InvalidOption(
                f"metadata.harn.reminder must be an object, not {shown(reminder)}", field="metadata.harn.reminder"
            )
        reminders.append(reminder)
    return reminders


# Notifications.


def notification(update: ReminderUpdate, task_id: str, viewer: Viewer) -> dict[str, Any] | None:
    """What the viewer is told of a reminder: a notification with its method; None if nothing."""
    if not viewer.may_see(update.provenance):
        return None
    told = _notification(update, task_id, None if update.provenance is None else viewer.shown(update.provenance))
    if told is None:
        return None
    plain: dict[str, Any] = msgspec.to_builtins(told)
    return plain


def _notification(update: ReminderUpdate, task_id: str, origin: Provenance | None) -> msgspec.Struct | None:
    meta = {} if origin is None else {name: value for name, value in origin.meta.items() if name != "sideband"}
    match update.kind:
        case UpdateKind.REMINDER_EMITTED if update.reminder is not None and origin is not None:
            reminder = update.reminder
            note: dict[str, Any] = {"turn": update.turn, "renderedRole": update.rendered_role}
            if origin.requested:
                note["requested"] = in_camel_case(origin.requested)
            return CarriedEmitted(
                task_id=task_id,
                reminder=EmittedReminder(
                    id=reminder.id,
                    body=reminder.body,
                    tags=reminder.tags or None,
                    dedupe_key=reminder.dedupe_key,
                    source=_label(reminder.source, origin),
                    fired_at_turn=reminder.fired_at_turn,
                ),
                metadata={**meta, "sideband": note},
            )
        case UpdateKind.REMINDER_DEDUPED:
            return CarriedDeduped(
                task_id=task_id,
                reminder=KeptReminder(id=update.reminder_id, dedupe_key=update.dedupe_key or ""),
                dropped_reminder_ids=update.dropped_ids,
                metadata=meta,
            )
        case UpdateKind.REMINDER_EXPIRED if update.phase is not None:
            return _expired(update, task_id, update.phase.value, meta)
        case UpdateKind.REMINDER_REVOKED:
            return _expired(update, task_id, "cleared", {**meta, "sideband": {"event": "revoked"}})
        case _:
            return None


def _expired(update: ReminderUpdate, task_id: str, phase: Any, meta: dict[str, Any]) -> CarriedExpired:  # noqa: ANN401 - a word
    return CarriedExpired(
        task_id=task_id,
        reminder=EndedReminder(id=update.reminder_id, dedupe_key=update.dedupe_key),
        phase=phase,
        expired_at_turn=update.turn,
        metadata=meta,
    )


def _label(source: Any, origin: Provenance) -> str:  # noqa: ANN401 - a Source
    """Where a reminder comes from: in the words of its sender if the viewer may see them, else in ours."""
    claimed = origin.claims.get("source")
    return claimed if isinstance(claimed, str) and claimed else outward(source, origin.via)

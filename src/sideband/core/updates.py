"""What an observer gets of a session: one update per lifecycle event, and the view that its updates continue.

The projection has no state and looks nothing up: an event holds all that its update shows. So the updates after a cursor
are the same before and after a restart or a pruning, in every process.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import msgspec

from sideband.core.errors import InvalidOption, shown, suggestion
from sideband.core.events import (
    AuditRecorded,
    Begun,
    Boundary,
    Cancelled,
    Checkpoint,
    Closed,
    Compacted,
    Deduped,
    Deferred,
    Deleted,
    Dropped,
    DropReason,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    Idled,
    Inherited,
    InjectAccepted,
    InjectDelivered,
    Injected,
    InjectReplaced,
    InjectRevoked,
    PermissionAsked,
    PermissionReplied,
    ProviderEvaluated,
    Queued,
    QueuedMessage,
    Recorded,
    Replaced,
    RequestCommitted,
    ResultRecorded,
    Revoked,
    Started,
    TurnCommitted,
    TurnVoided,
    Usage,
)
from sideband.core.reminder import Reminder
from sideband.core.seams import Mode, Seam
from sideband.core.serialize import JsonRecord
from sideband.core.state import Pending, SessionState, pending
from sideband.core.trust import IN_PROCESS, Provenance, Trust, may_touch

# Who is looking.


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for updates, and how much of a session they may see.

    Operator and controller see everything. Any other viewer sees its own reminders; with `sees_all`, which the operator
    sets, the reminders of all senders.
    """

    provenance: Provenance = IN_PROCESS
    sees_all: bool = False

    @property
    def sees_session(self) -> bool:
        """Whether it sees messages, turns, runs and records."""
        return self.provenance.trust <= Trust.CONTROLLER

    def may_see(self, owner: Provenance | None) -> bool:
        """Whether it sees the reminders of this sender; None is a sender that was not recorded."""
        if self.sees_session or self.sees_all:
            return True
        return owner is not None and may_touch(self.provenance, owner.namespace)

    def shown(self, owner: Provenance) -> Provenance:
        """The provenance as this viewer sees it: `_meta` is for its sender and the operator, claims for controllers too."""
        if not (owner.claims or owner.meta) or self.provenance.trust is Trust.OPERATOR:
            return owner
        claims = owner.claims if may_touch(self.provenance, owner.namespace) else {}
        meta = owner.meta if owner.sender == self.provenance.sender else {}
        return msgspec.structs.replace(owner, claims=claims, meta=meta)


OPERATOR: Final = Viewer()


# Updates.


class UpdateKind(StrEnum):
    """The lifecycle events that observers are told of."""

    REMINDER_QUEUED = "reminder.queued"
    REMINDER_REPLACED = "reminder.replaced"
    REMINDER_INJECTED = "reminder.injected"
    REMINDER_INHERITED = "reminder.inherited"
    REMINDER_EMITTED = "reminder.emitted"
    REMINDER_DEFERRED = "reminder.deferred"
    REMINDER_DEDUPED = "reminder.deduped"
    REMINDER_EXPIRED = "reminder.expired"
    REMINDER_REVOKED = "reminder.revoked"
    REMINDER_DROPPED = "reminder.dropped"
    REMINDER_AUDIT_RECORDED = "reminder.audit_recorded"
    PROVIDER_EVALUATED = "provider.evaluated"
    MESSAGE_ACCEPTED = "message.accepted"
    MESSAGE_DELIVERED = "message.delivered"
    MESSAGE_REVOKED = "message.revoked"
    MESSAGE_REPLACED = "message.replaced"
    TURN_OPENED = "turn.opened"
    TURN_COMMITTED = "turn.committed"
    TURN_VOIDED = "turn.voided"
    RESULT_RECORDED = "result.recorded"
    COMPACTED = "compacted"
    CHECKPOINT = "checkpoint"
    RUN_STARTED = "run.started"
    RUN_IDLED = "run.idled"
    RUN_CANCELLED = "run.cancelled"
    PERMISSION_ASKED = "permission.asked"
    PERMISSION_REPLIED = "permission.replied"
    SESSION_BEGUN = "session.begun"
    SESSION_RECORDED = "session.recorded"
    SESSION_CLOSED = "session.closed"
    SESSION_DELETED = "session.deleted"


class Phase(StrEnum):
    """How an expired reminder ended."""

    TTL_EXPIRED = "ttl_expired"
    CLEARED = "cleared"
    COMPACTED_OUT = "compacted_out"


PHASES: Final[Mapping[ExpiryReason, Phase]] = MappingProxyType(
    {
        ExpiryReason.TTL: Phase.TTL_EXPIRED,
        ExpiryReason.CLEARED: Phase.CLEARED,
        ExpiryReason.COMPACTION: Phase.COMPACTED_OUT,
    }
)


class Update(JsonRecord, msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The base of all updates. They share their records with the journal, so they are for reading only.

    `cursor` is the position after this update: the updates after it continue here. `time` is when the event was
    committed, in milliseconds since the epoch (None: an earlier version of Sideband wrote it). `Update.from_json` reads
    an update of any kind.
    """

    cursor: int
    time: int | None
    kind: UpdateKind

    @classmethod
    def _kind_of(cls, given: Mapping[str, Any]) -> type[Self]:
        shapes = {str(row.kind): row.shape for row in PROJECTED.values() if issubclass(row.shape, cls)}
        kind = given.get("kind")
        if not isinstance(kind, str) or kind not in shapes:
            raise InvalidOption(
                f"kind must be a word of UpdateKind for {cls.__name__}, not {shown(kind)}; "
                f"{suggestion(kind, shapes, kind='words')}",
                field="kind",
                value=kind,
            )
        return shapes[kind]


class ReminderUpdate(Update, frozen=True, kw_only=True):
    """Something happened to a reminder; the fields that do not apply to `kind` have their defaults.

    `reminder` is the whole record, with the TTL that it had left. When one reminder replaces others, `reminder_id` is the
    newer one and `dropped_ids` lists all that it replaced. `via` is that of `Fired`. `at_the_door` means that the reminder was never accepted.
    """

    reminder_id: str
    reminder: Reminder | None = None
    provenance: Provenance | None = None
    dedupe_key: str | None = None
    mode: Mode | None = None
    seam: Seam | None = None
    sub_agent_id: str | None = None
    turn: int | None = None
    rendered_role: str | None = None
    via: str = ""
    dropped_ids: tuple[str, ...] = ()
    phase: Phase | None = None
    boundary: Boundary | None = None
    reason: DropReason | None = None
    at_the_door: bool = False
    count: int = 1


class ProviderUpdate(Update, frozen=True, kw_only=True):
    """A provider ran; see `ProviderEvaluated`."""

    provider_id: str
    event_name: str
    fired: bool
    error: str | None = None
    skipped: str | None = None


class MessageUpdate(Update, frozen=True, kw_only=True):
    """Something happened to a user message. `item` is the whole record of an accepted one.

    `content` and `revision` are those of the event, `reason` says why the session withdrew it (None: its sender or a
    controller did), and `audit_only` means that it was recorded and not shown to the model.
    """

    message_id: str
    item: QueuedMessage | None = None
    content: tuple[dict[str, Any], ...] | None = None
    revision: int | None = None
    reason: DropReason | None = None
    audit_only: bool = False
    provenance: Provenance | None = None


class TurnUpdate(Update, frozen=True, kw_only=True):
    """A turn was opened, got its reply, or was voided.

    `reply_id` will be the id of the reply; None if this is another attempt, which keeps the id, or if the journal does not
    hold it. `reply` is the whole message of a committed turn (None: the conversation is not tracked).
    """

    turn: int
    attempt: int | None = None
    reply_id: str | None = None
    reply: dict[str, Any] | None = None
    usage: Usage | None = None


class ResultUpdate(Update, frozen=True, kw_only=True):
    """A tool call ended; `message` is the result that the model gets."""

    call_id: str
    status: str
    message: dict[str, Any]


class CompactionUpdate(Update, frozen=True, kw_only=True):
    """The conversation was compacted; `messages` is the new one (None: the conversation is not tracked)."""

    turn: int
    archived_messages: int
    messages: tuple[dict[str, Any], ...] | None = None


class CheckpointUpdate(Update, frozen=True, kw_only=True):
    """A drain took these items or skipped a tool batch."""

    turn: int
    seam: Seam
    ids: tuple[str, ...]
    dispatch_skipped: bool = False


class RunUpdate(Update, frozen=True, kw_only=True):
    """A run started, became idle or was cancelled.

    `message_id` is the message that started it (None: no message did, or an earlier version of Sideband wrote the event).
    `status` says how an idle run ended (None: a process died, or an earlier version wrote the event).
    """

    message_id: str | None = None
    status: str | None = None


class PermissionUpdate(Update, frozen=True, kw_only=True):
    """A permission was asked for, or the question was answered."""

    request_id: str


class SessionUpdate(Update, frozen=True, kw_only=True):
    """The session was begun with `records` and `messages`, got a record, was closed, or was deleted.

    A record is in `records` by its name; the value None removes it.
    """

    records: dict[str, Any] = {}
    messages: tuple[dict[str, Any], ...] = ()
    reason: DropReason | None = None


# The projection.


class _Row(NamedTuple):
    """How an event is told: the kind and the class of its update, and the fields that come from the event."""

    kind: UpdateKind
    shape: type[Update]
    fields: Callable[[Any], dict[str, Any]]


def update_of(event: Event, viewer: Viewer, *, cursor: int, time: int) -> Update | None:
    """The update that tells this viewer of an event; None if it may not see it, or if observers are not told of it.

    `time` is in milliseconds since the epoch; 0 if it was not recorded.
    """
    row = PROJECTED.get(type(event))
    # The text of a carried reminder was emitted with an earlier request.
    if row is None or (isinstance(event, Fired) and event.carried):
        return None
    kind, shape, fields_of = row
    fields = fields_of(event)
    owner = fields.get("provenance")
    if not (viewer.may_see(owner) if shape is ReminderUpdate else viewer.sees_session):
        return None
    if owner is not None and (shown := viewer.shown(owner)) is not owner:
        fields["provenance"] = shown
        if "item" in fields:
            fields["item"] = msgspec.structs.replace(fields["item"], provenance=shown)
    return shape(cursor=cursor, time=time or None, kind=kind, **fields)


def joined(earlier: Update, later: Update | None) -> ReminderUpdate | None:
    """Both as one update, if they tell that one reminder replaced others; None if they do not belong together."""
    if (
        isinstance(earlier, ReminderUpdate)
        and isinstance(later, ReminderUpdate)
        and earlier.kind is later.kind is UpdateKind.REMINDER_DEDUPED
        and earlier.reminder_id == later.reminder_id
    ):
        return msgspec.structs.replace(later, dropped_ids=earlier.dropped_ids + later.dropped_ids)
    return None


def _of(reminder: Reminder, provenance: Provenance) -> dict[str, Any]:
    return {
        "reminder_id": reminder.id,
        "reminder": reminder,
        "provenance": provenance,
        "dedupe_key": reminder.dedupe_key,
    }


def _ended(event: Expired | Revoked | Dropped) -> dict[str, Any]:
    return {"reminder_id": event.reminder_id, "provenance": event.provenance, "dedupe_key": event.dedupe_key}


def _queued(event: Queued | Replaced) -> dict[str, Any]:
    return {**_of(event.item.reminder, event.item.provenance), "mode": event.item.mode}


def _emitted(event: Fired) -> dict[str, Any]:
    return {
        "reminder_id": event.reminder_id,
        "reminder": event.reminder,
        "provenance": event.provenance,
        "dedupe_key": None if event.reminder is None else event.reminder.dedupe_key,
        "turn": event.turn,
        "rendered_role": event.rendered_role,
        "via": event.via,
    }


def _deduped(event: Deduped) -> dict[str, Any]:
    return {
        "reminder_id": event.replacing_id,
        "provenance": event.provenance,
        "dedupe_key": event.dedupe_key,
        "dropped_ids": (event.replaced_id,),
        "boundary": event.boundary,
    }


def _expired(event: Expired) -> dict[str, Any]:
    return {**_ended(event), "turn": event.turn, "phase": PHASES[event.reason], "boundary": event.boundary}


def _dropped(event: Dropped) -> dict[str, Any]:
    return {**_ended(event), "reason": event.reason, "at_the_door": event.at_the_door, "count": event.count}


def _accepted(event: InjectAccepted) -> dict[str, Any]:
    item = event.item
    return {
        "message_id": item.id,
        "item": item,
        "content": item.content,
        "revision": item.revision,
        "provenance": item.provenance,
    }


def _committed(event: TurnCommitted) -> dict[str, Any]:
    reply_id = None if event.reply is None else event.reply.get("id")
    return {"turn": event.turn, "reply_id": reply_id, "reply": event.reply, "usage": event.usage}


def _all(event: Event) -> dict[str, Any]:
    return msgspec.structs.asdict(event)


# Every event that observers are told of. The operator's grants and the ids of hooks are not among them.
PROJECTED: Final[Mapping[type[Event], _Row]] = MappingProxyType(
    {
        Queued: _Row(UpdateKind.REMINDER_QUEUED, ReminderUpdate, _queued),
        Replaced: _Row(UpdateKind.REMINDER_REPLACED, ReminderUpdate, _queued),
        Injected: _Row(
            UpdateKind.REMINDER_INJECTED,
            ReminderUpdate,
            lambda event: {**_of(event.reminder, event.provenance), "seam": event.seam},
        ),
        Inherited: _Row(
            UpdateKind.REMINDER_INHERITED,
            ReminderUpdate,
            lambda event: {**_of(event.reminder, event.provenance), "sub_agent_id": event.sub_agent_id},
        ),
        Fired: _Row(UpdateKind.REMINDER_EMITTED, ReminderUpdate, _emitted),
        Deferred: _Row(UpdateKind.REMINDER_DEFERRED, ReminderUpdate, _all),
        Deduped: _Row(UpdateKind.REMINDER_DEDUPED, ReminderUpdate, _deduped),
        Expired: _Row(UpdateKind.REMINDER_EXPIRED, ReminderUpdate, _expired),
        Revoked: _Row(UpdateKind.REMINDER_REVOKED, ReminderUpdate, _ended),
        Dropped: _Row(UpdateKind.REMINDER_DROPPED, ReminderUpdate, _dropped),
        AuditRecorded: _Row(
            UpdateKind.REMINDER_AUDIT_RECORDED,
            ReminderUpdate,
            lambda event: {**_of(event.reminder, event.provenance), "turn": event.turn},
        ),
        ProviderEvaluated: _Row(UpdateKind.PROVIDER_EVALUATED, ProviderUpdate, _all),
        InjectAccepted: _Row(UpdateKind.MESSAGE_ACCEPTED, MessageUpdate, _accepted),
        InjectDelivered: _Row(UpdateKind.MESSAGE_DELIVERED, MessageUpdate, _all),
        InjectRevoked: _Row(UpdateKind.MESSAGE_REVOKED, MessageUpdate, _all),
        InjectReplaced: _Row(UpdateKind.MESSAGE_REPLACED, MessageUpdate, _all),
        RequestCommitted: _Row(
            UpdateKind.TURN_OPENED,
            TurnUpdate,
            lambda event: {"turn": event.turn, "attempt": event.attempt, "reply_id": event.reply_id or None},
        ),
        TurnCommitted: _Row(UpdateKind.TURN_COMMITTED, TurnUpdate, _committed),
        TurnVoided: _Row(UpdateKind.TURN_VOIDED, TurnUpdate, _all),
        Compacted: _Row(UpdateKind.COMPACTED, CompactionUpdate, _all),
        ResultRecorded: _Row(UpdateKind.RESULT_RECORDED, ResultUpdate, _all),
        Checkpoint: _Row(UpdateKind.CHECKPOINT, CheckpointUpdate, _all),
        Started: _Row(UpdateKind.RUN_STARTED, RunUpdate, lambda event: {"message_id": event.message_id or None}),
        Idled: _Row(UpdateKind.RUN_IDLED, RunUpdate, lambda event: {"status": event.status or None}),
        Cancelled: _Row(UpdateKind.RUN_CANCELLED, RunUpdate, lambda _event: {}),
        PermissionAsked: _Row(UpdateKind.PERMISSION_ASKED, PermissionUpdate, _all),
        PermissionReplied: _Row(UpdateKind.PERMISSION_REPLIED, PermissionUpdate, _all),
        Begun: _Row(
            UpdateKind.SESSION_BEGUN,
            SessionUpdate,
            lambda event: {"records": event.attributes, "messages": event.messages},
        ),
        Recorded: _Row(
            UpdateKind.SESSION_RECORDED, SessionUpdate, lambda event: {"records": {event.name: event.value}}
        ),
        Closed: _Row(UpdateKind.SESSION_CLOSED, SessionUpdate, _all),
        Deleted: _Row(UpdateKind.SESSION_DELETED, SessionUpdate, _all),
    }
)


# The view that updates continue.


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """What operator and controller see of a session beside its reminders.

    `waiting` lists the user messages of the inbox. `reply_id` is the id of the reply to the open request (None: no
    request is open, or the journal does not hold the id). `closed_reason` is None while the session is open.
    """

    waiting: tuple[QueuedMessage, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    turn: int = 0
    reply_id: str | None = None
    running: bool = False
    permissions: tuple[str, ...] = ()
    records: dict[str, Any] = {}
    closed_reason: DropReason | None = None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a viewer may see of a session now: its pending reminders, and the rest (None: only its own reminders)."""

    reminders: tuple[Pending, ...] = ()
    session: SessionView | None = None


def view(state: SessionState, viewer: Viewer) -> View:
    """Copies of everything that the viewer may see. Updates after the sequence of `state` continue it."""
    everybody = viewer.sees_session or viewer.sees_all
    found = pending(state, IN_PROCESS if everybody else viewer.provenance)
    reminders = tuple(entry._replace(provenance=viewer.shown(entry.provenance)) for entry in found)
    return View(reminders=reminders, session=_session(state, viewer) if viewer.sees_session else None)


def _session(state: SessionState, viewer: Viewer) -> SessionView:
    return SessionView(
        waiting=tuple(
            msgspec.structs.replace(deepcopy(item), provenance=viewer.shown(item.provenance))
            for item in state.inbox.items()
            if isinstance(item, QueuedMessage)
        ),
        messages=tuple(map(msgspec.to_builtins, state.messages)),
        turn=state.live.turn,
        reply_id=None if state.request is None else state.request.reply_id or None,
        running=state.running,
        permissions=tuple(state.permissions),
        records=deepcopy(state.records),
        closed_reason=state.closed_reason,
    )

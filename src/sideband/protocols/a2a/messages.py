"""The shapes that travel over A2A, all of them an extension of the protocol.

The reminder inside an inject is read by the one parser; its struct here states the outer bound of what it accepts,
for the generated schemas.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from sideband.core.reminder import RoleHint
from sideband.core.seams import Mode
from sideband.protocols import wire

TaskId = Annotated[str, Meta(description="The task it is for.")]
Tenant = Annotated[str, Meta(description="The tenant, where the agent serves several.")]
Metadata = Annotated[dict[str, Any], Meta(description="Whatever the sender wants to add.")]
Claim = Annotated[str, Meta(max_length=256)]
Label = Annotated[str, Meta(description="Where it came from: what its sender says, else a word of ours.")]


class InjectedReminder(wire.InjectedReminder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reminder as a calling agent hands it in; what it says of its origin is kept as a claim."""

    id: wire.CallerId | None = None
    source: Annotated[Claim, Meta(description="Who says it, in the caller's words.")] | None = None
    fired_at_turn: Annotated[int, Meta(description="The caller's own turn.")] | None = None
    originating_agent_id: Annotated[Claim, Meta(description="The agent that had it first.")] | None = None


class InjectReminderParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/inject_reminder`: a fact for the next turn of the agent that works on the task."""

    task_id: TaskId
    reminder: InjectedReminder
    metadata: Metadata | None = None
    tenant: Tenant | None = None


class InjectReminderResult(wire.Outbound, frozen=True, kw_only=True):
    """Result of `tasks/inject_reminder`: the reminder is accepted and will not be lost."""

    reminder_id: wire.MintedId
    deduped_count: wire.DedupedCount
    accepted_at: Annotated[
        str,
        Meta(
            pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
            description="When, in UTC with milliseconds.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    meta: wire.ReplyMeta | None = msgspec.field(default=None, name="_meta")


class PendingRemindersParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/pending_reminders`: which reminders does the task have?"""

    task_id: TaskId
    tenant: Tenant | None = None


class PendingState(StrEnum):
    """`queued` waits for delivery, `live` is shown to the model."""

    QUEUED = "queued"
    LIVE = "live"


class PendingReminder(wire.Outbound, frozen=True, kw_only=True):
    """A reminder that waits or is live; only one that waits has a mode and a position."""

    id: wire.MintedId
    state: PendingState
    position: wire.Position | None = None
    mode: Mode | None = None
    body: wire.Body
    tags: wire.Tags
    dedupe_key: wire.DedupeKey | None = None
    ttl_turns: wire.TtlTurns | None = None
    role_hint: RoleHint
    source: Label


class PendingRemindersResult(wire.Outbound, frozen=True, kw_only=True):
    """Result of `tasks/pending_reminders`: the reminders that wait and those that are live."""

    pending_count: wire.PendingCount
    reminders: tuple[PendingReminder, ...]


class RevokeReminderParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/revoke_reminder`: take a reminder back before it is delivered."""

    task_id: TaskId
    reminder_id: wire.MintedId
    tenant: Tenant | None = None


class RevokeReminderResult(wire.Outbound, frozen=True, kw_only=True):
    """Result of `tasks/revoke_reminder`; `already_revoked` answers a repetition."""

    status: Literal["revoked", "already_revoked"]


class ClearRemindersParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/clear_reminders`: withdraw live reminders that match all of what is given."""

    schema: ClassVar[Mapping[str, object]] = wire.ANY_SELECTOR

    task_id: TaskId
    id: wire.SelectedId | None = None
    tag: wire.SelectedTag | None = None
    dedupe_key: wire.SelectedKey | None = None
    tenant: Tenant | None = None


class ClearRemindersResult(wire.Outbound, frozen=True, kw_only=True):
    """Result of `tasks/clear_reminders`; that nothing matched is no error."""

    removed_count: wire.RemovedCount


class EmittedReminder(wire.Outbound, frozen=True, kw_only=True):
    """What a caller is told of a reminder that was shown."""

    id: wire.MintedId
    body: wire.Body
    tags: wire.Tags | None = None
    dedupe_key: wire.DedupeKey | None = None
    source: Label
    fired_at_turn: wire.FiredAtTurn


class KeptReminder(wire.Outbound, frozen=True, kw_only=True):
    """The newer reminder, which stays."""

    id: wire.MintedId
    dedupe_key: wire.DedupeKey


class EndedReminder(wire.Outbound, frozen=True, kw_only=True):
    """The reminder that has ended."""

    id: wire.MintedId
    dedupe_key: wire.DedupeKey | None = None


class ReminderEmittedParams(wire.Outbound, frozen=True, kw_only=True):
    """A reminder was put into the request for a turn of the task."""

    task_id: TaskId
    reminder: EmittedReminder
    metadata: Metadata


class ReminderDedupedParams(wire.Outbound, frozen=True, kw_only=True):
    """A newer reminder took the place of older ones with the same key."""

    task_id: TaskId
    reminder: KeptReminder
    dropped_reminder_ids: Annotated[tuple[str, ...], Meta(description="The ones that are gone.")]
    metadata: Metadata


class ReminderExpiredParams(wire.Outbound, frozen=True, kw_only=True):
    """A reminder of the task has ended."""

    task_id: TaskId
    reminder: EndedReminder
    phase: Literal["ttl_expired", "cleared", "compacted_out"]
    expired_at_turn: Annotated[int, Meta(description="The turn after which it ended.")] | None = None
    metadata: Metadata


class ReminderEmitted(wire.Outbound, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderEmitted"):
    """A frame of its own, for callers that have activated the extension for such frames."""

    jsonrpc: Literal["2.0"]
    params: ReminderEmittedParams


class ReminderDeduped(wire.Outbound, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderDeduped"):
    """A frame of its own, for callers that have activated the extension for such frames."""

    jsonrpc: Literal["2.0"]
    params: ReminderDedupedParams


class ReminderExpired(wire.Outbound, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderExpired"):
    """A frame of its own, for callers that have activated the extension for such frames."""

    jsonrpc: Literal["2.0"]
    params: ReminderExpiredParams


class CarriedEmitted(ReminderEmittedParams, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderEmitted"):
    """`tasks/reminderEmitted` in the metadata of a status update, below the extension's URI."""


class CarriedDeduped(ReminderDedupedParams, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderDeduped"):
    """`tasks/reminderDeduped` in the metadata of a status update, below the extension's URI."""


class CarriedExpired(ReminderExpiredParams, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderExpired"):
    """`tasks/reminderExpired` in the metadata of a status update, below the extension's URI."""


class HarnEnvelope(wire.Inbound, frozen=True, kw_only=True):
    """What an older caller writes below `metadata.harn`; whole numbers may come as 2.0."""

    reminder: InjectedReminder


class SendMetadata(wire.Inbound, frozen=True, kw_only=True):
    """The metadata of a message to a task with a reminder beside the message."""

    harn: HarnEnvelope


class ExtensionParams(wire.ReminderCapability, frozen=True, kw_only=True):
    """The params of the extension on the agent card: what the asking caller may do with reminders."""

    modes: Annotated[tuple[Mode, ...], Meta(description="The delivery modes that are kept.")] | None = None
    methods: Annotated[tuple[str, ...], Meta(description="The methods that are understood.")] | None = None


class AgentExtension(wire.Outbound, frozen=True, kw_only=True):
    """The extension's entry in `capabilities.extensions` of the agent card."""

    uri: Annotated[str, Meta(description="The extension and its version.")]
    description: Annotated[str, Meta(description="What it does, for people.")]
    required: Annotated[Literal[False], Meta(description="The agent can be used without it.")]
    params: ExtensionParams


class ErrorInfo(wire.Outbound, frozen=True, kw_only=True):
    """One entry of the `data` of an error response."""

    type: Literal["type.googleapis.com/google.rpc.ErrorInfo"] = msgspec.field(name="@type")
    reason: Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]+[A-Z0-9]$", description="What was wrong.")]
    domain: Annotated[str, Meta(description="Whose reasons these are: those of A2A or ours.")]
    metadata: (
        Annotated[dict[str, str], Meta(description="Diagnostic code, field, id and waiting time, where there are.")]
        | None
    ) = None

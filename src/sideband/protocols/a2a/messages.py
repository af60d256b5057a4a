"""The shapes that travel over A2A, all of them an extension of the protocol.

The reminder inside an inject is validated by `sideband.core.parse`; its struct here describes, for the generated
schemas, the widest input that it accepts.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from sideband.core.reminder import RoleHint
from sideband.core.seams import Mode
from sideband.protocols import wire

TaskId = Annotated[str, Meta(description="The task.")]
Tenant = Annotated[str, Meta(description="The tenant, if the agent serves several.")]
Metadata = Annotated[dict[str, Any], Meta(description="Additional data of the sender.")]
Claim = Annotated[str, Meta(max_length=256)]
Label = Annotated[str, Meta(description="The origin: as claimed by the sender, or else a word of Sideband.")]


class InjectedReminder(wire.InjectedReminder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reminder as a calling agent submits it; the stated origin is stored as an unverified claim."""

    id: wire.CallerId | None = None
    source: Annotated[Claim, Meta(description="The origin, in the caller's words.")] | None = None
    fired_at_turn: Annotated[int, Meta(description="The caller's own turn.")] | None = None
    originating_agent_id: Annotated[Claim, Meta(description="The agent that created it.")] | None = None


class InjectReminderParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/inject_reminder`: a fact for the next turn of the agent that works on the task."""

    task_id: TaskId
    reminder: InjectedReminder
    metadata: Metadata | None = None
    tenant: Tenant | None = None


class InjectReminderResult(wire.Outbound, frozen=True, kw_only=True):
    """Result of `tasks/inject_reminder`: the reminder is accepted and stored."""

    reminder_id: wire.MintedId
    deduped_count: wire.DedupedCount
    accepted_at: Annotated[
        str,
        Meta(
            pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
            description="The time of acceptance, in UTC with milliseconds.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    meta: wire.ReplyMeta | None = msgspec.field(default=None, name="_meta")


class PendingRemindersParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/pending_reminders`: list the reminders of the task."""

    task_id: TaskId
    tenant: Tenant | None = None


class PendingState(StrEnum):
    """`queued`: waits for delivery; `live`: is shown to the model."""

    QUEUED = "queued"
    LIVE = "live"


class PendingReminder(wire.Outbound, frozen=True, kw_only=True):
    """A waiting or live reminder; only a waiting one has a mode and a position."""

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
    """Result of `tasks/pending_reminders`: the waiting and the live reminders."""

    pending_count: wire.PendingCount
    reminders: tuple[PendingReminder, ...]


class RevokeReminderParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/revoke_reminder`: revoke a reminder before it is delivered."""

    task_id: TaskId
    reminder_id: wire.MintedId
    tenant: Tenant | None = None


class RevokeReminderResult(wire.Outbound, frozen=True, kw_only=True):
    """Result of `tasks/revoke_reminder`; `already_revoked` if an earlier request revoked it."""

    status: Literal["revoked", "already_revoked"]


class ClearRemindersParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `tasks/clear_reminders`: end the queued and live reminders that match all given selectors."""

    schema: ClassVar[Mapping[str, object]] = wire.ANY_SELECTOR

    task_id: TaskId
    id: wire.SelectedId | None = None
    tag: wire.SelectedTag | None = None
    dedupe_key: wire.SelectedKey | None = None
    tenant: Tenant | None = None


class ClearRemindersResult(wire.Outbound, frozen=True, kw_only=True):
    """Result of `tasks/clear_reminders`; it is not an error if nothing matched."""

    removed_count: wire.RemovedCount


class EmittedReminder(wire.Outbound, frozen=True, kw_only=True):
    """A reminder that was shown, as reported to the caller."""

    id: wire.MintedId
    body: wire.Body
    tags: wire.Tags | None = None
    dedupe_key: wire.DedupeKey | None = None
    source: Label
    fired_at_turn: wire.FiredAtTurn


class KeptReminder(wire.Outbound, frozen=True, kw_only=True):
    """The newer reminder, which remains."""

    id: wire.MintedId
    dedupe_key: wire.DedupeKey


class EndedReminder(wire.Outbound, frozen=True, kw_only=True):
    """The reminder that has ended."""

    id: wire.MintedId
    dedupe_key: wire.DedupeKey | None = None


class ReminderEmittedParams(wire.Outbound, frozen=True, kw_only=True):
    """A reminder was included in the request of a turn of the task."""

    task_id: TaskId
    reminder: EmittedReminder
    metadata: Metadata


class ReminderDedupedParams(wire.Outbound, frozen=True, kw_only=True):
    """A newer reminder replaced older ones with the same key."""

    task_id: TaskId
    reminder: KeptReminder
    dropped_reminder_ids: Annotated[tuple[str, ...], Meta(description="The reminders that were replaced.")]
    metadata: Metadata


class ReminderExpiredParams(wire.Outbound, frozen=True, kw_only=True):
    """A reminder of the task has ended."""

    task_id: TaskId
    reminder: EndedReminder
    phase: Literal["ttl_expired", "cleared", "compacted_out"]
    expired_at_turn: Annotated[int, Meta(description="The turn after which it ended.")] | None = None
    metadata: Metadata


class ReminderEmitted(wire.Outbound, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderEmitted"):
    """A separate frame, for callers that have activated the extension with separate frames."""

    jsonrpc: Literal["2.0"]
    params: ReminderEmittedParams


class ReminderDeduped(wire.Outbound, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderDeduped"):
    """A separate frame, for callers that have activated the extension with separate frames."""

    jsonrpc: Literal["2.0"]
    params: ReminderDedupedParams


class ReminderExpired(wire.Outbound, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderExpired"):
    """A separate frame, for callers that have activated the extension with separate frames."""

    jsonrpc: Literal["2.0"]
    params: ReminderExpiredParams


class CarriedEmitted(ReminderEmittedParams, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderEmitted"):
    """`tasks/reminderEmitted` in the metadata of a status update, under the URI of the extension."""


class CarriedDeduped(ReminderDedupedParams, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderDeduped"):
    """`tasks/reminderDeduped` in the metadata of a status update, under the URI of the extension."""


class CarriedExpired(ReminderExpiredParams, frozen=True, kw_only=True, tag_field="method", tag="tasks/reminderExpired"):
    """`tasks/reminderExpired` in the metadata of a status update, under the URI of the extension."""


class HarnEnvelope(wire.Inbound, frozen=True, kw_only=True):
    """The content of `metadata.harn` from an older caller; integers may be written as 2.0."""

    reminder: InjectedReminder


class SendMetadata(wire.Inbound, frozen=True, kw_only=True):
    """The metadata of a message to a task that also carries a reminder."""

    harn: HarnEnvelope


class ExtensionParams(wire.ReminderCapability, frozen=True, kw_only=True):
    """The params of the extension on the agent card: what the requesting caller may do with reminders."""

    modes: Annotated[tuple[Mode, ...], Meta(description="The supported delivery modes.")] | None = None
    methods: Annotated[tuple[str, ...], Meta(description="The supported methods.")] | None = None


class AgentExtension(wire.Outbound, frozen=True, kw_only=True):
    """The extension's entry in `capabilities.extensions` of the agent card."""

    uri: Annotated[str, Meta(description="The URI of the extension and its version.")]
    description: Annotated[str, Meta(description="A description for people.")]
    required: Annotated[Literal[False], Meta(description="The agent can be used without it.")] = False
    params: ExtensionParams


class ErrorInfo(wire.Outbound, frozen=True, kw_only=True):
    """One entry of the `data` of an error response."""

    type: Literal["type.googleapis.com/google.rpc.ErrorInfo"] = msgspec.field(name="@type")
    reason: Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]+[A-Z0-9]$", description="The reason for the refusal.")]
    domain: Annotated[str, Meta(description="Who defines the reason: A2A or Sideband.")]
    metadata: (
        Annotated[dict[str, str], Meta(description="Diagnostic code, field, id and retry delay, if present.")] | None
    ) = None

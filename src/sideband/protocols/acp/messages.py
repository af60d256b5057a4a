"""The shapes that travel over ACP.

The parameters of reminder requests are validated by `sideband.core.parse`; their structs here describe, for the
generated schemas, the widest input that it accepts. All other messages are decoded and encoded with these structs.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import InjectMode, Mode
from sideband.protocols import wire
from sideband.protocols.refusals import REFUSALS

SessionId = Annotated[str, Meta(description="The session.")]
MessageId = Annotated[str, Meta(description="The id that the agent assigned when it accepted the message.")]
ContentBlock = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "properties": {"type": {"type": "string"}},
            "required": ["type"],
            "additionalProperties": True,
        },
    ),
]
Content = Annotated[
    tuple[ContentBlock, ...], Meta(description="The user's message, in the content blocks of `session/prompt`.")
]
RevokeStatus = Annotated[
    Literal["revoked", "already_revoked"],
    Meta(description="`already_revoked` if it was revoked by an earlier request."),
]


class SessionInjectReminderRequest(wire.InjectedReminder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Params of `session/inject_reminder`: a fact for the model's next turn that the user has not typed.

    A repeat with the same `_meta.sideband.idempotencyKey` and the same content gets the first response again.
    """

    session_id: SessionId


class SessionInjectReminderResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/inject_reminder`: the reminder is accepted and stored."""

    reminder_id: wire.MintedId
    deduped_count: wire.DedupedCount
    meta: wire.ReplyMeta | None = msgspec.field(default=None, name="_meta")


class DeprecatedNote(wire.Clamped, frozen=True, kw_only=True):
    """The fields of a reply to a deprecated method."""

    deprecated: Annotated[Literal[True], Meta(description="Use `session/inject_reminder` instead.")]


class DeprecatedMeta(wire.Outbound, frozen=True, kw_only=True):
    """The extension envelope of a reply to a deprecated method."""

    sideband: DeprecatedNote


class SessionRemindResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/remind`: the reminder is accepted and stored."""

    reminder_id: wire.MintedId
    deduped_count: wire.DedupedCount
    meta: DeprecatedMeta = msgspec.field(name="_meta")


class _LegacyHints(wire.Inbound, frozen=True, kw_only=True, rename=wire.SNAKE):
    tags: wire.Tags | None = ()
    dedupe_key: wire.DedupeKey | None = None
    ttl_turns: wire.TtlTurns | None = None
    preserve_on_compact: wire.PreserveOnCompact | None = False
    propagate: Propagate | None = Propagate.SESSION
    role_hint: RoleHint | None = RoleHint.SYSTEM
    mode: Mode | None = Mode.FINISH_STEP


class LegacyReminder(_LegacyHints, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reminder in the snake_case of the deprecated method."""

    body: wire.Body
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRemindFlat(LegacyReminder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Params of the deprecated `session/remind`; without `sessionId` it applies to the connection's only session."""

    session_id: SessionId | None = msgspec.field(default=None, name="sessionId")


class SessionRemindNested(wire.Inbound, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Params of `session/remind` with the reminder in an object of its own."""

    reminder: LegacyReminder
    session_id: SessionId | None = None
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class HarnReminder(_LegacyHints, frozen=True, kw_only=True):
    """A reminder in the extension envelope, which supplies the fields that are missing outside it."""

    body: wire.Body


class HarnEnvelope(wire.Inbound, frozen=True, kw_only=True):
    """The content of `_meta.harn` from an older host."""

    reminder: HarnReminder


class HarnMeta(wire.Inbound, frozen=True, kw_only=True):
    """The extension envelope of an older host."""

    harn: HarnEnvelope


class SessionRemindInMeta(_LegacyHints, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Params of `session/remind` with the body in `_meta.harn.reminder`."""

    meta: HarnMeta = msgspec.field(name="_meta")
    session_id: SessionId | None = msgspec.field(default=None, name="sessionId")


class SessionInjectRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/inject`: a message of the user while a turn runs.

    `steer` reaches the running turn at its next seam; `queue` starts a new turn when the session is idle.
    """

    session_id: SessionId
    mode: InjectMode
    content: Content
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionInjectResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/inject`: accepted, not yet delivered; a `user_message` with this id reports the delivery."""

    message_id: MessageId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeInjectRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/revoke_inject`: revoke a message before it is delivered."""

    session_id: SessionId
    message_id: MessageId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeInjectResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/revoke_inject`: the message will not be delivered."""

    status: RevokeStatus
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionReplaceInjectRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/replace_inject`: new content for a waiting message, which keeps id, mode and position."""

    session_id: SessionId
    message_id: MessageId
    content: Content
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionReplaceInjectResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/replace_inject`: only the new content will be delivered."""

    message_id: MessageId
    status: Literal["replaced"]
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionPendingInjectionsRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/pending_injections`: list what waits for delivery."""

    session_id: SessionId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class PendingReminder(wire.Outbound, frozen=True, kw_only=True, tag_field="kind", tag="reminder"):
    """A waiting reminder."""

    position: wire.Position
    mode: Mode
    reminder_id: wire.MintedId
    body: wire.Body
    tags: wire.Tags
    dedupe_key: wire.DedupeKey | None = None
    ttl_turns: wire.TtlTurns | None = None
    role_hint: RoleHint
    source: wire.SourceWord


class PendingMessage(wire.Outbound, frozen=True, kw_only=True, tag_field="kind", tag="user"):
    """A waiting message of the user."""

    position: wire.Position
    mode: InjectMode
    message_id: MessageId
    content: Content


class SessionPendingInjectionsResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/pending_injections`: everything that waits, in order of acceptance."""

    pending_count: wire.PendingCount
    injections: tuple[PendingReminder | PendingMessage, ...]
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeReminderRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/revoke_reminder`: revoke a reminder before it is delivered."""

    session_id: SessionId
    reminder_id: wire.MintedId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeReminderResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/revoke_reminder`: the reminder will not be delivered."""

    status: RevokeStatus
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionReplaceReminderRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `_sideband/session/replace_reminder`: a new body for a waiting reminder, which keeps id and position."""

    session_id: SessionId
    reminder_id: wire.MintedId
    body: wire.Body
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionReplaceReminderResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `_sideband/session/replace_reminder`: only the new body will be delivered."""

    reminder_id: wire.MintedId
    status: Literal["replaced"]
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionClearRemindersRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `_sideband/session/clear_reminders`: end the queued and live reminders that match all selectors."""

    schema: ClassVar[Mapping[str, object]] = wire.ANY_SELECTOR

    session_id: SessionId
    id: wire.SelectedId | None = None
    tag: wire.SelectedTag | None = None
    dedupe_key: wire.SelectedKey | None = None
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionClearRemindersResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `_sideband/session/clear_reminders`; it is not an error if nothing matched."""

    removed_count: wire.RemovedCount
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SteeringOptions(wire.Inbound, frozen=True, kw_only=True):
    """What to do when no turn runs: `promptRequired` returns the message, otherwise it starts a turn."""

    idle_behavior: Literal["promptRequired"] | None = None


class SteeringMeta(wire.Inbound, frozen=True, kw_only=True):
    """The `_meta` of a steering request."""

    steering: SteeringOptions | None = None


class SessionSteeringRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `_session/steering`, which agents of several vendors support: a message into the running turn."""

    session_id: SessionId
    prompt: Annotated[tuple[ContentBlock, ...], Meta(min_length=1, description="The user's message.")]
    meta: SteeringMeta | None = msgspec.field(default=None, name="_meta")


class SteeringOutcome(StrEnum):
    """What happened to the message; some agents return `failed`, Sideband does not."""

    INJECTED = "injected"
    PROMPT_REQUIRED = "promptRequired"
    STARTED_NEW_TURN = "startedNewTurn"
    FAILED = "failed"


class SessionSteeringResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `_session/steering`."""

    outcome: SteeringOutcome
    reason: Annotated[Literal["noRunningTurn"], Meta(description="Why a prompt is required.")] | None = None
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


# The reasons of errors that are not refusals of the session: faults of the model, the agent's set-up, or a frame.
FAULTS: Final = ("model_failed", "no_model", "no_folder", "turn_lost", "frame_too_large", "repeated_key")


class ErrorData(wire.Outbound, frozen=True, kw_only=True):
    """The `data` of an error response; programs should use the reason, the message is for people."""

    reason: Annotated[
        str, Meta(description="The reason for the error.", extra_json_schema={"enum": [*REFUSALS, *FAULTS]})
    ]
    code: (
        Annotated[
            str, Meta(description="The code of the diagnostic.", pattern="^(HARN-RMD|HARN-FACT|SIDEBAND)-[0-9]{3}$")
        ]
        | None
    ) = None
    field: Annotated[str, Meta(description="The parameter that is wrong.")] | None = None
    id: Annotated[str, Meta(description="The id concerned, if its kind is unknown.")] | None = None
    reminder_id: wire.MintedId | None = None
    message_id: MessageId | None = None
    session_id: (
        Annotated[str, Meta(description="The session of the request, if there is none with this id.")] | None
    ) = None
    retry_after_ms: Annotated[int, Meta(ge=0, description="The delay before a retry.")] | None = None
    detail: Annotated[str, Meta(description="What was wrong, in a sentence for people.")] | None = None
    limit: Annotated[int, Meta(ge=0, description="The number of bytes that a frame may have.")] | None = None


# Notifications about the lifecycle of reminders.


class EndPhase(StrEnum):
    """How a reminder ended."""

    TTL_EXPIRED = "ttl_expired"
    CLEARED = "cleared"
    COMPACTED_OUT = "compacted_out"


class UpdateNote(wire.Outbound, frozen=True, kw_only=True):
    """Fields that Sideband adds to an update."""

    turn: Annotated[int, Meta(description="The turn whose request showed it.")] | None = None
    rendered_role: Annotated[str, Meta(description="The role of the message that carried it.")] | None = None
    via: Annotated[str, Meta(description="`proxy` if it was handed to an agent behind a proxy.")] | None = None
    event: Annotated[str, Meta(description="`revoked` if it was revoked before delivery.")] | None = None
    requested: (
        Annotated[dict[str, Any], Meta(description="The requested values of hints that were reduced.")] | None
    ) = None
    effective: Annotated[dict[str, Any], Meta(description="The effective values of these hints.")] | None = None


class RecordEnvelope(wire.Outbound, frozen=True, kw_only=True):
    """The envelope in which observers of older agents look for the record."""

    reminder: wire.ReminderRecord


class UpdateMeta(wire.Outbound, frozen=True, kw_only=True):
    """The extension envelope of an update."""

    sideband: UpdateNote | None = None
    harn: RecordEnvelope | None = None


class ReminderEmitted(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="reminder_emitted"):
    """A reminder was included in the request of a turn."""

    reminder_id: wire.MintedId
    body: wire.Body
    tags: wire.Tags | None = None
    dedupe_key: wire.DedupeKey | None = None
    source: wire.SourceWord
    provider_id: Annotated[str, Meta(description="The provider or hook that produced it.")] | None = None
    fired_at_turn: wire.FiredAtTurn | None = None
    meta: UpdateMeta | None = msgspec.field(default=None, name="_meta")


class ReminderDeduped(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="reminder_deduped"):
    """A newer reminder replaced older ones with the same key."""

    reminder_id: Annotated[str, Meta(description="The newer reminder, which remains.")]
    dedupe_key: Annotated[str, Meta(description="The key that they share.")]
    dropped_reminder_ids: Annotated[tuple[str, ...], Meta(description="The reminders that were replaced.")]
    meta: UpdateMeta | None = msgspec.field(default=None, name="_meta")


class ReminderExpired(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="reminder_expired"):
    """A reminder has ended."""

    reminder_id: wire.MintedId
    phase: EndPhase
    expired_at_turn: Annotated[int, Meta(description="The turn after which it ended.")] | None = None
    meta: UpdateMeta | None = msgspec.field(default=None, name="_meta")


ReminderUpdate = ReminderEmitted | ReminderDeduped | ReminderExpired


class CarriedUpdate(wire.Outbound, frozen=True, kw_only=True):
    """A reminder update for a client that does not know it by name."""

    update: ReminderUpdate


class CarrierMeta(wire.Outbound, frozen=True, kw_only=True):
    """The extension envelope of an update that carries another one."""

    sideband: CarriedUpdate
    harn: RecordEnvelope | None = None


class SessionInfoUpdate(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_info_update"):
    """Carries reminder updates to clients of protocol version 1 that have not requested them by name."""

    meta: CarrierMeta = msgspec.field(name="_meta")


class SessionUpdateParams(wire.Outbound, frozen=True, kw_only=True):
    """Params of a `session/update` about a reminder."""

    session_id: SessionId
    update: ReminderEmitted | ReminderDeduped | ReminderExpired | SessionInfoUpdate
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


# Capabilities, which agent and client exchange in `initialize`.


class PendingCapability(wire.Outbound, frozen=True, kw_only=True):
    """What can be done with a waiting message, besides revoking it."""

    replace: Annotated[bool, Meta(description="`session/replace_inject` is supported.")] | None = None


class InjectCapability(wire.Outbound, frozen=True, kw_only=True):
    """The agent accepts messages while a turn runs."""

    schema: ClassVar[Mapping[str, object]] = MappingProxyType(
        {
            "if": {"properties": {"modes": {"contains": {"const": "steer"}}}},
            "then": {"required": ["steerInStream"]},
        }
    )

    modes: Annotated[tuple[InjectMode, ...], Meta(min_length=1, description="The supported modes.")]
    steer_in_stream: (
        Annotated[
            tuple[Literal["interrupt", "finish"], ...],
            Meta(min_length=1, description="Whether a steer interrupts a reply or waits for its end."),
        ]
        | None
    ) = None
    steer_in_stream_snake: (
        Annotated[
            tuple[Literal["interrupt", "finish"], ...],
            Meta(min_length=1, description="The same in the spelling of an earlier draft."),
        ]
        | None
    ) = msgspec.field(default=None, name="steer_in_stream")
    pending: PendingCapability | None = None


class SessionCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """The capabilities of a session of this agent."""

    inject: InjectCapability | None = None


class SidebandCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """The capabilities of the agent, in the extension envelope that every client forwards."""

    reminders: wire.ReminderCapability | None = None
    inject: InjectCapability | None = None


class AgentCapabilitiesMeta(wire.Outbound, frozen=True, kw_only=True):
    """The extension envelope of the agent's capabilities."""

    sideband: SidebandCapabilities | None = None


class AgentCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """Sideband's part of the `agentCapabilities` in the response to `initialize`."""

    reminders: wire.ReminderCapability | None = None
    session: SessionCapabilities | None = None
    meta: AgentCapabilitiesMeta | None = msgspec.field(default=None, name="_meta")


class SteeringSupport(wire.Outbound, frozen=True, kw_only=True):
    """Whether `_session/steering` is supported."""

    supported: bool


class InitializeMeta(wire.Outbound, frozen=True, kw_only=True):
    """The `_meta` of the response to `initialize`."""

    steering: SteeringSupport | None = None


class WantedUpdates(wire.Inbound, frozen=True, kw_only=True):
    """Which reminder updates a client of protocol version 1 can read."""

    emit: Annotated[bool, Meta(description="Send reminder updates under their own names.")] | None = None


class WantedCapabilities(wire.Inbound, frozen=True, kw_only=True):
    """What a client requests from the agent."""

    reminders: WantedUpdates | None = None


class ClientCapabilitiesMeta(wire.Inbound, frozen=True, kw_only=True):
    """The extension envelope of the client's capabilities."""

    sideband: WantedCapabilities | None = None


class ClientCapabilities(wire.Inbound, frozen=True, kw_only=True):
    """Sideband's part of the `clientCapabilities` in `initialize`."""

    meta: ClientCapabilitiesMeta | None = msgspec.field(default=None, name="_meta")

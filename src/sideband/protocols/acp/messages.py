"""The shapes that travel over ACP.

The parameters of reminder requests are read by the one parser; their structs here state the outer bound of what it
accepts, for the generated schemas. Everything else is read and written with these structs.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import InjectMode, Mode
from sideband.protocols import wire
from sideband.protocols.refusals import REFUSALS

SessionId = Annotated[str, Meta(description="The session it is for.")]
MessageId = Annotated[str, Meta(description="The id that the agent gave the message when it accepted it.")]
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
    tuple[ContentBlock, ...], Meta(description="What the user says, in the blocks of `session/prompt`.")
]
RevokeStatus = Annotated[
    Literal["revoked", "already_revoked"],
    Meta(description="`already_revoked` answers a repetition: it was withdrawn before."),
]


class SessionInjectReminderRequest(wire.InjectedReminder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Params of `session/inject_reminder`: a fact for the model's next turn that no user has typed.

    A repeat with the same `_meta.sideband.idempotencyKey` and the same content gets the first answer again.
    """

    session_id: SessionId


class SessionInjectReminderResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/inject_reminder` and `session/remind`: the reminder is accepted and will not be lost."""

    reminder_id: wire.MintedId
    deduped_count: wire.DedupedCount
    meta: wire.ReplyMeta | None = msgspec.field(default=None, name="_meta")


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
    """Params of `session/remind`, deprecated; without `sessionId` it is for the connection's only session."""

    session_id: SessionId | None = msgspec.field(default=None, name="sessionId")


class SessionRemindNested(wire.Inbound, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Params of `session/remind` with the reminder in an object of its own."""

    reminder: LegacyReminder
    session_id: SessionId | None = None
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class HarnReminder(_LegacyHints, frozen=True, kw_only=True):
    """A reminder in the extension envelope; fields that are missing beside the envelope are taken from it."""

    body: wire.Body


class HarnEnvelope(wire.Inbound, frozen=True, kw_only=True):
    """What an older host writes below `_meta.harn`."""

    reminder: HarnReminder


class HarnMeta(wire.Inbound, frozen=True, kw_only=True):
    """The extension envelope of an older host."""

    harn: HarnEnvelope


class SessionRemindInMeta(_LegacyHints, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Params of `session/remind` with the body in `_meta.harn.reminder`."""

    meta: HarnMeta = msgspec.field(name="_meta")
    session_id: SessionId | None = msgspec.field(default=None, name="sessionId")


class SessionInjectRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/inject`: something the user says while a turn runs.

    `steer` reaches the running turn at its next break, `queue` starts a turn of its own when the session is idle.
    """

    session_id: SessionId
    mode: InjectMode
    content: Content
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionInjectResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/inject`: accepted, not yet delivered; a `user_message` with this id is the delivery."""

    message_id: MessageId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeInjectRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/revoke_inject`: take a message back before it is delivered."""

    session_id: SessionId
    message_id: MessageId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeInjectResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/revoke_inject`: the message will not be delivered."""

    status: RevokeStatus
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionReplaceInjectRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/replace_inject`: other words for a message that waits; it keeps id, mode and place."""

    session_id: SessionId
    message_id: MessageId
    content: Content
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionReplaceInjectResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/replace_inject`: only the new words will be delivered."""

    message_id: MessageId
    status: Literal["replaced"]
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionPendingInjectionsRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/pending_injections`: what waits for delivery?"""

    session_id: SessionId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class PendingReminder(wire.Outbound, frozen=True, kw_only=True, tag_field="kind", tag="reminder"):
    """A reminder that waits."""

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
    """A message of the user that waits."""

    position: wire.Position
    mode: InjectMode
    message_id: MessageId
    content: Content


class SessionPendingInjectionsResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/pending_injections`: everything that waits, first in first."""

    pending_count: wire.PendingCount
    injections: tuple[PendingReminder | PendingMessage, ...]
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeReminderRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `session/revoke_reminder`: take a reminder back before it is delivered."""

    session_id: SessionId
    reminder_id: wire.MintedId
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionRevokeReminderResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `session/revoke_reminder`: no model will see it."""

    status: RevokeStatus
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionClearRemindersRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `_sideband/session/clear_reminders`: withdraw live reminders that match all of what is given."""

    schema: ClassVar[Mapping[str, object]] = wire.ANY_SELECTOR

    session_id: SessionId
    id: wire.SelectedId | None = None
    tag: wire.SelectedTag | None = None
    dedupe_key: wire.SelectedKey | None = None
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SessionClearRemindersResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `_sideband/session/clear_reminders`; that nothing matched is no error."""

    removed_count: wire.RemovedCount
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class SteeringOptions(wire.Inbound, frozen=True, kw_only=True):
    """What to do with it when no turn runs: `promptRequired` hands it back, otherwise it starts a turn."""

    idle_behavior: Literal["promptRequired"] | None = None


class SteeringMeta(wire.Inbound, frozen=True, kw_only=True):
    """Where a steering request has its options."""

    steering: SteeringOptions | None = None


class SessionSteeringRequest(wire.Inbound, frozen=True, kw_only=True):
    """Params of `_session/steering`, which agents of several makers understand: a word into the running turn."""

    session_id: SessionId
    prompt: Annotated[tuple[ContentBlock, ...], Meta(min_length=1, description="What the user says.")]
    meta: SteeringMeta | None = msgspec.field(default=None, name="_meta")


class SteeringOutcome(StrEnum):
    """What became of it; `failed` is an answer that some agents give and we do not."""

    INJECTED = "injected"
    PROMPT_REQUIRED = "promptRequired"
    STARTED_NEW_TURN = "startedNewTurn"
    FAILED = "failed"


class SessionSteeringResponse(wire.Outbound, frozen=True, kw_only=True):
    """Result of `_session/steering`."""

    outcome: SteeringOutcome
    reason: Annotated[Literal["noRunningTurn"], Meta(description="Why a prompt is required.")] | None = None
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")


class ErrorData(wire.Outbound, frozen=True, kw_only=True):
    """The `data` of an error response; the reason decides, the message is for people."""

    reason: Annotated[str, Meta(description="What was wrong.", extra_json_schema={"enum": list(REFUSALS)})]
    code: Annotated[str, Meta(description="The diagnostic to look up.", pattern="^HARN-RMD-00[1-8]$")] | None = None
    field: Annotated[str, Meta(description="The parameter to mend.")] | None = None
    id: Annotated[str, Meta(description="The id it is about, of either kind.")] | None = None
    reminder_id: wire.MintedId | None = None
    message_id: MessageId | None = None
    retry_after_ms: Annotated[int, Meta(ge=0, description="When to try again.")] | None = None

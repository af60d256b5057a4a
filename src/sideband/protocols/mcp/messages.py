"""The shapes that travel over MCP.

Notifications of a server are validated by `sideband.core.parse`; `ReminderNotification` describes, for the generated
schema, the widest input that it accepts.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sideband.core.reminder import Propagate, RoleHint
from sideband.protocols import wire

Fields = Annotated[dict[str, Any], Meta(description="Fields beyond the protocol.")]


class ReminderSpec(wire.Outbound, frozen=True, kw_only=True):
    """A reminder as a server sends it; the host decides which hints it honours."""

    id: Annotated[str, Meta(description="Stable for this fact of this server; preferably a UUIDv7.")]
    body: wire.Body
    tags: (
        Annotated[tuple[str, ...], Meta(description="Labels for finding, clearing and auditing the reminder.")] | None
    ) = None
    dedupe_key: wire.DedupeKey | None = None
    ttl_turns: Annotated[int, Meta(ge=1, description="The number of turns in which it should be shown.")] | None = None
    preserve_on_compact: wire.PreserveOnCompact = False
    propagate: Propagate = Propagate.SESSION
    role_hint: RoleHint = RoleHint.SYSTEM
    # Null differs from absent here: servers do not count turns and may say so.
    fired_at_turn: (
        Annotated[int | None, Meta(description="The host counts turns; a server may send null.")] | UnsetType
    ) = UNSET


class ReminderParams(wire.Outbound, frozen=True, kw_only=True):
    """Params of `notifications/reminder`."""

    reminder: ReminderSpec
    meta: Fields | None = msgspec.field(default=None, name="_meta")


class ReminderNotification(wire.Outbound, frozen=True, kw_only=True):
    """A server sends the host a fact for the agent's next turn."""

    jsonrpc: Literal["2.0"]
    method: Literal["notifications/reminder"]
    params: ReminderParams


class EmitCapability(wire.Outbound, frozen=True, kw_only=True):
    """A server declares that it sends reminders, in `experimental.reminders` and as the extension's settings."""

    emit: Annotated[
        bool, Meta(description="The server sends reminders; a host drops those of a server that does not declare this.")
    ]
    propagate: (
        Annotated[tuple[Propagate, ...], Meta(description="The values that it uses; absent means only `session`.")]
        | None
    ) = None
    role_hints: (
        Annotated[tuple[RoleHint, ...], Meta(description="The hints that it uses; absent means only `system`.")] | None
    ) = None
    version: Annotated[int, Meta(ge=1, description="The version of the extension.")] | None = None


class ServerExperimental(wire.Outbound, frozen=True, kw_only=True):
    """Sideband's part of a server's `experimental` capabilities."""

    reminders: EmitCapability


class ServerCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """Sideband's part of a server's capabilities: the same object in `reminders`, in `experimental.reminders`, and in
    `extensions` under `sideband/reminders`. A host reads the first that it finds.
    """

    experimental: ServerExperimental | None = None
    extensions: Annotated[dict[str, dict[str, Any]], Meta(description="Settings by extension.")] | None = None
    reminders: EmitCapability | None = None


class ReceiveCapability(wire.Outbound, frozen=True, kw_only=True):
    """A client declares that it reads reminders."""

    receive: bool


class ClientExperimental(wire.Outbound, frozen=True, kw_only=True):
    """Sideband's part of a client's `experimental` capabilities."""

    reminders: ReceiveCapability


class ClientCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """Sideband's part of a client's capabilities."""

    experimental: ClientExperimental | None = None
    extensions: Annotated[dict[str, dict[str, Any]], Meta(description="Settings by extension.")] | None = None


class ReminderFilter(wire.Inbound, frozen=True, kw_only=True):
    """Which reminders a client wants to receive; without any field, all."""

    tags: Annotated[tuple[str, ...], Meta(description="Reminders with at least one of these tags.")] | None = None
    min_ttl: Annotated[int, Meta(ge=1, description="Reminders whose `ttlTurns` is at least this number.")] | None = None


class ListenFilter(wire.Inbound, frozen=True, kw_only=True):
    """Sideband's key in the filter of `subscriptions/listen`; the acknowledgement repeats it."""

    reminders: Literal[True] | ReminderFilter


class SubscriptionsListenParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `subscriptions/listen` that request reminders."""

    notifications: ListenFilter
    meta: Fields | None = msgspec.field(default=None, name="_meta")


class RemindersListenParams(ReminderFilter, frozen=True, kw_only=True):
    """Params of `reminders/listen`: a stream of reminders for servers and clients without subscriptions."""

    meta: Fields | None = msgspec.field(default=None, name="_meta")


class ChannelParams(wire.Outbound, frozen=True, kw_only=True):
    """Params of `notifications/claude/channel`."""

    content: Annotated[str, Meta(description="The text that the model reads.")]
    meta: Annotated[dict[str, str], Meta(description="Attributes of the text.")] | None = None


class ChannelNotification(wire.Outbound, frozen=True, kw_only=True):
    """The form that Claude Code reads: text without a lifecycle."""

    jsonrpc: Literal["2.0"]
    method: Literal["notifications/claude/channel"]
    params: ChannelParams


class LoggedRecord(wire.Inbound, frozen=True, kw_only=True, rename=wire.SNAKE):
    """A reminder in snake_case, as in a log message of an older server."""

    id: Annotated[str, Meta(description="Stable for this fact of this server.")]
    body: wire.Body
    tags: wire.Tags | None = ()
    dedupe_key: wire.DedupeKey | None = None
    ttl_turns: wire.TtlTurns | None = None
    preserve_on_compact: wire.PreserveOnCompact | None = False
    propagate: Propagate | None = Propagate.SESSION
    role_hint: RoleHint | None = RoleHint.SYSTEM


class LoggedEnvelope(wire.Inbound, frozen=True, kw_only=True):
    """The content of `_meta.harn` from an older server."""

    reminder: LoggedRecord


class LoggedMeta(wire.Inbound, frozen=True, kw_only=True):
    """The extension envelope of a log message that carries a reminder."""

    harn: LoggedEnvelope


class LoggedParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of a `notifications/message` that carries a reminder; its text is for people and is not used."""

    meta: LoggedMeta = msgspec.field(name="_meta")


class LoggedNotification(wire.Inbound, frozen=True, kw_only=True):
    """A log message that carries a reminder: read from older servers, never sent."""

    jsonrpc: Literal["2.0"]
    method: Literal["notifications/message"]
    params: LoggedParams

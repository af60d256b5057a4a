"""The shapes that travel over MCP.

What a server sends is read by the one parser; `ReminderNotification` states the outer bound of what it accepts, for
the generated schema.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sideband.core.reminder import Propagate, RoleHint
from sideband.protocols import wire

Fields = Annotated[dict[str, Any], Meta(description="Fields beyond the protocol.")]


class ReminderSpec(wire.Outbound, frozen=True, kw_only=True):
    """A reminder as a server hands it over; the host decides how much of it is honoured."""

    id: Annotated[str, Meta(description="Stable for this fact of this server; best a UUIDv7.")]
    body: wire.Body
    tags: Annotated[tuple[str, ...], Meta(description="Labels to find, clear and audit it by.")] | None = None
    dedupe_key: wire.DedupeKey | None = None
    ttl_turns: Annotated[int, Meta(ge=1, description="The number of turns it should be shown in.")] | None = None
    preserve_on_compact: wire.PreserveOnCompact = False
    propagate: Propagate = Propagate.SESSION
    role_hint: RoleHint = RoleHint.SYSTEM
    # Null is a value of its own here: servers count no turns and may say so.
    fired_at_turn: Annotated[int | None, Meta(description="Turns are the host's to count.")] | UnsetType = UNSET


class ReminderParams(wire.Outbound, frozen=True, kw_only=True):
    """Params of `notifications/reminder`."""

    reminder: ReminderSpec
    meta: Fields | None = msgspec.field(default=None, name="_meta")


class ReminderNotification(wire.Outbound, frozen=True, kw_only=True):
    """A server tells the host a fact for the agent's next turn."""

    jsonrpc: Literal["2.0"]
    method: Literal["notifications/reminder"]
    params: ReminderParams


class EmitCapability(wire.Outbound, frozen=True, kw_only=True):
    """A server declares that it sends reminders, in `experimental.reminders` and as the extension's settings."""

    emit: Annotated[bool, Meta(description="Reminders are sent; a host drops those of a server that says nothing.")]
    propagate: (
        Annotated[tuple[Propagate, ...], Meta(description="The values it uses; absent means `session` alone.")] | None
    ) = None
    role_hints: (
        Annotated[tuple[RoleHint, ...], Meta(description="The hints it uses; absent means `system` alone.")] | None
    ) = None
    version: Annotated[int, Meta(ge=1, description="The version of the extension.")] | None = None


class ServerExperimental(wire.Outbound, frozen=True, kw_only=True):
    """Our part of a server's `experimental` capabilities."""

    reminders: EmitCapability


class ServerCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """Our part of what a server declares; the extension's key is reverse-DNS and not fixed here.

    `reminders` at the top is read from servers that have nothing else, and never sent.
    """

    experimental: ServerExperimental | None = None
    extensions: Annotated[dict[str, dict[str, Any]], Meta(description="Settings by extension.")] | None = None
    reminders: EmitCapability | None = None


class ReceiveCapability(wire.Outbound, frozen=True, kw_only=True):
    """A client declares that it understands reminders."""

    receive: bool


class ClientExperimental(wire.Outbound, frozen=True, kw_only=True):
    """Our part of a client's `experimental` capabilities."""

    reminders: ReceiveCapability


class ClientCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """Our part of what a client declares."""

    experimental: ClientExperimental | None = None
    extensions: Annotated[dict[str, dict[str, Any]], Meta(description="Settings by extension.")] | None = None


class ReminderFilter(wire.Inbound, frozen=True, kw_only=True):
    """Which reminders a client wants to hear of; without any of these, all."""

    tags: Annotated[tuple[str, ...], Meta(description="Those with at least one of these tags.")] | None = None
    min_ttl: Annotated[int, Meta(ge=1, description="Those that want to be shown in at least so many turns.")] | None = (
        None
    )


class ListenFilter(wire.Inbound, frozen=True, kw_only=True):
    """Our key in the filter of `subscriptions/listen`, beside those of MCP; the acknowledgement repeats it."""

    reminders: Literal[True] | ReminderFilter


class SubscriptionsListenParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of `subscriptions/listen` with reminders asked for."""

    notifications: ListenFilter
    meta: Fields | None = msgspec.field(default=None, name="_meta")


class RemindersListenParams(ReminderFilter, frozen=True, kw_only=True):
    """Params of `reminders/listen`: a stream of reminders for servers and clients without subscriptions."""

    meta: Fields | None = msgspec.field(default=None, name="_meta")


class ChannelParams(wire.Outbound, frozen=True, kw_only=True):
    """Params of `notifications/claude/channel`."""

    content: Annotated[str, Meta(description="The text that the model gets to read.")]
    meta: Annotated[dict[str, str], Meta(description="Attributes of the text.")] | None = None


class ChannelNotification(wire.Outbound, frozen=True, kw_only=True):
    """The form that Claude Code reads: a text without any lifecycle."""

    jsonrpc: Literal["2.0"]
    method: Literal["notifications/claude/channel"]
    params: ChannelParams


class LoggedRecord(wire.Inbound, frozen=True, kw_only=True, rename=wire.SNAKE):
    """A reminder in snake_case, as older servers put it into a log message."""

    id: Annotated[str, Meta(description="Stable for this fact of this server.")]
    body: wire.Body
    tags: wire.Tags | None = ()
    dedupe_key: wire.DedupeKey | None = None
    ttl_turns: wire.TtlTurns | None = None
    preserve_on_compact: wire.PreserveOnCompact | None = False
    propagate: Propagate | None = Propagate.SESSION
    role_hint: RoleHint | None = RoleHint.SYSTEM


class LoggedEnvelope(wire.Inbound, frozen=True, kw_only=True):
    """What an older server writes below `_meta.harn`."""

    reminder: LoggedRecord


class LoggedMeta(wire.Inbound, frozen=True, kw_only=True):
    """The extension envelope of a log message that carries a reminder."""

    harn: LoggedEnvelope


class LoggedParams(wire.Inbound, frozen=True, kw_only=True):
    """Params of a `notifications/message` that carries a reminder; its text is for people and not used."""

    meta: LoggedMeta = msgspec.field(name="_meta")


class LoggedNotification(wire.Inbound, frozen=True, kw_only=True):
    """A log message that carries a reminder: read from older servers, never sent."""

    jsonrpc: Literal["2.0"]
    method: Literal["notifications/message"]
    params: LoggedParams

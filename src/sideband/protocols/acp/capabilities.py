"""What ACP agents and clients tell each other about reminders and injects when they initialise."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from sideband.core.seams import InjectMode
from sideband.protocols import wire


class PendingCapability(wire.Outbound, frozen=True, kw_only=True):
    """What can be done with a message that waits, besides taking it back."""

    replace: Annotated[bool, Meta(description="`session/replace_inject` is understood.")] | None = None


class InjectCapability(wire.Outbound, frozen=True, kw_only=True):
    """The agent takes messages while a turn runs."""

    schema: ClassVar[Mapping[str, object]] = MappingProxyType(
        {
            "if": {"properties": {"modes": {"contains": {"const": "steer"}}}},
            "then": {"required": ["steerInStream"]},
        }
    )

    modes: Annotated[tuple[InjectMode, ...], Meta(min_length=1, description="The modes that are honoured.")]
    steer_in_stream: (
        Annotated[
            tuple[Literal["interrupt", "finish"], ...],
            Meta(min_length=1, description="Whether a steer cuts a reply short or waits for its end."),
        ]
        | None
    ) = None
    pending: PendingCapability | None = None


class SessionCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """What a session of this agent can do."""

    inject: InjectCapability | None = None


class SidebandCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """What the agent can do, in the place that every client lets through."""

    reminders: wire.ReminderCapability | None = None
    inject: InjectCapability | None = None


class AgentCapabilitiesMeta(wire.Outbound, frozen=True, kw_only=True):
    """The extension envelope of the agent's capabilities."""

    sideband: SidebandCapabilities | None = None


class AgentCapabilities(wire.Outbound, frozen=True, kw_only=True):
    """Our part of the `agentCapabilities` in the answer to `initialize`."""

    reminders: wire.ReminderCapability | None = None
    session: SessionCapabilities | None = None
    meta: AgentCapabilitiesMeta | None = msgspec.field(default=None, name="_meta")


class SteeringSupport(wire.Outbound, frozen=True, kw_only=True):
    """Whether `_session/steering` is understood."""

    supported: bool


class InitializeMeta(wire.Outbound, frozen=True, kw_only=True):
    """The `_meta` beside the agent's capabilities."""

    steering: SteeringSupport | None = None


class WantedUpdates(wire.Inbound, frozen=True, kw_only=True):
    """Which reports a client of protocol version 1 can read."""

    emit: Annotated[bool, Meta(description="Send the reminder updates by name.")] | None = None


class WantedCapabilities(wire.Inbound, frozen=True, kw_only=True):
    """What a client asks of us."""

    reminders: WantedUpdates | None = None


class ClientCapabilitiesMeta(wire.Inbound, frozen=True, kw_only=True):
    """The extension envelope of the client's capabilities."""

    sideband: WantedCapabilities | None = None


class ClientCapabilities(wire.Inbound, frozen=True, kw_only=True):
    """Our part of the `clientCapabilities` in `initialize`."""

    meta: ClientCapabilitiesMeta | None = msgspec.field(default=None, name="_meta")

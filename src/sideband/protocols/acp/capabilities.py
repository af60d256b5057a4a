"""What Sideband advertises in the reply to `initialize`, for the agent and the proxy."""

from typing import Any, Final

from sideband.core.seams import InjectMode
from sideband.core.trust import CEILINGS, Trust, advertised

MODES: Final = (InjectMode.QUEUE, InjectMode.STEER)
"""The modes of `session/inject` that the proposal knows; under `_meta` all five are advertised."""


def reminder_capability() -> dict[str, Any]:
    """What a controller may do with reminders: what it asks for is what it gets."""
    values = advertised(CEILINGS[Trust.CONTROLLER])
    return {
        "inject": True,
        "emit": True,
        "propagate": list(values.propagate),
        "roleHints": list(values.role_hints),
    }


def inject_capability(modes: tuple[InjectMode, ...] = MODES) -> dict[str, Any]:
    """How messages are accepted while a turn runs. Peers read either spelling of `steerInStream`."""
    return {
        "modes": list(modes),
        "steerInStream": ["finish"],
        "steer_in_stream": ["finish"],
        "pending": {"replace": True},
    }


def agent_capabilities() -> dict[str, Any]:
    """Our part of `agentCapabilities` of protocol version 1, at the places of the proposals and under `_meta`."""
    return {
        "reminders": reminder_capability(),
        "session": {"inject": inject_capability()},
        "_meta": {"sideband": sideband_capabilities()},
    }


def sideband_capabilities() -> dict[str, Any]:
    """The same for `_meta.sideband`, the only place that every client forwards."""
    return {"reminders": reminder_capability(), "inject": inject_capability(tuple(InjectMode))}


def initialize_meta() -> dict[str, Any]:
    """The `_meta` at the top of the reply."""
    return {"steering": {"supported": True}}

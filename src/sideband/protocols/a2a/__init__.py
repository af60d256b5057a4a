"""A2A: tasks of other agents, and reminders for them while they run. The message shapes need no further package."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sideband.protocols.a2a.auth import KnownPeer, read_peers_file
    from sideband.protocols.a2a.client import PeerAgent, connect
    from sideband.protocols.a2a.propagate import delegate_tool
    from sideband.protocols.a2a.server import A2aServer

__all__ = ["A2aServer", "KnownPeer", "PeerAgent", "connect", "delegate_tool", "read_peers_file"]

_HOMES = {
    "A2aServer": "sideband.protocols.a2a.server",
    "KnownPeer": "sideband.protocols.a2a.auth",
    "PeerAgent": "sideband.protocols.a2a.client",
    "connect": "sideband.protocols.a2a.client",
    "delegate_tool": "sideband.protocols.a2a.propagate",
    "read_peers_file": "sideband.protocols.a2a.auth",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    """Import what is used: the message shapes are generated without the SDK."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"A2A needs {missing.name}, which is not installed: pip install 'sideband[a2a,serve]'", name=missing.name
        ) from missing

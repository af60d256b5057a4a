"""The modes of a session: when the client is asked before a tool changes a file or runs a command."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sideband.protocols.acp.agent.tool_calls import KINDS

ASK: Final = "ask"
EDITS: Final = "edits"
READ_ONLY: Final = "read_only"


class SessionMode(NamedTuple):
    """A mode as clients list it; calls of the `free` kinds need no permission."""

    name: str
    description: str
    free: frozenset[str]
    asks: bool = True


_READS: Final = frozenset({"read", "search"})

MODES: Final[Mapping[str, SessionMode]] = MappingProxyType(
    {
        ASK: SessionMode("Ask", "Asks before it changes a file or runs a command.", _READS),
        EDITS: SessionMode(
            "Edit files", "Changes files without asking, and asks before it runs a command.", _READS | {"edit"}
        ),
        READ_ONLY: SessionMode("Read only", "Changes no file and runs no command.", _READS, asks=False),
    }
)


def is_free(mode: str, tool: str) -> bool:
    """Whether calls of this tool need no permission."""
    return KINDS.get(tool, "other") in MODES[mode].free


def mode_state(mode: str) -> dict[str, Any]:
    """The modes as protocol version 1 lists them."""
    modes = [{"id": key, "name": one.name, "description": one.description} for key, one in MODES.items()]
    return {"currentModeId": mode, "availableModes": modes}


def config_options(mode: str) -> list[dict[str, Any]]:
    """The modes as protocol version 2 lists them."""
    options = [{"value": key, "name": one.name, "description": one.description} for key, one in MODES.items()]
    return [
        {
            "configId": "mode",
            "name": "Mode",
            "category": "mode",
            "type": "select",
            "currentValue": mode,
            "options": options,
        }
    ]

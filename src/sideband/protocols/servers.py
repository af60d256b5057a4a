"""The MCP servers of sessions, as an agent on another protocol uses them; `sideband.protocols.mcp.servers` has them."""

from collections.abc import Sequence
from typing import Any, Protocol

from sideband.ports import Tool
from sideband.runtime.session import Session


class SessionServers(Protocol):
    """Connects sessions to MCP servers: to those of the user's configuration, and to those that a client names."""

    def read(self, given: object, *, cwd: str) -> Sequence[Any]:
        """Check the servers that a client gives with a session that works in this folder; `InvalidOption` if one is wrong."""

    async def attach(self, session: Session, given: Sequence[Any]) -> Sequence[Tool]:
        """Connect a session to the servers, instead of those that it had; `given` is what `read` has returned.

        The tools are read when a run begins, so they follow changes.
        """

    async def detach(self, session: Session, tools: Sequence[Tool]) -> None:
        """Disconnect a session, if `tools` are what its last `attach` has returned, and end the servers given with it."""

    async def close(self) -> None:
        """End all servers."""

"""MCP servers for the agents of other protocols. The SDK is imported when the first session needs a server.

Editors start an agent for each window, and the import takes longer than everything else that an agent does at its start.
"""

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sideband.core.errors import InvalidOption
from sideband.ports import Tool
from sideband.protocols.mcp.config import SERVERS, ServerConfig, read_given
from sideband.runtime.session import Session

if TYPE_CHECKING:
    from sideband.protocols.mcp.host import McpHost


def is_installed() -> bool:
    """Whether the packages of the extra `mcp` are there, in a version that can be used."""
    return all(find_spec(name) is not None for name in ("mcp", "mcp_types"))


class LazyServers:
    """The servers of a configuration and of clients; a `SessionServers`."""

    def __init__(self, configured: Sequence[ServerConfig] = ()) -> None:
        self._configured = tuple(configured)
        self._host: McpHost | None = None
        # Protects the start of the host.
        self._starting = asyncio.Lock()

    def read(self, given: object, *, cwd: str) -> Sequence[ServerConfig]:
        if not given:
            return ()
        servers = read_given(given)
        names = {server.name for server in self._configured}
        for server in servers:
            if server.name in names:
                raise InvalidOption(
                    f"{SERVERS}: the configuration of the agent has a server with the name {server.name!r}, too; give "
                    "one of them another name",
                    field=SERVERS,
                    value=server.name,
                )
        return [msgspec.structs.replace(server, cwd=server.cwd or Path(cwd)) for server in servers]

    async def attach(self, session: Session, given: Sequence[ServerConfig]) -> Sequence[Tool]:
        if not given and not self._configured:
            return ()
        return await (await self._started()).attach(session, given=given)

    async def detach(self, session: Session, tools: Sequence[Tool]) -> None:
        if self._host is not None:
            await self._host.detach(session, tools=tools)

    async def close(self) -> None:
        if self._host is not None:
            await self._host.close()

    async def _started(self) -> "McpHost":
        async with self._starting:
            if self._host is None:
                host_class = await asyncio.to_thread(_import_host)
                self._host = host_class(self._configured)
                self._host.start()
        return self._host


def _import_host() -> "type[McpHost]":
    from sideband.protocols.mcp.host import McpHost  # noqa: PLC0415 - see the top of this module

    return McpHost

"""The host side of MCP: servers whose reminders and tools reach the sessions of an agent.

```python
async with McpHost(".mcp.json") as host:
    tools = await host.attach(session)
    await sb.agent_loop("Fix the login bug", session=session, model="anthropic:NAME", tools=[*sb.workspace_tools("."), tools])
```
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from sideband.core.errors import InvalidOption, shown, suggestion
from sideband.ports import Clock, Tool
from sideband.protocols.mcp.config import ConfigSource, ServerConfig, servers_of
from sideband.protocols.mcp.host.connection import Connection
from sideband.protocols.mcp.host.receiver import Receiver
from sideband.protocols.mcp.host.reports import OnReport, ignore
from sideband.protocols.mcp.host.tools import McpTool, without_collisions
from sideband.runtime.session import Session
from sideband.runtime.system import SystemClock, new_id
from sideband.tools.live import LiveTools

# How long attaching a session waits for its servers. A later server adds its tools to the next run.
READY_SECONDS: Final = 10.0


class _Attached(NamedTuple):
    """The servers of one session: those of the configuration, and those that were given with the session."""

    configured: tuple[Connection, ...]
    given: tuple[Connection, ...]

    @property
    def all(self) -> tuple[Connection, ...]:
        return self.configured + self.given


class McpHost:
    """Connects to MCP servers; use it with `async with`.

    `config` is a file in the `mcpServers` format of other hosts, its content, or a list of `ServerConfig`. The servers of
    the configuration serve all sessions that are attached. `on_report` is called with what happens to connections and
    reminders. `clock` is for tests.
    """

    def __init__(self, config: ConfigSource = (), *, on_report: OnReport = ignore, clock: Clock | None = None) -> None:
        self._on_report = on_report
        self._clock = clock or SystemClock()
        # By which a server recognises that several requests come from this host.
        self._client_name = new_id()
        self._connections = {server.name: self._connection(server) for server in servers_of(config)}
        self._attached: dict[str, _Attached] = {}

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Connect to the servers of the configuration, in the background."""
        for connection in self._connections.values():
            connection.start()

    async def close(self) -> None:
        """Detach all sessions, and end all connections."""
        for session_id in tuple(self._attached):
            await self._detach(session_id)
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The servers of the configuration by their names."""
        return self._connections

    async def attach(
        self,
        session: Session,
        *,
        servers: Sequence[str] | None = None,
        given: Sequence[ServerConfig] = (),
        seconds: float = READY_SECONDS,
    ) -> Sequence[Tool]:
        """Deliver the reminders of the servers to a session, and return their tools for its runs.

        `servers` names those of the configuration that the session uses (None: all); it gets the reminders and the tools
        of these. `given` are further servers, for this session only. This waits for servers that are still connecting,
        but not longer than `seconds`. The returned sequence is read when a run begins, so it follows changes.
        """
        if session.id in self._attached:
            await self.detach(session)
        chosen = tuple(self._chosen(servers))
        own = tuple(self._connection(server) for server in given)
        for connection in own:
            if any(connection.server.name == other.server.name for other in chosen):
                raise InvalidOption(
                    f"the session has a server with the name {shown(connection.server.name)} in the configuration",
                    field="given",
                    value=connection.server.name,
                )
            connection.start()
        attached = self._attached[session.id] = _Attached(chosen, own)
        for connection in attached.all:
            connection.receiver.attach(session)
        await asyncio.gather(*(connection.until_settled(seconds) for connection in attached.all))
        return LiveTools(lambda: without_collisions(_tools_of(attached)))

    async def detach(self, session: Session) -> None:
        """Deliver nothing more to a session, and end the servers that were given with it."""
        await self._detach(session.id)

    async def _detach(self, session_id: str) -> None:
        attached = self._attached.pop(session_id, None)
        if attached is None:
            return
        for connection in attached.all:
            await connection.receiver.detach(session_id)
        await asyncio.gather(*(connection.close() for connection in attached.given))

    def _chosen(self, names: Sequence[str] | None) -> Iterator[Connection]:
        for name in self._connections if names is None else names:
            if name not in self._connections:
                raise InvalidOption(
                    f"there is no MCP server {shown(name)}; {suggestion(name, [*self._connections], kind='servers')}",
                    field="servers",
                    value=name,
                )
            yield self._connections[name]

    def _connection(self, server: ServerConfig) -> Connection:
        receiver = Receiver(server, self._on_report, new_id)
        return Connection(server, receiver, self._on_report, clock=self._clock, client_name=self._client_name)


def _tools_of(attached: _Attached) -> Iterator[McpTool]:
    for connection in attached.all:
        yield from connection.tools

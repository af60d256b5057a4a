"""The host side of MCP: servers whose reminders and tools reach the sessions of an agent.

```python
async with McpHost(".mcp.json") as host:
    tools = await host.attach(session)
    await sb.agent_loop("Fix the login bug", session=session, model="anthropic:NAME", tools=[*sb.workspace_tools("."), tools])
```
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

from sideband.core.errors import InvalidOption, shown, suggestion
from sideband.core.trust import TrustPolicy
from sideband.logs import LOG
from sideband.ports import Clock, Tool
from sideband.protocols.mcp.config import ConfigSource, ServerConfig, servers_of
from sideband.protocols.mcp.host.connection import Connection
from sideband.protocols.mcp.host.receiver import Receiver
from sideband.protocols.mcp.host.reports import HostReport, OnReport, ignore
from sideband.protocols.mcp.host.tools import McpTool, without_collisions
from sideband.runtime.session import Session
from sideband.runtime.system import SystemClock, new_id
from sideband.tools.live import LiveTools

# How long attaching a session waits for its servers. A later server adds its tools to the next run.
READY_SECONDS: Final = 10.0


class _HostState(StrEnum):
    """Whether a host can be used; the words are those of an error."""

    NEW = "not started"
    STARTED = "started"
    CLOSED = "closed"


class _Attached:
    """The servers of one session: those of the configuration, and those that were given with the session."""

    def __init__(self, configured: tuple[Connection, ...], given: tuple[Connection, ...]) -> None:
        self.given = given
        self.servers = configured + given
        self.tools: Sequence[Tool] = ()
        self.is_over = False


class McpHost:
    """Connects to MCP servers; use it with `async with`.

    `config` is a file in the `mcpServers` format of other hosts, its content, or a list of `ServerConfig`. The servers of
    the configuration serve all sessions that are attached. `on_report` is called with what happens to connections and
    reminders. `clock` is for tests.
    """

    def __init__(self, config: ConfigSource = (), *, on_report: OnReport = ignore, clock: Clock | None = None) -> None:
        self._listener = on_report
        self._has_failed_listener = False
        self._state = _HostState.NEW
        # Protects the attachments: one session is attached or detached at a time.
        self._attaching: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
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
        self._state = _HostState.STARTED
        for connection in self._connections.values():
            connection.start()

    async def close(self) -> None:
        """Detach all sessions, and end all connections."""
        self._state = _HostState.CLOSED
        await asyncio.gather(*(self._detach(session_id) for session_id in tuple(self._attached)))
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
        if self._state is not _HostState.STARTED:
            raise InvalidOption(
                f"the host is {self._state}; attach sessions inside `async with McpHost(...) as host:`", field="session"
            )
        chosen = tuple(self._chosen(servers))
        # Everything is checked before anything is started.
        servers_of([connection.server for connection in chosen] + list(given))
        async with self._attaching[session.id]:
            await self._release(session.id)
            own = tuple(self._connection(server) for server in given)
            attached = self._attached[session.id] = _Attached(chosen, own)
            for connection in own:
                connection.start()
            for connection in attached.servers:
                _log_trust(connection.server, session.id)
                connection.receiver.attach(session)
        try:
            await asyncio.gather(*(connection.until_settled(seconds) for connection in attached.servers))
        except asyncio.CancelledError:
            if self._attached.get(session.id) is attached:
                await self._detach(session.id)
            raise
        attached.tools = LiveTools(lambda: without_collisions(_tools_of(attached)))
        return attached.tools

    async def detach(self, session: Session, *, tools: Sequence[Tool] | None = None) -> None:
        """Deliver nothing more to a session, and end the servers that were given with it.

        With `tools`, only if these are the ones that the last `attach` of the session has returned.
        """
        attached = self._attached.get(session.id)
        if tools is None or (attached is not None and attached.tools is tools):
            await self._detach(session.id)

    async def _detach(self, session_id: str) -> None:
        async with self._attaching[session_id]:
            await self._release(session_id)
        self._attaching.pop(session_id, None)

    async def _release(self, session_id: str) -> None:
        attached = self._attached.pop(session_id, None)
        if attached is not None:
            attached.is_over = True
            for connection in attached.servers:
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
        receiver = Receiver(server, self._report, new_id)
        return Connection(server, receiver, self._report, clock=self._clock, client_name=self._client_name)

    def _report(self, report: HostReport) -> None:
        try:
            self._listener(report)
        except Exception:  # noqa: BLE001 - the listener is code of the user
            if not self._has_failed_listener:
                self._has_failed_listener = True
                LOG.exception("the listener of the MCP host failed; further failures are not logged")


def _tools_of(attached: _Attached) -> Iterator[McpTool]:
    for connection in () if attached.is_over else attached.servers:
        yield from connection.tools


def _log_trust(server: ServerConfig, session_id: str) -> None:
    """Log what the configuration lets a server do beyond its ceilings."""
    reminders = server.reminders
    if reminders.trust is not TrustPolicy.CEILINGS or reminders.grants:
        granted = ", ".join(f"{grant.field} {grant.value}" for grant in reminders.grants) or "none"
        LOG.info("session %s: MCP server %s: trust %s, grants: %s", session_id, server.name, reminders.trust, granted)

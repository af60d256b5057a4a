"""The ACP agent: the sessions of a store, offered to any number of connections."""

from pathlib import Path
from types import TracebackType
from typing import Self

from sideband.core.errors import UnknownSession, shown
from sideband.ports import Model
from sideband.protocols.acp.agent.connection import AgentConnection
from sideband.protocols.acp.agent.hosted import HostedSession, ToolsOf
from sideband.protocols.frames import Transport
from sideband.protocols.servers import SessionServers
from sideband.runtime.options import AgentOptions
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.tools.workspace import workspace_tools


class AcpAgent:
    """Serves the sessions of a store to any number of connections; use it with `async with`.

    `model` is that of every session (None: prompts are refused and say what to set). Sessions work in the folder that the
    client names, or in `workspace` if it is given. `principal` is the recorded sender of what clients send.
    `tools_of` makes the tools for a folder. `servers` connects sessions to MCP servers (None: requests that name some are
    refused). `options` are further options of the runs.
    """

    def __init__(
        self,
        store: Store,
        *,
        model: str | Model | None = None,
        workspace: str | Path | None = None,
        principal: str = "client",
        tools_of: ToolsOf = workspace_tools,
        servers: SessionServers | None = None,
        options: AgentOptions | None = None,
    ) -> None:
        self.store = store
        self.principal = principal
        self.workspace = None if workspace is None else str(Path(workspace).resolve())
        self._tools_of = tools_of
        self.servers = servers
        self._options: AgentOptions | None = None
        if model is not None:
            self._options = {"model": model} if options is None else {**options, "model": model}
        self._hosted: dict[str, HostedSession] = {}
        # The tools that users have allowed, by session.
        self._allowed: dict[str, set[str]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._hosted:
            _, hosted = self._hosted.popitem()
            await hosted.close()
        if self.servers is not None:
            await self.servers.close()

    @property
    def offered(self) -> frozenset[str]:
        """The sessions that this process runs, or that clients are attached to."""
        return frozenset(self._hosted)

    async def serve(self, transport: Transport) -> None:
        """Serve one connection until its end."""
        await AgentConnection(self, transport).serve()

    async def find(self, session_id: str) -> Session:
        """The session with this id; `UnknownSession` if there is none. This creates nothing."""
        session = await self.store.find(session_id)
        if session is None:
            raise UnknownSession(
                f"there is no session {shown(session_id)}; session/list lists the sessions",
                field="sessionId",
                value=session_id,
            )
        return session

    async def host(self, session: Session) -> HostedSession:
        """The session as this process offers it."""
        hosted = self._hosted.get(session.id)
        if hosted is None:
            for other in tuple(self._hosted.values()):
                await self.release(other)
            cwd = self.workspace or (await session.records()).get("cwd")
            hosted = self._hosted.setdefault(
                session.id,
                HostedSession(
                    session,
                    cwd=cwd if isinstance(cwd, str) else str(Path.cwd()),
                    allowed=self._allowed.setdefault(session.id, set()),
                    tools_of=self._tools_of,
                    servers=self.servers,
                    options=self._options,
                ),
            )
        return hosted

    async def release(self, hosted: HostedSession) -> None:
        """Stop offering a session that no client is attached to, unless it runs or has prompts to run."""
        is_offered = self._hosted.get(hosted.session.id) is hosted
        if is_offered and not hosted.attachments and not hosted.has_work:
            del self._hosted[hosted.session.id]
            await hosted.close()

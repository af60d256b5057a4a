"""A session that this process offers to clients: its runner, its tools, its permissions, and the attached clients."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, Unpack

import msgspec

from sideband.core.messages import ToolCall, storable
from sideband.core.reminder import Source
from sideband.core.seams import InjectMode
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance
from sideband.logs import LOG
from sideband.ports import Tool, ToolContext, ToolOutput
from sideband.protocols.acp.agent import tool_calls
from sideband.protocols.acp.agent.attachment import Attachment
from sideband.protocols.acp.agent.client_tools import ClientEditor, editor_of_clients
from sideband.protocols.acp.agent.permissions import SessionPermission
from sideband.protocols.acp.agent.tool_calls import Change
from sideband.protocols.servers import SessionServers
from sideband.providers.context import WorkspaceAnchor
from sideband.runtime.options import AgentOptions
from sideband.runtime.producer import Producer
from sideband.runtime.runner import Runner
from sideband.runtime.session import Session
from sideband.tools.editor import EditorContext
from sideband.tools.function import ToolLike, read_tools, watcher_of
from sideband.tools.live import LiveTools
from sideband.tools.tool import offload

ToolsOf: TypeAlias = Callable[[str], Sequence[ToolLike]]
"""The tools for a session that works in this folder."""

SYSTEM: Final = (
    "You are a coding agent. You work in the folder {cwd} with the tools that you are given; paths are relative to it. "
    "Read a file before you change it, keep changes small, and run the tests if there are any. "
    "Say briefly what you have done."
)

# More messages than a session accepts at a time.
MAX_ACCEPTED: Final = 1_024


class ReplyStream(msgspec.Struct):
    """The text of the reply that the model is writing: pieces with the number of the attempt that they belong to."""

    reply_id: str = ""
    attempt: int = 0
    pieces: list[tuple[int, str]] = []


class ObservedTool:
    """A tool that tells the clients when it starts, remembers the file that it is about to change, and uses what the
    clients offer.
    """

    def __init__(self, tool: Tool, hosted: "HostedSession") -> None:
        self._tool = tool
        self._hosted = hosted
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self.idempotent = tool.idempotent
        self.seconds = getattr(tool, "seconds", None)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await self._hosted.begin_call(ToolCall(id=context.call_id, name=self.name, args=dict(args)))
        editor = self._hosted.editor()
        return await self._tool.call(args, context if editor is None else EditorContext(context, editor))


class HostedProducer(Producer):
    """The producer of a client for a session that this process offers."""

    def __init__(self, hosted: "HostedSession", provenance: Provenance, *, surface: Surface) -> None:
        super().__init__(hosted.session, provenance, surface=surface, source=Source.BRIDGE)
        self._hosted = hosted

    async def inject(
        self, content: str | Sequence[Mapping[str, Any]], *, mode: str, meta: Mapping[str, object] | None = None
    ) -> str:
        accepting = super().inject(content, mode=mode, meta=meta)
        return await (self._hosted.accept(accepting) if mode == InjectMode.QUEUE else accepting)


class HostedSession:
    """A session with the clients of this process that are attached to it.

    `options` are those of its runs (None: no model is configured). `allowed` are the tools that need no permission.
    """

    def __init__(
        self,
        session: Session,
        *,
        cwd: str,
        allowed: set[str],
        tools_of: ToolsOf,
        options: AgentOptions | None,
        servers: SessionServers | None = None,
    ) -> None:
        self.session = session
        self.cwd = cwd
        self.permission = SessionPermission(session, cwd, allowed=allowed, change_of=self._note_change)
        self.runner: Runner | None = None
        # Whether the session is known to have another title than a new one.
        self.is_named = False
        self.attachments: list[Attachment] = []
        self.stream = ReplyStream()
        # The calls that have begun, and what they change, until their results are told.
        self.started: set[str] = set()
        self.changes: dict[str, Change] = {}
        # The queued messages that clients of this process have sent, and how many are being accepted right now. They are
        # run here, with the tools and permissions of this process.
        self._accepted: dict[str, None] = {}
        self._accepting = 0
        self._tools_of = tools_of
        self._options = options
        self._servers = servers
        # What was given last (None: before the first time), the task that connects to it, and the tools of all servers.
        self._given_servers: Sequence[Any] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._server_tools: Sequence[Tool] = ()

    # Clients.

    def attach(self, client: Attachment) -> None:
        self.attachments.append(client)
        if not client.is_observer:
            self.permission.attach(client)

    def detach(self, client: Attachment) -> None:
        if client in self.attachments:
            self.attachments.remove(client)
        self.permission.detach(client)

    def use_servers(self, given: Sequence[Any]) -> None:
        """Connect the session, in the background, to the servers of the configuration and to those that a client has given.

        A client that gives none leaves those of other clients as they are.
        """
        if self._servers is None or given == self._given_servers:
            return
        if self._given_servers and not given and len(self.attachments) > 1:
            return
        self._given_servers = given
        earlier = self._connecting
        self._connecting = asyncio.create_task(self._connect(self._servers, given, earlier))

    async def _connect(self, servers: SessionServers, given: Sequence[Any], earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait((earlier,))
        try:
            self._server_tools = await servers.attach(self.session, given)
        except Exception:  # noqa: BLE001 - a session is of use without its servers, too
            LOG.exception("session %s: its MCP servers cannot be used", self.session.id)

    async def until_connected(self) -> None:
        """Wait until the servers are connected, or have had their time for it: a run reads their tools when it begins."""
        if self._connecting is not None:
            await asyncio.wait((self._connecting,))

    # Running.

    def start(self) -> None:
        """Run what is queued from now on. `ModelError` or `InvalidOption` if the model cannot be made."""
        if self.runner is not None or self._options is None:
            return
        given = self._tools_of(self.cwd)
        tools = read_tools(given)
        options: AgentOptions = {
            "name": "sideband",
            "system": SYSTEM.format(cwd=self.cwd),
            "compactor": "summarize",
            "anchor": WorkspaceAnchor(primary=self.cwd),
            **self._options,
            "tools": LiveTools(lambda: [ObservedTool(tool, self) for tool in (*tools, *self._server_tools)]),
            "watcher": watcher_of(given, tools),
            "permission": self.permission,
            "on_restart": self._restarted,
        }
        self.runner = self._runner(**options)
        self.runner.start()

    def _runner(self, **options: Unpack[AgentOptions]) -> Runner:
        return Runner(self.session, on_reply=self._replied, on_result=self._ended, is_own=self._is_own, **options)

    async def accept(self, queuing: Awaitable[str]) -> str:
        """Accept a message that may start a turn, and remember that it is to be run here; return its id."""
        self._accepting += 1
        try:
            message_id = await queuing
        finally:
            self._accepting -= 1
        self._accepted[message_id] = None
        if len(self._accepted) > MAX_ACCEPTED:
            del self._accepted[next(iter(self._accepted))]
        return message_id

    def _is_own(self, message_id: str) -> bool:
        return self._accepting > 0 or message_id in self._accepted

    @property
    def has_work(self) -> bool:
        """Whether a turn runs in this process, or something is or will be queued for one."""
        return self._accepting > 0 or (self.runner is not None and self.runner.has_work)

    async def close(self) -> None:
        """Stop running; a turn that runs is cancelled."""
        if self.runner is not None:
            await self.runner.aclose()
            self.runner = None
        if self._servers is not None and self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))
            await self._servers.detach(self.session, self._server_tools)

    # What the run tells.

    def _replied(self, reply_id: str, text: str) -> None:
        if self.stream.reply_id != reply_id:
            self.stream = ReplyStream(reply_id)
        # The journal replaces what cannot be encoded, too.
        self.stream.pieces.append((self.stream.attempt, storable(text)))
        for attachment in self.attachments:
            attachment.pass_text(reply_id)

    def _restarted(self, *_: object) -> None:
        self.stream.attempt += 1

    def _ended(self, message_id: str | None, *_: object) -> None:
        self._accepted.pop(message_id or "", None)
        self.started.clear()
        self.changes.clear()

    async def begin_call(self, call: ToolCall) -> None:
        """A tool is about to run."""
        await self._note_change(call)
        self.started.add(call.id)
        for attachment in self.attachments:
            attachment.tool_started(call.id)

    async def _note_change(self, call: ToolCall) -> Change | None:
        if call.id not in self.changes and tool_calls.KINDS.get(call.name) == "edit":
            editor = self.editor()
            change = await offload(partial(tool_calls.planned_change, call, self.cwd, editor), waits=editor is not None)
            if change is not None:
                self.changes[call.id] = change
        return self.changes.get(call.id)

    def editor(self) -> ClientEditor | None:
        """The files and terminals of the attached clients, for a call that begins now."""
        run = None if self.runner is None else self.runner.run
        prompt_id = None if run is None else run.prompt_id
        return editor_of_clients(self.attachments, self.session.id, self.cwd, prompt_id)

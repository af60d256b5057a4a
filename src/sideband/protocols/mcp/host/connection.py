"""The connection of the host to one server: it is made again when it is lost, and listens where the server has listen
streams.

The client of the SDK must be left in the task that has entered it, so each connection has a task of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import mcp_types as types
from mcp import Client
from mcp.client import advertise
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sideband import __version__
from sideband.core.errors import shown
from sideband.core.masking import mask_text
from sideband.logs import LOG
from sideband.ports import Clock
from sideband.protocols.mcp import capabilities
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host.receiver import METHODS, Receiver
from sideband.protocols.mcp.host.reports import OnReport, ServerReport, ServerState
from sideband.protocols.mcp.host.tools import McpTool
from sideband.protocols.mcp.host.transport import HttpSession, Streams, http_transport, stdio_transport
from sideband.protocols.process import ChildNotStarted, ChildProcess

# How long a server may take until it is connected and has listed its tools. Package runners may download it first.
CONNECT_SECONDS: Final = 60.0
# The pause before a lost connection or listen stream is made again; it is doubled after each failure.
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
# A connection that has lasted this long has worked, so that the next pause is the first one.
STEADY_SECONDS: Final = 10.0
# Up to revision 2025-11-25 the end of an HTTP server is noticed only by asking.
PING_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 15.0
# After the end of its process, how long the output of a server is still read. Another process may hold it open.
LAST_WORDS_SECONDS: Final = 0.2
# A server whose list of tools never ends is cut off.
MAX_TOOLS: Final = 1_024
MAX_PAGES: Final = 100
STDERR_LINES: Final = 5

_LIST_CHANGED: Final = "notifications/tools/list_changed"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_TELLS_CAPABILITIES: Final = frozenset({"initialize", "server/discover"})


class _ListenParams(types.RequestParams):
    pass


class _ListenRequest(types.Request[_ListenParams, Literal["reminders/listen"]]):
    method: Literal["reminders/listen"] = "reminders/listen"
    params: _ListenParams


class Connection:
    """One server. `start` connects in the background; `close` ends the connection and the process of the server."""

    def __init__(
        self, server: ServerConfig, receiver: Receiver, on_report: OnReport, *, clock: Clock, client_name: str
    ) -> None:
        self.server = server
        self.receiver = receiver
        self.tools: tuple[McpTool, ...] = ()
        self.failure: str | None = None
        self._on_report = on_report
        self._clock = clock
        self._client_name = client_name
        self._client: Client | None = None
        self._is_connected = False
        # Set when the first attempt has succeeded or failed.
        self._settled = asyncio.Event()
        self._closing = asyncio.Event()
        # Set when the connection that is in use is over or is to end.
        self._stop = asyncio.Event()
        self._tools_changed = asyncio.Event()
        # Of the connection that is being made or used.
        self._asked: dict[object, str] = {}
        self._honoured: asyncio.Future[bool] | None = None
        self._task: asyncio.Task[None] | None = None

    # Beginning and end.

    def start(self) -> None:
        """Connect in a task of the running event loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"sideband-mcp-{self.server.name}-connection")

    async def until_settled(self, seconds: float) -> None:
        """Wait until the server is connected or has failed once, but not longer than this."""
        try:
            async with asyncio.timeout(seconds):
                await self._settled.wait()
        except TimeoutError:
            LOG.warning(
                "MCP server %s does not answer; its tools and reminders can be used as soon as it does",
                self.server.name,
            )

    async def close(self) -> None:
        """End the connection."""
        self._closing.set()
        self._stop.set()
        self._settled.set()
        if self._task is not None:
            await asyncio.wait((self._task,))
            self._task = None

    async def call_tool(self, name: str, args: dict[str, Any]) -> types.CallToolResult:
        """Call a tool of the server; `MCPError` if it is refused or the server is not connected."""
        client = self._client
        if client is None:
            raise MCPError(types.CONNECTION_CLOSED, f"the MCP server is not connected: {self.failure or 'connecting'}")
        try:
            return await client.call_tool(name, args)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED or "Session terminated" in str(error):
                self._stop.set()
            raise
        except (RuntimeError, ValueError) as error:
            # An answer that is not what the protocol allows, or a question that this host cannot answer.
            raise MCPError(types.INTERNAL_ERROR, f"the answer of the server cannot be used: {error}") from None

    # Connecting.

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            self._stop.clear()
            began = self._clock.monotonic()
            self._report(ServerState.CONNECTING)
            try:
                await self._connect()
            except Exception as error:  # noqa: BLE001 - the transport itself failed; see _connect
                self.failure = _described(error)
            finally:
                self._client, self.tools = None, ()
            if self._closing.is_set():
                break
            if self.server.url is not None:
                # Without its query, which may hold a secret.
                self.failure = f"{self.server.url.partition('?')[0]}: {self.failure}"
            if self._clock.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE
            LOG.warning("MCP server %s: %s; trying again in %.1f s", self.server.name, self.failure, pause)
            self._report(ServerState.LOST, detail=self.failure)
            self._settled.set()
            self._stop.clear()
            await self._wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        self._report(ServerState.CLOSED)

    async def _connect(self) -> None:
        """Connect, and return when the connection is over."""
        # A declaration holds for one connection only.
        self._asked.clear()
        self._is_connected = False
        self.receiver.declared(None)
        http = HttpSession()
        async with self._transport(http) as (streams, child):
            connecting = asyncio.timeout(CONNECT_SECONDS)
            try:
                async with connecting, self._stopping(connecting, child), self._client_of(streams) as client:
                    await self._list_tools(client)
                    connecting.reschedule(None)
                    self._is_connected = True
                    self._client = client
                    self.failure = None
                    self._report(ServerState.CONNECTED)
                    self._settled.set()
                    await self._use(client, http)
            except Exception as error:  # noqa: BLE001 - whatever the server or the SDK does is a reason to connect again
                self.failure = _described(error)
                if isinstance(error, TimeoutError) and not self._stop.is_set():
                    self.failure = f"it was not ready after {CONNECT_SECONDS:.0f} s"
            if child is not None and not self._closing.is_set():
                self.failure = await _why_it_ended(child, self.failure)

    @asynccontextmanager
    async def _stopping(self, connecting: asyncio.Timeout, child: ChildProcess | None) -> AsyncIterator[None]:
        """While the server is connecting, give it up when the connection is to end; and note the end of its process."""

        async def give_up() -> None:
            await self._stop.wait()
            if not self._is_connected:
                connecting.reschedule(asyncio.get_running_loop().time())

        async def note_end() -> None:
            if child is not None:
                await child.wait()
                # What it has written last is still read.
                await self._clock.sleep(LAST_WORDS_SECONDS)
                self._stop.set()

        tasks = [asyncio.create_task(give_up()), asyncio.create_task(note_end())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    @asynccontextmanager
    async def _transport(self, http: HttpSession) -> AsyncIterator[tuple[Streams, ChildProcess | None]]:
        if self.server.url is not None:
            async with http_transport(self.server.url, self, headers=self.server.headers, session=http) as streams:
                yield streams, None
        else:
            async with stdio_transport(self.server, self) as (streams, child):
                yield streams, child

    def _client_of(self, streams: Streams) -> Client:
        @asynccontextmanager
        async def transport() -> AsyncIterator[Streams]:
            yield streams

        return Client(
            transport(),
            extensions=[advertise(capabilities.EXTENSION, capabilities.receive_settings(self._client_name))],
            client_info=types.Implementation(name="sideband", version=__version__),
            cache=None,
        )

    async def _use(self, client: Client, http: HttpSession) -> None:
        """Keep what runs beside the calls of tools, until the connection is over or is to end."""
        is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self._follow_tools(client))]
        if is_modern:
            tasks.append(asyncio.create_task(self._listen(client)))
        elif not self.server.is_local:
            tasks.append(asyncio.create_task(self._ping(client, http)))
            if not http.is_stateful and self.receiver.emits:
                # Without a session there is no stream on which the server could send anything by itself.
                tasks.append(asyncio.create_task(self._listen_for_reminders(client)))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((stopping, *tasks), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            self.failure = self.failure or "the server closed the connection"
        finally:
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.wait((stopping, *tasks))

    async def _wait(self, seconds: float) -> None:
        """Wait, but not longer than until the connection is to end."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((sleeping, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()

    # Tools.

    async def _list_tools(self, client: Client) -> None:
        self._tools_changed.clear()
        if client.server_capabilities.tools is None:
            self.tools = ()
            return
        listed: list[types.Tool] = []
        cursor = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS if self._is_connected else None):
                for _ in range(MAX_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    listed.extend(page.tools)
                    cursor = page.next_cursor
                    if cursor is None or len(listed) > MAX_TOOLS:
                        break
        except (MCPError, ValidationError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not self._is_connected:
                raise
            LOG.warning(
                "MCP server %s: its tools cannot be listed, so it offers none: %s",
                self.server.name,
                _described(error).partition("\n")[0],
            )
            listed.clear()
        if len(listed) > MAX_TOOLS:
            LOG.warning("MCP server %s: only its first %d tools are used", self.server.name, MAX_TOOLS)
        self.tools = tuple(
            McpTool(
                tool,
                self.server.name,
                self.call_tool,
                idempotent=tool.name in self.server.idempotent,
                seconds=self.server.seconds,
            )
            for tool in listed[:MAX_TOOLS]
        )

    async def _follow_tools(self, client: Client) -> None:
        """List the tools again when they have changed."""
        while True:
            await self._tools_changed.wait()
            await self._list_tools(client)

    # Listening.

    async def _listen(self, client: Client) -> None:
        """Keep a listen stream open; without one, revision 2026-07-28 sends nothing outside of requests."""
        wanted: dict[str, Any] = {}
        tools = client.server_capabilities.tools
        if tools is not None and tools.list_changed:
            wanted["toolsListChanged"] = True
        if self.receiver.emits:
            wanted[capabilities.NAME] = True
        if not wanted:
            await asyncio.Event().wait()
        params = types.SubscriptionsListenRequestParams(notifications=types.SubscriptionFilter.model_validate(wanted))
        request = types.SubscriptionsListenRequest(params=params)
        other: asyncio.Task[None] | None = None
        pause = FIRST_PAUSE
        try:
            while True:
                self._honoured = asyncio.get_running_loop().create_future()
                began = self._clock.monotonic()
                listening = asyncio.ensure_future(client.session.send_request(request, types.SubscriptionsListenResult))
                try:
                    await asyncio.wait((listening, self._honoured), return_when=asyncio.FIRST_COMPLETED)
                    if self.receiver.emits and other is None and not _has_honoured(self._honoured):
                        # Try the request of the extension, which a server may have instead.
                        other = asyncio.create_task(self._listen_for_reminders(client))
                    await listening
                    why = "the server ended the listen stream"
                except MCPError as error:
                    if error.code == types.METHOD_NOT_FOUND:
                        LOG.info("MCP server %s has no listen streams", self.server.name)
                        await asyncio.Event().wait()
                    why = f"the listen stream was lost: {error}"
                finally:
                    listening.cancel()
                pause = FIRST_PAUSE if self._clock.monotonic() - began > STEADY_SECONDS else pause
                LOG.info("MCP server %s: %s", self.server.name, why)
                await self._clock.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                # While the stream was lost, changes were not told.
                self._tools_changed.set()
        finally:
            if other is not None:
                other.cancel()

    async def _listen_for_reminders(self, client: Client) -> None:
        """Keep a stream of the extension's own request open."""
        pause = FIRST_PAUSE
        while True:
            began = self._clock.monotonic()
            try:
                await client.session.send_request(_ListenRequest(params=_ListenParams()), types.EmptyResult)
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    LOG.info("MCP server %s: it sends reminders only during requests", self.server.name)
                    await asyncio.Event().wait()
            if self._clock.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _ping(self, client: Client, http: HttpSession) -> None:
        """Return when the server no longer answers."""
        while True:
            had_none = http.has_had_stream and http.open_streams == 0
            await self._clock.sleep(PING_SECONDS)
            if had_none and http.open_streams == 0:
                # The SDK has given up the stream on which the server sends reminders.
                self.failure = "the stream of notifications was lost"
                return
            try:
                await client.session.send_request(
                    types.PingRequest(), types.EmptyResult, request_read_timeout_seconds=ANSWER_SECONDS
                )
            except MCPError as error:
                if error.code != types.METHOD_NOT_FOUND:
                    self.failure = f"the server does not answer: {error}"
                    return

    # The tap.

    def sent(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method in _TELLS_CAPABILITIES:
            self._asked[message.id] = message.method

    def received(self, message: types.JSONRPCMessage, frame: bytes | None) -> bool:
        if isinstance(message, types.JSONRPCNotification):
            return self._notified(message, frame)
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            was_asked = self._asked.pop(message.id, None) is not None
            # Later, a server cannot declare anything.
            if was_asked and isinstance(message, types.JSONRPCResponse) and not self._is_connected:
                self.receiver.declared(message.result.get("capabilities"))
        return True

    def _notified(self, message: types.JSONRPCNotification, frame: bytes | None) -> bool:
        if message.method in METHODS:
            self.receiver.receive(message.method, message.params, frame)
            # The SDK knows nothing of these, and a log message is for people.
            return False
        if message.method == _LIST_CHANGED:
            self._tools_changed.set()
        elif message.method == _ACKNOWLEDGED and self._honoured is not None and not self._honoured.done():
            honoured = (message.params or {}).get("notifications")
            self._honoured.set_result(isinstance(honoured, Mapping) and bool(honoured.get(capabilities.NAME)))
            self._report(ServerState.LISTENING)
        return True

    async def settle(self) -> None:
        await self.receiver.settle()

    def oversized(self, limit: int) -> None:
        self.receiver.oversized(limit)

    def unreadable(self, frame: bytes) -> None:
        if capabilities.NOTIFICATION.encode() in frame:
            self.receiver.unreadable()
        else:
            # Some servers log to their standard output.
            LOG.debug("MCP server %s: a line that is not JSON-RPC was ignored: %s", self.server.name, frame[:200])

    def ended(self) -> None:
        self._stop.set()

    # Reports.

    def _report(self, state: ServerState, detail: str | None = None) -> None:
        version = None
        if self._client is not None:
            version = self._client.protocol_version
        self._on_report(
            ServerReport(
                server=self.server.name,
                state=state,
                protocol_version=version,
                emits=self.receiver.emits,
                tools=len(self.tools),
                detail=detail,
            )
        )


def _has_honoured(honoured: asyncio.Future[bool]) -> bool:
    return honoured.done() and honoured.result()


def _described(error: BaseException) -> str:
    """What has gone wrong; a group of errors, which the SDK raises, by its first one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ChildNotStarted | MCPError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _why_it_ended(child: ChildProcess, failure: str | None) -> str:
    code = await child.exit_code()
    how = f"it ended with exit status {code}" if code is not None else failure or "it closed its output"
    lines = child.stderr.splitlines()[-STDERR_LINES:] or [*filter(None, [child.pipes.first_other_line])]
    return mask_text(f"{how}: {shown(' | '.join(lines))}") if lines else how

"""Official MCP clients against the server of the tests, each on its own process and transport, with a tap on what arrives."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import mcp_types
import msgspec
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension, advertise
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from sideband.protocols.mcp.capabilities import EXTENSION, LISTEN, receive_settings
from tests.programs import ROOT
from tests.waiting import until

SERVER: Final = ROOT / "tests" / "mcp_server.py"
LEGACY: Final = "legacy"
MODERN: Final = "2026-07-28"


class Route(NamedTuple):
    """A transport and a revision."""

    transport: str
    mode: str

    def __str__(self) -> str:
        return f"{self.transport}-{'2025' if self.mode == LEGACY else '2026'}"


STDIO_2025: Final = Route("stdio", LEGACY)
STDIO_2026: Final = Route("stdio", MODERN)
STATEFUL_2025: Final = Route("stateful", LEGACY)
STATELESS_2025: Final = Route("stateless", LEGACY)
HTTP_2026: Final = Route("stateful", MODERN)
STATELESS_2026: Final = Route("stateless", MODERN)
ROUTES: Final = (STDIO_2025, STDIO_2026, STATEFUL_2025, STATELESS_2025, HTTP_2026, STATELESS_2026)


class _Raw(mcp_types.Request[dict[str, Any], str]):
    """A request that the SDK has no class for."""


class Peer:
    """A client, and every frame that it has received."""

    def __init__(self, client: Client, frames: list[dict[str, Any]] | None = None) -> None:
        self.client = client
        self.frames = [] if frames is None else frames

    def of(self, method: str) -> list[dict[str, Any]]:
        """The params of all notifications with this method."""
        return [frame.get("params", {}) for frame in self.frames if frame.get("method") == method]

    @property
    def reminders(self) -> list[dict[str, Any]]:
        return [params["reminder"] for params in self.of("notifications/reminder")]

    @property
    def bodies(self) -> list[str]:
        return [reminder["body"] for reminder in self.reminders]

    @property
    def result(self) -> dict[str, Any]:
        """The result of the handshake or the discovery."""
        return next(frame["result"] for frame in self.frames if "capabilities" in frame.get("result", {}))

    async def emit(self, body: str, *, inside: bool = True, count: int = 1, **fields: object) -> None:
        """Have the server emit, inside the call of its tool or later."""
        arguments: dict[str, Any] = {"reminder": {"body": body, **fields}}
        if count > 1:
            arguments["count"] = count
        result = await self.client.call_tool("emit" if inside else "emit_later", arguments)
        assert not result.is_error, result.content

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result = await self.client.session.send_request(
            _Raw(method=method, params=params),
            mcp_types.Result,  # the wire has it all; see `frames`
        )
        return result.model_dump(by_alias=True)

    @asynccontextmanager
    async def listening(
        self, method: str = LISTEN, params: dict[str, Any] | None = None
    ) -> AsyncIterator[asyncio.Task[Any]]:
        """An acknowledged listen stream; the value ends with the stream. It is cancelled on leaving."""
        seen = len(self.of("notifications/subscriptions/acknowledged"))
        stream = asyncio.ensure_future(self.request(method, params or {}))
        try:
            await until(lambda: stream.done() or len(self.of("notifications/subscriptions/acknowledged")) > seen)
            if stream.done():
                stream.result()
            yield stream
        finally:
            stream.cancel()
            with suppress(asyncio.CancelledError):
                await stream

    async def gets(self, count: int) -> list[str]:
        """Wait for this number of reminders, and return their bodies."""
        await until(lambda: len(self.bodies) >= count)
        return self.bodies


FILTER: Final = {"notifications": {"reminders": True}}


def declaring(name: str | None = None) -> list[ClientExtension]:
    """The declaration that a client receives reminders."""
    return [advertise(EXTENSION, {"receive": True} if name is None else receive_settings(name))]


@asynccontextmanager
async def _tapped(transport: Any, frames: list[dict[str, Any]]) -> AsyncIterator[Any]:  # noqa: ANN401 - any transport
    """The transport, with a copy of every frame that arrives."""
    async with transport as (read, write):
        into, out_of = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def pump() -> None:
            # The client may end before the last frame arrives.
            with suppress(anyio.BrokenResourceError):
                async with into:
                    async for item in read:
                        if isinstance(item, SessionMessage):
                            frames.append(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))
                        await into.send(item)

        async with anyio.create_task_group() as group:
            group.start_soon(pump)
            yield out_of, write
            group.cancel_scope.cancel()
        out_of.close()


class Serving(NamedTuple):
    """A running server: `transport` makes a transport to it, `url` is its address if it has one."""

    transport: Callable[[], Any]
    url: str = ""
    pid: int = 0

    def resident_bytes(self) -> int:
        """How much memory the server uses."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def serving(kind: str, *, plain: bool = False, **options: object) -> AsyncIterator["Serving"]:
    """A running server; over stdio each transport starts a server of its own."""
    words = [*(["plain"] if plain else []), kind, msgspec.json.encode(options).decode()]
    command = ["-W", "error", str(SERVER), *words]
    if kind == "stdio":
        parameters = StdioServerParameters(
            command=sys.executable, args=command, cwd=str(ROOT), env={"PYTHONPATH": str(ROOT)}
        )
        yield Serving(lambda: stdio_client(parameters))
        return
    async with process(command) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(await server.stdout.readline())}/mcp"
        yield Serving(lambda: streamable_http_client(url), url, server.pid)


@asynccontextmanager
async def process(arguments: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python process, which is ended on leaving."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            started.terminate()
        await started.wait()


@asynccontextmanager
async def a_peer(
    transport: Any,  # noqa: ANN401 - any transport
    mode: str,
    *,
    declares: list[ClientExtension] | None = None,
) -> AsyncIterator[Peer]:
    """A client on this transport."""
    frames: list[dict[str, Any]] = []
    async with Client(
        _tapped(transport, frames), mode="auto" if mode == MODERN else mode, extensions=declares, cache=None
    ) as client:
        assert (client.protocol_version == MODERN) == (mode == MODERN)
        yield Peer(client, frames)


@asynccontextmanager
async def connected(
    route: Route, *, declares: list[ClientExtension] | None = None, plain: bool = False, **options: object
) -> AsyncIterator[Peer]:
    """A client of the server of the tests, on this route."""
    async with (
        serving(route.transport, plain=plain, **options) as server,
        a_peer(server.transport(), route.mode, declares=declares) as peer,
    ):
        yield peer

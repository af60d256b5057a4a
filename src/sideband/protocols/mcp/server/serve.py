"""Serving an MCP server on standard streams and over HTTP, such that it ends soon and with everything it started.

The SDK reads and writes standard streams in threads. A thread that waits for a peer cannot be cancelled, so such a
server does not end at a signal while its standard input is open. These streams belong to the event loop. A client that
does not read delays the end by `GRACE_SECONDS`.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from sideband.logs import LOG
from sideband.protocols.frames import ConnectionLost, Frame, Oversized, Transport
from sideband.protocols.http import serve_app

PATH: Final = "/mcp"
# A longer message is discarded; over HTTP it is answered with 413.
MAX_MESSAGE_BYTES: Final = 1024 * 1024
# How long an HTTP session without open requests lasts; its client then gets 404 and begins a new one.
SESSION_SECONDS: Final = 300.0


def _low_level(server: MCPServer[Any]) -> Server[Any]:
    # The session manager holds the low-level server, which is reached in no other public way.
    server.streamable_http_app()
    return server.session_manager.app


async def serve_lines(server: MCPServer[Any], lines: Transport, *, stopping: asyncio.Event) -> None:
    """Serve one client, whose messages are lines, until its stream ends or `stopping` is set.

    To stop the server, its input is ended. Cancelled under load, the SDK fails with errors of its streams instead.
    """
    low_level = _low_level(server)
    arriving, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_receive, lines, arriving, stopping)
        group.start_soon(_send, lines, leaving)
        await low_level.run(read, write, low_level.create_initialization_options())
        group.cancel_scope.cancel()


async def _receive(
    lines: Transport, arriving: MemoryObjectSendStream[SessionMessage | Exception], stopping: asyncio.Event
) -> None:
    async def stop() -> None:
        await stopping.wait()
        group.cancel_scope.cancel()

    async with arriving, anyio.create_task_group() as group:
        group.start_soon(stop)
        while frames := await lines.receive():
            for frame in frames:
                await arriving.send(_message(frame))
        group.cancel_scope.cancel()


def _message(frame: Frame) -> SessionMessage | Exception:
    """The message of a frame; an exception, which the SDK ignores, if it has none."""
    if isinstance(frame, Oversized):
        # There is no reply, because the id of the request was discarded with it.
        LOG.warning("a message of the client was discarded, because it has more than %s bytes", f"{frame.limit:,}")
        return ValueError(f"a message has more than {frame.limit:,} bytes")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False))
    except ValidationError as error:
        return error


async def _send(lines: Transport, leaving: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with leaving:
        async for item in leaving:
            lines.send(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
            try:
                await lines.drain()
            except ConnectionLost:
                return


async def serve_http(
    server: MCPServer[Any], listening: socket.socket, *, stopping: asyncio.Event, stop: Callable[[], None]
) -> None:
    """Serve clients over streamable HTTP at `/mcp` until `stopping` is set; then `stop` is called first.

    Requests must name a loopback host (421), and must not come from a web page (403).
    """
    port = listening.getsockname()[1]
    hosts = [f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")]
    security = TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=[])
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security,
        max_request_body_size=MAX_MESSAGE_BYTES,
        session_idle_timeout=SESSION_SECONDS,
    )
    await serve_app(app, listening, stopping=stopping, stop=stop)

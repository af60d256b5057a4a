"""Editors that talk to an ACP agent over WebSockets, through a real server on this machine."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.acp_editor import SECONDS, Editor
from tests.waiting import until


@asynccontextmanager
async def a_server(app: ASGIApp) -> AsyncIterator[int]:
    """A server of this application on a free port of the loopback interface, which is the value."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            async with asyncio.timeout(SECONDS):
                await until(lambda: server.started)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            async with asyncio.timeout(SECONDS):
                await serving


class _Messages:
    """A WebSocket as the streams of an `Editor`: each message is a line."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._sending = asyncio.ensure_future(self._send())

    async def readline(self) -> bytes:
        try:
            message = await self._connection.recv()
        except ConnectionClosed:
            self._sending.cancel()
            return b""
        assert isinstance(message, str)
        return message.encode() + b"\n"

    def write(self, data: bytes) -> None:
        self._outgoing.put_nowait(data.decode())

    async def _send(self) -> None:
        while True:
            await self._connection.send(await self._outgoing.get())


@asynccontextmanager
async def over_websocket(
    port: int,
    *,
    path: str = "/",
    capabilities: dict[str, Any] | None = None,
    **options: Any,  # noqa: ANN401 - those of `connect`
) -> AsyncIterator[Editor]:
    """An editor that is connected to a server on this machine, and initialised."""
    async with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, **options) as connection:
        messages = _Messages(connection)
        editor = Editor(cast("asyncio.StreamReader", messages), cast("asyncio.StreamWriter", messages))
        try:
            await editor.initialize(**(capabilities or {}))
            yield editor
        finally:
            await connection.close()
            async with asyncio.timeout(SECONDS):
                await editor.ended

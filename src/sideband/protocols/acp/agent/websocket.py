"""The ACP agent as a WebSocket application: one JSON-RPC frame per text message. It needs the extra `serve`.

A client of the agent can run commands, so every connection is checked before it is accepted: the `Host` header against
DNS rebinding, the `Origin` header against pages of other sites, and the token if one is configured. Without a token every
program that reaches the address can use the agent; configure one unless only trusted programs can.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from sideband.core.errors import InvalidOption
from sideband.logs import LOG
from sideband.protocols.acp.agent.agent import AcpAgent
from sideband.protocols.frames import CLOSE_SECONDS, CONGESTED_BYTES, MAX_FRAME_BYTES, ConnectionLost, Frame, Oversized
from sideband.protocols.http import LOOPBACK_HOSTS, HttpRefusal, RequestChecks, bearer_token, is_equal_secret

try:
    from starlette.requests import HTTPConnection
    from starlette.responses import PlainTextResponse
    from starlette.routing import Router
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket, WebSocketDisconnect
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "the WebSocket application needs starlette, which is not installed: pip install 'sideband[serve]'",
        name=missing.name,
    ) from missing

SUBPROTOCOL: Final = "acp"
# A browser cannot set the header Authorization, so a page sends the token in one of these.
TOKEN_SUBPROTOCOL: Final = "sideband.token."  # noqa: S105 - a prefix
TOKEN_COOKIE: Final = "sideband_token"  # noqa: S105 - a name

# `WebSocketTransport.drain` waits until at most so many bytes wait for the reader.
_DRAINED_BYTES: Final = 64 * 1024
_NORMAL: Final = 1000
_UNSUPPORTED_DATA: Final = 1003

# What a subprotocol may consist of.
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def websocket_app(
    agent: AcpAgent,
    *,
    token: str | None,
    is_cookie: Callable[[str], bool] = lambda _header: False,
    allowed_hosts: Collection[str] = LOOPBACK_HOSTS,
    allowed_origins: Collection[str] = (),
) -> ASGIApp:
    """An ASGI application that serves `agent` to each client that connects; mount it at any path.

    Args:
        agent: The agent, which the caller closes after the server has ended. All connections share its sessions. A client
            that disconnects leaves its turn running.
        token: What a client must send: as `Authorization: Bearer TOKEN`, in the cookie `sideband_token`, or as the
            subprotocol `sideband.token.TOKEN` beside `acp`. With None, every program that reaches the address controls
            the agent.
        is_cookie: Whether the header `Cookie` is as good as the token, for pages of the same server. Such a page must
            send its origin, which browsers do.
        allowed_hosts: The names by which clients may reach the server, with a port (only this one) or without (any).
        allowed_origins: The origins of the pages that may connect, like `https://example.org`. Programs that are no
            browsers send no origin, and are not restricted by this.

    A refused connection is answered with the status 421 (host), 403 (origin) or 401 (token).
    """
    checks = RequestChecks(allowed_hosts, allowed_origins)
    if token is not None and not _TOKEN.fullmatch(token):
        # Without the value, which is a secret.
        raise InvalidOption(
            "token must consist of letters, digits and the characters !#$%&'*+.^_`|~- and not be empty", field="token"
        )

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await PlainTextResponse("This address serves WebSocket connections.\n", 426)(scope, receive, send)
            return
        websocket = WebSocket(scope, receive, send)
        refusal = checks.refusal(websocket.headers) or _refused_token(websocket, token, is_cookie)
        if refusal is None:
            await _serve(agent, websocket)
        else:
            await _refuse(websocket, refusal)

    # The router answers the lifespan messages of a server that runs this application alone.
    return Router(default=serve)


async def _serve(agent: AcpAgent, websocket: WebSocket) -> None:
    await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in websocket.scope["subprotocols"] else None)
    transport = WebSocketTransport(websocket)
    try:
        await agent.serve(transport)
    finally:
        await transport.close()


def _refused_token(
    connection: HTTPConnection, token: str | None, is_cookie: Callable[[str], bool]
) -> HttpRefusal | None:
    if token is None or any(is_equal_secret(given, token) for given in _tokens(connection)):
        return None
    headers = connection.headers
    is_own_page = "origin" in headers and headers.get("sec-fetch-site", "same-origin") == "same-origin"
    if is_own_page and is_cookie(headers.get("cookie", "")):
        return None
    return HttpRefusal(401, "A valid token is required.", "not_logged_in")


def _tokens(connection: HTTPConnection) -> list[str]:
    """Everything that the client has sent as a token."""
    bearer = bearer_token(connection.headers)
    found = [] if bearer is None else [bearer]
    if TOKEN_COOKIE in connection.cookies:
        found.append(connection.cookies[TOKEN_COOKIE])
    offered: list[str] = connection.scope["subprotocols"]
    found += [each.removeprefix(TOKEN_SUBPROTOCOL) for each in offered if each.startswith(TOKEN_SUBPROTOCOL)]
    return found


async def _refuse(websocket: WebSocket, refusal: HttpRefusal) -> None:
    LOG.info("refused a WebSocket connection: %s", refusal.text)
    if "websocket.http.response" not in websocket.scope.get("extensions", {}):
        # The server cannot send another status than 403.
        await websocket.close()
        return
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None  # noqa: PLR2004 - a status
    await websocket.send_denial_response(PlainTextResponse(f"{refusal.text}\n", refusal.status, headers))


# Frames.


class WebSocketTransport:
    """Frames as text messages. What is sent waits in a queue, so that a slow client does not stop the agent."""

    def __init__(self, websocket: WebSocket, *, limit: int = MAX_FRAME_BYTES) -> None:
        self._websocket = websocket
        self._limit = limit
        self._frames: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._has_frames = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_closing = self._is_over = False
        self._close_code = _NORMAL
        self._writing = asyncio.ensure_future(self._write())

    async def receive(self) -> Sequence[Frame]:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            self._end()
            return ()
        text = message.get("text")
        if text is None:
            self._close_code = _UNSUPPORTED_DATA
            return ()
        frame = text.encode("utf-8")
        return (frame if len(frame) <= self._limit else Oversized(self._limit),)

    def send(self, frame: bytes) -> None:
        if self._is_over or self._is_closing:
            return
        self._frames.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > _DRAINED_BYTES:
            self._has_room.clear()
        self._has_frames.set()

    async def drain(self) -> None:
        await self._has_room.wait()
        if self._is_over:
            raise ConnectionLost

    @property
    def is_congested(self) -> bool:
        return self._waiting_bytes > CONGESTED_BYTES

    async def close(self) -> None:
        self._is_closing = True
        self._has_frames.set()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.wait((self._writing,))
                if not self._is_over:
                    # The reason is for the person who wrote the client.
                    reason = "only text messages are understood" if self._close_code == _UNSUPPORTED_DATA else None
                    with suppress(WebSocketDisconnect, RuntimeError):
                        await self._websocket.close(self._close_code, reason)
        except TimeoutError:
            # The server drops the connection when this application returns.
            self._writing.cancel()
        finally:
            self._end()

    async def _write(self) -> None:
        # Servers raise RuntimeError for a message after the end of the connection.
        with suppress(WebSocketDisconnect, RuntimeError):
            while not self._is_closing or self._frames:
                if self._frames:
                    await self._websocket.send_text(self._frames[0].decode("utf-8"))
                    self._waiting_bytes -= len(self._frames.popleft())
                    if self._waiting_bytes <= _DRAINED_BYTES:
                        self._has_room.set()
                else:
                    self._has_frames.clear()
                    await self._has_frames.wait()
            return
        self._end()

    def _end(self) -> None:
        """The client is gone, and nothing more can be sent."""
        self._is_over = True
        self._frames.clear()
        self._waiting_bytes = 0
        self._has_room.set()
        self._writing.cancel()

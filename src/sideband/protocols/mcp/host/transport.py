"""The transports of the host: what a server sends is shown to a tap before the SDK reads it.

The tap sees every message in the order of the wire. The SDK itself drops notifications that it does not know, keeps others
in a queue that loses the oldest, and reads lines of any length.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

import anyio
import httpx2
import msgspec
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from sideband.protocols.frames import MAX_FRAME_BYTES, ConnectionLost, Frame, Oversized
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.process import ChildProcess, start_child

# As long as the SDK's own client waits.
HTTP_SECONDS: Final = 30.0
SILENT_SECONDS: Final = 300.0


class ReadStream(Protocol):
    """What the SDK reads messages from."""

    async def receive(self) -> SessionMessage | Exception: ...
    async def aclose(self) -> None: ...
    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> SessionMessage | Exception: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


class WriteStream(Protocol):
    """What the SDK writes messages to."""

    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


Streams: TypeAlias = tuple[ReadStream, WriteStream]


class Tap(Protocol):
    """Sees the messages of a connection."""

    def sent(self, message: JSONRPCMessage) -> None:
        """The SDK sends this."""

    def received(self, message: JSONRPCMessage, frame: bytes | None) -> bool:
        """The server has sent this; False keeps it from the SDK. `frame` is its text, if the transport knows it."""

    async def settle(self) -> None:
        """Called after a message that was kept from the SDK, before the next one is read."""

    def oversized(self, limit: int) -> None:
        """The server has sent a message that was longer than the limit, and was discarded."""

    def unreadable(self, frame: bytes) -> None:
        """The server has sent a line that is not JSON-RPC."""

    def ended(self) -> None:
        """Nothing more comes from the server."""


class _Stream:
    """The parts of a stream of the SDK that are the same for both directions."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        raise NotImplementedError


class _Source(_Stream):
    """The parts of a stream from a server that are the same for all transports."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        raise NotImplementedError


# Any transport of the SDK.


class _TappedSource(_Source):
    def __init__(self, inner: ReadStream, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    @property
    def last_context(self) -> object:
        """The SDK runs the handler of a message in the context of its sender, if the stream has one."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                message = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._tap.ended()
                raise
            if isinstance(message, Exception) or self._tap.received(message.message, None):
                return message
            await self._tap.settle()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _TappedSink(_Stream):
    def __init__(self, inner: WriteStream, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def send(self, item: SessionMessage, /) -> None:
        self._tap.sent(item.message)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def tapped(transport: AbstractAsyncContextManager[Streams], tap: Tap) -> AsyncIterator[Streams]:
    """A transport of the SDK with a tap."""
    async with transport as (source, sink):
        yield _TappedSource(source, tap), _TappedSink(sink, tap)


# Streamable HTTP.


class HttpSession:
    """What the host knows of a server up to revision 2025-11-25: whether it has begun a session, and whether the stream is
    open on which it sends notifications.
    """

    def __init__(self) -> None:
        self.is_stateful = False
        self.has_had_stream = False
        self.open_streams = 0


class _RefusedAnswer(httpx2.StreamError):
    """The answer of a server is too large, or compressed."""


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, with at most `limit` bytes (None: of any size); `on_close` is called once at its end."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int | None, on_close: Callable[[], None]) -> None:
        self._inner = inner
        self._limit = limit
        self._on_close: Callable[[], None] | None = on_close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if self._limit is not None and size > self._limit:
                raise _RefusedAnswer(f"the server answered with more than {self._limit:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        if self._on_close is not None:
            self._on_close()
            self._on_close = None
        await self._inner.aclose()


class _WatchedTransport(httpx2.AsyncHTTPTransport):
    """Limits the size of answers, which the SDK reads as a whole, and notes which streams are open.

    The SDK limits the events of a stream by itself. A stream may be silent for any time.
    """

    def __init__(self, session: HttpSession) -> None:
        super().__init__()
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": None}
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # The limit would hold for the compressed bytes only.
            await response.aclose()
            raise _RefusedAnswer("the server answered with compressed data, which was not asked for")
        self._session.is_stateful = self._session.is_stateful or "mcp-session-id" in response.headers
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            is_counted = is_stream and request.method == "GET"
            response.stream = _Body(
                response.stream, None if is_stream else MAX_FRAME_BYTES, self._closed if is_counted else _nothing
            )
            if is_counted:
                self._session.has_had_stream = True
                self._session.open_streams += 1
        return response

    def _closed(self) -> None:
        self._session.open_streams -= 1


def _nothing() -> None:
    """The end of a body that is not counted."""


@asynccontextmanager
async def http_transport(
    url: str, tap: Tap, *, headers: Mapping[str, str], session: HttpSession, auth: httpx2.Auth | None = None
) -> AsyncIterator[Streams]:
    """A connection over Streamable HTTP."""
    async with (
        httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **headers},
            timeout=httpx2.Timeout(HTTP_SECONDS, read=SILENT_SECONDS),
            transport=_WatchedTransport(session),
            auth=auth,
        ) as client,
        tapped(streamable_http_client(url, http_client=client, max_sse_event_size=MAX_FRAME_BYTES), tap) as streams,
    ):
        yield streams


# Standard streams of a process.

LARGE_NOTIFICATION: Final = 256 * 1024


class _Head(msgspec.Struct, gc=False):
    """What tells a notification from a request and from an answer; the rest is not decoded."""

    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_head: Final = msgspec.json.Decoder(_Head).decode


def _is_notification(frame: bytes) -> bool:
    try:
        head = _decode_head(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return head.id is msgspec.UNSET and head.method is not msgspec.UNSET


class _PipeSource(_Source):
    def __init__(self, child: ChildProcess, tap: Tap) -> None:
        self._child = child
        self._tap = tap
        self._frames: deque[Frame] = deque()
        self._is_over = False

    async def receive(self) -> SessionMessage | Exception:
        while True:
            while self._frames:
                message = self._read(self._frames.popleft())
                if message is not None:
                    return SessionMessage(message)
                await self._tap.settle()
            if not self._is_over:
                frames = await self._child.pipes.receive()
                self._frames.extend(frames)
                self._is_over = not frames
                # A server that never stops sending must not keep other tasks from running.
                await asyncio.sleep(0)
            if self._is_over and not self._frames:
                self._tap.ended()
                raise anyio.EndOfStream

    def _read(self, frame: Frame) -> JSONRPCMessage | None:
        """The message, if it is for the SDK."""
        if isinstance(frame, Oversized):
            self._tap.oversized(frame.limit)
            return None
        if len(frame) > LARGE_NOTIFICATION and _is_notification(frame):
            # No notification needs so much, and reading it could take seconds.
            self._tap.oversized(LARGE_NOTIFICATION)
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(frame, by_name=False)
        except ValueError:
            self._tap.unreadable(frame)
            return None
        return message if self._tap.received(message, frame) else None

    async def aclose(self) -> None:
        self._is_over = True


class _PipeSink(_Stream):
    def __init__(self, child: ChildProcess, tap: Tap) -> None:
        self._child = child
        self._tap = tap

    async def send(self, item: SessionMessage, /) -> None:
        self._tap.sent(item.message)
        self._child.pipes.send(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        try:
            await self._child.pipes.drain()
        except ConnectionLost:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        pass


@asynccontextmanager
async def stdio_transport(server: ServerConfig, tap: Tap) -> AsyncIterator[tuple[Streams, ChildProcess]]:
    """Start a server as a child process, with lines of at most `MAX_FRAME_BYTES`.

    The child inherits only harmless variables of the environment, as with the SDK's own transport.
    """
    child = await start_child(
        server.command,
        cwd=server.cwd or Path.cwd(),
        environment={**get_default_environment(), **server.env},
        what=f"the MCP server {server.name}",
    )
    try:
        yield (_PipeSource(child, tap), _PipeSink(child, tap)), child
    finally:
        await asyncio.shield(child.end())

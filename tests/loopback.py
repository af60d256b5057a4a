"""A model service on this machine: it remembers every request to the byte, and answers what it was told to.

It speaks HTTP over real sockets, so the official clients are driven as they are. An answer may stream events, refuse,
keep silent, hang up, or break off in the middle of an event.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias

import msgspec

_Given = ParamSpec("_Given")
Test: TypeAlias = Callable[_Given, Coroutine[Any, Any, None]]

_HEAD_LIMIT: Final = 2**20
# Far more than any test takes; a client that waits for ever fails its test, and not the patience of everybody.
_TEST_SECONDS: Final = 60


def within(seconds: float) -> Callable[[Test[_Given]], Callable[_Given, None]]:
    """A coroutine as a test that is over by then, in an event loop with real sockets and real time."""

    def decorate(test: Test[_Given]) -> Callable[_Given, None]:
        @functools.wraps(test)
        def run(*args: _Given.args, **kwargs: _Given.kwargs) -> None:
            asyncio.run(asyncio.wait_for(test(*args, **kwargs), seconds))

        return run

    return decorate


def over_sockets(test: Test[_Given]) -> Callable[_Given, None]:
    """The same, for all that has little to do itself."""
    return within(_TEST_SECONDS)(test)


class Captured(NamedTuple):
    """A request as it came in; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the client sent
        return msgspec.json.decode(self.body)


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """Events, one after the other.

    `cut` breaks off so many bytes before the end (None: it ends in good order), and a `stuck` one says nothing more there
    until the client goes. A `framed` body says where it ends, so that a client can see that it did not; one that is not
    just stops.
    """

    events: Sequence[bytes]
    cut: int | None = None
    framed: bool = True
    stuck: bool = False


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with a status of failure."""

    status: int
    body: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}


class Silence(msgspec.Struct, frozen=True):
    """No answer, for as long as the client waits."""


class HangUp(msgspec.Struct, frozen=True):
    """The connection is closed where the answer should be."""


Answer: TypeAlias = Stream | Refusal | Silence | HangUp


def sse(*events: Mapping[str, Any], named: bool = False, done: bool = False) -> tuple[bytes, ...]:
    """Server-sent events of these values; `named` ones say their type in front, `done` adds OpenAI's last word."""
    encoded = []
    for event in events:
        name = f"event: {event['type']}\n".encode() if named else b""
        encoded.append(name + b"data: " + msgspec.json.encode(event) + b"\n\n")
    return (*encoded, *((b"data: [DONE]\n\n",) if done else ()))


class Loopback:
    """The service. Answers are given in the order in which they were announced."""

    def __init__(self) -> None:
        self.requests: list[Captured] = []
        self.is_silent = asyncio.Event()
        """Set when it says nothing, or nothing more, and the client has to notice that by itself."""
        self.url = ""
        self._answers: list[Answer] = []

    def will_answer(self, *answers: Answer) -> None:
        self._answers += answers

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as many requests as the client sends on it."""
        try:
            while (request := await read_request(reader)) is not None:
                self.requests.append(request)
                answer = self._answers.pop(0) if self._answers else Refusal(status=404)
                if not await _answer(answer, reader, writer, self.is_silent):
                    break
        except ConnectionError:
            # Clients go when they like.
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def a_loopback(*answers: Answer) -> AsyncIterator[Loopback]:
    """A service that is there for this block."""
    loopback = Loopback()
    loopback.will_answer(*answers)
    async with listening(loopback.serve) as url:
        loopback.url = url
        yield loopback


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """The address of a server on this machine that calls `serve` with every connection."""
    connections: dict[asyncio.StreamWriter, asyncio.Event] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = connections[writer] = asyncio.Event()
        try:
            await serve(reader, writer)
        finally:
            over.set()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=_HEAD_LIMIT)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for writer, over in connections.items():
            writer.transport.abort()
            await over.wait()
        await server.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> Captured | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Captured(method, path, headers, body)


async def _answer(
    answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_silent: asyncio.Event
) -> bool:
    """Give the answer; whether the connection can be used again."""
    match answer:
        case Silence():
            is_silent.set()
            await reader.read()
        case Refusal(status=status, body=body, headers=headers):
            encoded = msgspec.json.encode(body)
            phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Refused"
            said = [f"content-length: {len(encoded)}", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write(_head(f"{status} {phrase}", "application/json", "\r\n".join(said)) + encoded)
            await writer.drain()
            return True
        case Stream(events=events, cut=cut, framed=framed, stuck=stuck):
            writer.write(
                _head("200 OK", "text/event-stream", "transfer-encoding: chunked" if framed else "connection: close")
            )
            whole = b"".join(events)
            for event in events if cut is None else (whole[: len(whole) - cut],):
                writer.write(b"%x\r\n%b\r\n" % (len(event), event) if framed else event)
                # Each event is a packet of its own, as far as that is up to us.
                await writer.drain()
            if cut is None and framed:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
            # What was written has to arrive before the connection goes.
            if cut is not None or not framed:
                if stuck:
                    is_silent.set()
                else:
                    writer.write_eof()
                await reader.read()
                return False
            return True
        case HangUp():
            pass
    return False


def _head(status: str, kind: str, length: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{length}\r\n\r\n".encode("ascii")

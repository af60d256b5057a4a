"""A model service on this machine for stock agents: it answers by a script, and records every request.

It speaks four formats and streams every reply. Only requests of the agent's conversation advance the script. Agents
also ask for summaries, titles, suggestions and memories; these requests get answers of their own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from sideband.core.messages import ToolCall
from tests.loopback import Captured, listening, read_request
from tests.service_replies import pieces
from tests.stock.wires import WIRES, Part, Wire

# Also a valid answer to the requests that demand an object with a title.
_ASIDE: Final = '{"title": "A conversation"}'
_SUMMARY: Final = "The user asked how things are, and the answer was that all is well. " * 4
_UNSCRIPTED: Final = "The script has no more replies."
_JSON: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_STREAM: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Purpose(StrEnum):
    """What an agent makes a request for."""

    CONVERSATION = "conversation"
    SUMMARY = "summary"
    """To compact the conversation."""
    ASIDE = "aside"
    """A title, a suggestion or a memory."""


class Gate:
    """Where the service waits in a streamed reply: `reached` is set when it does, `opened` lets it go on.

    It is in the middle of the text, or else `in_call`, before the end of the arguments of the call.
    """

    def __init__(self, *, in_call: bool = False) -> None:
        self.in_call = in_call
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A reply of the model: a text, then the call of a tool, if there is one."""

    text: str = ""
    call: tuple[str, Mapping[str, Any]] | None = None
    gate: Gate | None = None


@dataclass(kw_only=True)
class Request:
    """A request for a reply; `is_cut` says that the client ended the connection before the reply was complete."""

    wire: Wire
    body: Mapping[str, Any]
    is_cut: bool = False
    is_answered: bool = False

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self.wire.parts(self.body))


@dataclass
class Model:
    """The service; `purpose_of` tells the requests of the agent's conversation from all others."""

    purpose_of: Callable[[Request], Purpose]
    url: str = ""
    summary: Reply = field(default_factory=lambda: Reply(text=_SUMMARY))
    """The answer to a request for a summary."""
    requests: list[Request] = field(default_factory=list)
    """The requests of the conversation, in the order of arrival."""
    asides: list[Request] = field(default_factory=list)
    others: list[Captured] = field(default_factory=list)
    """Requests for something other than a reply: lists of models, token counts, telemetry."""
    _script: list[Reply] = field(default_factory=list)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def will_reply(self, *replies: Reply) -> None:
        self._script += replies

    async def request(self, number: int) -> Request:
        """The request with this number, counted from 1, as soon as it has arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as many requests as the client sends on it."""
        try:
            while (captured := await read_request(reader)) is not None:
                if not await self._answer(captured, reader, writer):
                    break
        except ConnectionError:
            # Agents drop connections when they cancel a request.
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, captured: Captured, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; whether the connection can be used again."""
        wire = next((wire for wire in WIRES if wire.path.fullmatch(captured.path)), None)
        if captured.method != "POST" or wire is None:
            self.others.append(captured)
            body = b"" if captured.method == "HEAD" else msgspec.json.encode(_other_answer(captured.path))
            writer.write(_JSON % (len(body), body))
            await writer.drain()
            return True
        request = Request(wire=wire, body=captured.json)
        reply = await self._next_reply(request)
        number = len(self.requests) + len(self.asides)
        events = wire.events(reply.text, _calls(reply, number), number)
        middle = _place(reply, events)
        try:
            writer.write(_STREAM)
            await _send(writer, events[:middle])
            if reply.gate is not None and await _has_gone(reader, reply.gate):
                raise ConnectionResetError
            await _send(writer, events[middle:])
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            request.is_cut = True
            raise
        request.is_answered = True
        return True

    async def _next_reply(self, request: Request) -> Reply:
        if (purpose := self.purpose_of(request)) is not Purpose.CONVERSATION:
            self.asides.append(request)
            return self.summary if purpose is Purpose.SUMMARY else Reply(text=_ASIDE)
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        return self._script.pop(0) if self._script else Reply(text=_UNSCRIPTED)


@asynccontextmanager
async def a_model(purpose_of: Callable[[Request], Purpose]) -> AsyncIterator[Model]:
    """A service that is there for this block."""
    model = Model(purpose_of)
    async with listening(model.serve) as model.url:
        yield model


def _calls(reply: Reply, number: int) -> Sequence[ToolCall]:
    if reply.call is None:
        return ()
    name, arguments = reply.call
    return (ToolCall(id=f"call_{number}", name=name, args=dict(arguments)),)


def _place(reply: Reply, events: Sequence[bytes]) -> int:
    """How many events are sent before the gate of a reply."""
    if reply.gate is None:
        return len(events)
    # No format has more than three events before the first of a text, or after the last of a call.
    return len(events) - 4 if reply.gate.in_call else len(pieces(reply.text)) // 2 + 3


def _other_answer(path: str) -> object:
    if path.partition("?")[0].endswith("/models"):
        return {"object": "list", "data": [{"id": "model", "object": "model"}]}
    # Token counts, in the words of Anthropic and of Gemini.
    return {"input_tokens": 100, "totalTokens": 100}


async def _send(writer: asyncio.StreamWriter, events: Sequence[bytes]) -> None:
    for event in events:
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()


async def _has_gone(reader: asyncio.StreamReader, gate: Gate) -> bool:
    """Wait until the gate is opened, or until the client ends the connection; whether it has ended it."""
    gate.reached.set()
    opened = asyncio.ensure_future(gate.opened.wait())
    ended = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({opened, ended}, return_when=asyncio.FIRST_COMPLETED)
        return ended.done()
    finally:
        opened.cancel()
        ended.cancel()
        await asyncio.gather(opened, ended, return_exceptions=True)

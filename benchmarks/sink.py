"""A model service in a process of its own, which gives every client the same answer: `python -m benchmarks.sink` prints its port."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

_DONE: Final = b"data: [DONE]\n\n"


def _events(*events: Mapping[str, Any], named: bool = True) -> bytes:
    return b"".join(
        (b"event: %b\n" % event["type"].encode() if named else b"") + b"data: %b\n\n" % msgspec.json.encode(event)
        for event in events
    )


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> Mapping[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


_MESSAGE: Final = {"id": "m1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Done."}]}
_JSON: Final = b"application/json"
_STREAM: Final = b"text/event-stream"

# Below `/stream` the same is said bit by bit.
ANSWERS: Final[Mapping[bytes, tuple[bytes, bytes]]] = MappingProxyType(
    {
        b"/v1/messages": (_JSON, msgspec.json.encode(_MESSAGE)),
        b"/v1/chat/completions": (_JSON, msgspec.json.encode(_chunk({"content": "Done."}, "stop"))),
        b"/v1/responses": (_JSON, msgspec.json.encode({"id": "r1", "output": [_MESSAGE]})),
        b"/stream/v1/messages": (
            _STREAM,
            _events(
                {"type": "message_start", "message": {**_MESSAGE, "content": []}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_stop"},
            ),
        ),
        b"/stream/v1/chat/completions": (
            _STREAM,
            _events(_chunk({"content": "Done."}), _chunk({}, "stop"), named=False) + _DONE,
        ),
        b"/stream/v1/responses": (
            _STREAM,
            _events(
                {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": "Done."},
                {"type": "response.completed", "response": {"id": "r1", "output": []}},
            ),
        ),
    }
)
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
_LENGTH: Final = b"content-length:"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer what comes over one connection until it is closed."""
    try:
        while True:
            request, *headers = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            await reader.readexactly(_length(headers))
            kind, answer = ANSWERS[request.split()[1]]
            writer.write(_HEAD % (kind, len(answer), answer))
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()


def _length(headers: Sequence[bytes]) -> int:
    return next(int(header[len(_LENGTH) :]) for header in headers if header.lower().startswith(_LENGTH))


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

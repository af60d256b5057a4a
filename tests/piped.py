"""Two ends of a connection over real pipes, in one process."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from sideband.protocols.frames import MAX_FRAME_BYTES, LineTransport

# What a `StreamReader` holds before it stops reading from its pipe, and the longest line that the far end reads.
_NEAR_LIMIT: Final = 2**16
_FAR_LIMIT: Final = 2**24


class FarEnd:
    """The peer of the code under test: sends bytes exactly as they are given, and reads the frames one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, *lines: bytes) -> None:
        """Write lines, each with its line end."""
        self.writer.write(b"".join(line + b"\n" for line in lines))

    def send(self, *frames: object) -> None:
        """Write these values as JSON, in one piece."""
        self.write(*map(msgspec.json.encode, frames))

    def call(self, method: str, params: object = None, *, request_id: object = None) -> None:
        """Send a request, or a notification if there is no id."""
        frame: dict[str, object] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            frame["params"] = params
        self.send(frame if request_id is None else frame | {"id": request_id})

    async def receive(self) -> Any:  # noqa: ANN401 - any JSON value
        """The next frame."""
        line = await self.reader.readline()
        assert line.endswith(b"\n"), "the stream has ended"
        return msgspec.json.decode(line)

    async def hang_up(self) -> None:
        """Close the direction in which frames are sent."""
        self.writer.close()
        await self.writer.wait_closed()


async def _a_pipe(limit: int) -> tuple[asyncio.ReadTransport, asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=limit)
    arriving, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    leaving, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(write_end, "wb", buffering=0)
    )
    return arriving, reader, asyncio.StreamWriter(leaving, protocol, None, loop)


@asynccontextmanager
async def piped(*, limit: int = MAX_FRAME_BYTES) -> AsyncIterator[tuple[LineTransport, FarEnd]]:
    """A transport, and the far end of its pipes; all is closed on leaving."""
    inward, our_reader, far_writer = await _a_pipe(_NEAR_LIMIT)
    outward, far_reader, our_writer = await _a_pipe(_FAR_LIMIT)
    try:
        yield LineTransport(our_reader, our_writer, limit=limit), FarEnd(far_reader, far_writer)
    finally:
        for transport in (inward, outward, our_writer.transport, far_writer.transport):
            transport.close()
        # The transports close their files in the next round of the event loop.
        await asyncio.sleep(0)

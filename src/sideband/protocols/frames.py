"""Frames of bytes over a connection: lines with a size limit, on standard streams or the pipes of a process."""

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, Protocol, TypeAlias

# A longer frame is discarded while it is read, so that it is never in memory as a whole.
MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
# More bytes than this wait for a slow reader; `Transport.is_congested` says so.
CONGESTED_BYTES: Final = 1024 * 1024
# The longest time for which a peer that has stopped reading can delay the end of the connection.
CLOSE_SECONDS: Final = 5.0

# As much as a pipe holds.
_PIPE_BYTES: Final = 64 * 1024


class ConnectionLost(Exception):
    """The connection ended before the peer answered."""

    def __init__(self) -> None:
        super().__init__("the connection was closed before the answer arrived")


class Oversized(NamedTuple):
    """A frame that was longer than the limit, and so was discarded."""

    limit: int


Frame: TypeAlias = bytes | Oversized


class LineBuffer:
    """Splits a stream of bytes into lines of at most `limit` bytes, without their line ends; blank lines are skipped."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        """The lines that end in `data`."""
        *ended, rest = data.split(b"\n")
        frames: list[Frame] = []
        for piece in ended:
            self._add(piece)
            frame = self._take()
            if frame:
                frames.append(frame)
        self._add(rest)
        return frames

    def end(self) -> list[Frame]:
        """What the stream ended with, if it has no line end."""
        frame = self._take()
        return [frame] if frame else []

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _take(self) -> Frame:
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if size > self._limit:
            return Oversized(self._limit)
        return (parts[0] if len(parts) == 1 else b"".join(parts)).strip()


class PipeReader(asyncio.ReadTransport):
    """Feeds a stream reader with what arrives at a pipe, socket or terminal, and closes the descriptor at the end.

    The transport of asyncio reads with a buffer of 256 KiB, for which the C library maps and unmaps memory at each read.
    Reading without that answers a reminder in memory in 170 us instead of 220 us.
    """

    def __init__(self, descriptor: int, reader: asyncio.StreamReader) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._reader = reader
        self._is_over = False
        os.set_blocking(descriptor, False)
        reader.set_transport(self)
        self.resume_reading()

    def resume_reading(self) -> None:
        if not self._is_over:
            self._loop.add_reader(self._descriptor, self._read)

    def pause_reading(self) -> None:
        self._loop.remove_reader(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _PIPE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # For example of a terminal that was closed.
            data = b""
        if data:
            self._reader.feed_data(data)
        else:
            self.close()

    def is_closing(self) -> bool:
        return self._is_over

    def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self.pause_reading()
            self._reader.feed_eof()
            os.close(self._descriptor)


class Transport(Protocol):
    """Carries frames in both directions."""

    async def receive(self) -> Sequence[Frame]:
        """The next frames, at least one; none at the end of the stream."""

    def send(self, frame: bytes) -> None:
        """Send a frame, or keep it until there is room; nothing happens after the end."""

    async def drain(self) -> None:
        """Wait until a slow reader has made room; `ConnectionLost` if it is gone."""

    @property
    def is_congested(self) -> bool:
        """Whether the reader is so slow that more than `CONGESTED_BYTES` wait for it."""

    async def close(self) -> None:
        """Send what waits, if the reader takes it, and close the connection."""


class LineTransport:
    """Frames as lines of a byte stream: standard input and output, or the pipes of a process."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, limit: int = MAX_FRAME_BYTES
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._closed: asyncio.Task[None] | None = None
        self._lines = LineBuffer(limit)
        # The frames that follow the first one before the event loop goes on, and their size; None before the first.
        self._held: list[bytes] | None = None
        self._held_bytes = 0

    async def receive(self) -> Sequence[Frame]:
        while True:
            try:
                data = await self._reader.read(_PIPE_BYTES)
            except OSError:
                data = b""
            frames = self._lines.feed(data) if data else self._lines.end()
            if frames or not data:
                return frames

    def send(self, frame: bytes) -> None:
        """Send a frame at once; those that follow it without a pause are written together.

        Each write wakes the reader. Without this the proxy needs twice as long for a frame of a long reply.
        """
        if self._held is None:
            self._held = []
            asyncio.get_running_loop().call_soon(self._release)
            self._write([frame])
            return
        self._held.append(frame)
        self._held_bytes += len(frame)
        if self._held_bytes > _PIPE_BYTES:
            self._write(self._held)
            self._held, self._held_bytes = [], 0

    def _release(self) -> None:
        if self._held:
            self._write(self._held)
        self._held, self._held_bytes = None, 0

    def _write(self, frames: Iterable[bytes]) -> None:
        if not self._writer.is_closing():
            self._writer.write(b"".join([frame + b"\n" for frame in frames]))

    async def drain(self) -> None:
        if self._writer.is_closing():
            raise ConnectionLost
        try:
            await self._writer.drain()
        except OSError:
            raise ConnectionLost from None

    @property
    def is_congested(self) -> bool:
        return self._writer.transport.get_write_buffer_size() > CONGESTED_BYTES

    async def close(self) -> None:
        self._release()
        self._writer.close()
        if self._closed is None:
            self._closed = asyncio.ensure_future(self._writer.wait_closed())
        # Not awaited itself: a caller that is cancelled would cancel it for the others, too.
        done, late = await asyncio.wait((self._closed,), timeout=CLOSE_SECONDS)
        if late:
            self._writer.transport.abort()
            done, _ = await asyncio.wait((self._closed,), timeout=CLOSE_SECONDS)
        for closed in done:
            # It was lost before it was closed; both are the end.
            closed.exception()


@asynccontextmanager
async def standard_streams(*, limit: int = MAX_FRAME_BYTES) -> AsyncIterator[LineTransport]:
    """The standard input and output of this process as a transport.

    Inside, `print` writes to standard error, so that nothing but frames reaches the peer.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_PIPE_BYTES)
    # Copies, because the transports close their files.
    arriving = PipeReader(_as_pipe(os.dup(0), writes=False), reader)
    sink = _as_pipe(os.dup(1), writes=True)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(sink, "wb", buffering=0)
    )
    lines = LineTransport(reader, asyncio.StreamWriter(transport, protocol, None, loop), limit=limit)
    printed, sys.stdout = sys.stdout, sys.stderr
    try:
        yield lines
    finally:
        sys.stdout = printed
        arriving.close()
        await lines.close()


def _as_pipe(descriptor: int, *, writes: bool) -> int:
    """A pipe in front of a file that an event loop cannot wait for (a regular file, /dev/null); any other file itself."""
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and (not stat.S_ISCHR(mode) or os.isatty(descriptor)):
        return descriptor
    read_end, write_end = os.pipe()
    source, sink = (read_end, descriptor) if writes else (descriptor, write_end)
    threading.Thread(target=_copy, args=(source, sink), daemon=not writes).start()
    return write_end if writes else read_end


def _copy(source: int, sink: int) -> None:
    # A buffered writer writes once more when it is closed.
    with suppress(BrokenPipeError), os.fdopen(source, "rb", buffering=0) as reader, os.fdopen(sink, "wb") as writer:
        while data := reader.read(_PIPE_BYTES):
            writer.write(data)
            writer.flush()

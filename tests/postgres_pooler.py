"""A connection pooler in front of a PostgreSQL server: its clients share its connections to the server."""

import asyncio
import shutil
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from tests.postgres import SUPERUSER, Server
from tests.postgres_proxy import SOCKET

VERSION_3: Final = 196_608
WELCOME: Final = b"R" + struct.pack("!ii", 8, 0)
# What a pooler says is the process at the other end, is not.
KEY: Final = b"K" + struct.pack("!iii", 12, 424_242, 7)
READY: Final = b"Z" + struct.pack("!i", 5) + b"I"
# Behind these a client waits for the server to be ready again.
ASKING: Final = (b"Q", b"S")


class Backend:
    """A connection to the server; the lock is held by the client that uses it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.taken = asyncio.Lock()
        self.greeting = b""

    @classmethod
    async def to(cls, server: Server, database: str) -> "Backend":
        backend = cls(*await asyncio.open_unix_connection(server.directory / SOCKET))
        words = b"".join(word.encode() + b"\0" for word in ("user", SUPERUSER, "database", database))
        backend.writer.write(struct.pack("!ii", len(words) + 9, VERSION_3) + words + b"\0")
        while True:
            kind, message = await _message(backend.reader)
            if kind == b"S":
                backend.greeting += message
            if kind == b"Z":
                return backend


class Pooler:
    """Lends one connection to each of its clients (`keeps`), or the only one it has for one transaction at a time."""

    def __init__(self, server: Server, database: str, *, keeps: bool) -> None:
        self._server, self._database, self._keeps = server, database, keeps
        self._directory = Path(tempfile.mkdtemp(prefix="sideband-"))
        self._backends: list[Backend] = []
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@/{self._database}?host={self._directory}"

    async def _backend(self) -> Backend:
        if self._keeps or not self._backends:
            self._backends.append(await Backend.to(self._server, self._database))
        return self._backends[-1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(OSError, EOFError, asyncio.CancelledError):
                await self._talk(reader, writer)
        finally:
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length, version = struct.unpack("!ii", await reader.readexactly(8))
        await reader.readexactly(length - 8)
        if version != VERSION_3:
            # A request to cancel a statement.
            return
        backend = await self._backend()
        writer.write(WELCOME + backend.greeting + KEY + READY)
        while True:
            kind, message = await _message(reader)
            if kind == b"X":
                return
            async with backend.taken:
                await _transaction(backend, message, reader, writer)

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[Pooler]":
        listening = await asyncio.start_unix_server(self._serve, self._directory / SOCKET)
        try:
            yield self
        finally:
            listening.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving)
            for backend in self._backends:
                backend.writer.transport.abort()
            shutil.rmtree(self._directory)


async def _transaction(
    backend: Backend, message: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass everything on until the server has nothing more to do."""
    while True:
        backend.writer.write(message)
        if message[:1] in ASKING:
            kind = b""
            while kind != b"Z":
                kind, answer = await _message(backend.reader)
                writer.write(answer)
            if answer.endswith(b"I"):
                return
        _, message = await _message(reader)


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!i", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)

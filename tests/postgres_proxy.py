"""A proxy between a store and its PostgreSQL server that drops connections at chosen moments."""

import asyncio
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.postgres import SUPERUSER, Server

SOCKET: Final = ".s.PGSQL.5432"
# What a commit looks like on its way, and what the server says when it has nothing more to do.
COMMIT: Final = b"\nCOMMIT"
IDLE: Final = b"Z\x00\x00\x00\x05I"
CHUNK: Final = 65_536


class Loss(StrEnum):
    """What is lost of a commit: before it reaches the server, or after the server has made it."""

    QUESTION = "question"
    ANSWER = "answer"


class Proxy:
    """Passes everything on, until it is told otherwise."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # A socket has to have a short name.
        self._directory = Path(tempfile.mkdtemp(prefix="sideband-"))
        self._writers: set[asyncio.StreamWriter] = set()
        self.losses: deque[Loss] = deque()
        """What becomes of the next commits."""
        self.is_down = False
        """Refuse new connections; open ones continue."""

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={self._directory}"

    def drop_all(self) -> None:
        """Lose every connection there is."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        if self.is_down:
            to_client.transport.abort()
            return
        from_server, to_server = await asyncio.open_unix_connection(self._server.directory / SOCKET)
        self._writers |= {to_client, to_server}
        silence = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(from_client, to_server, silence))
                group.create_task(_answer(from_server, to_client, silence))
        except* (OSError, EOFError):
            pass
        finally:
            for writer in (to_client, to_server):
                writer.transport.abort()
                self._writers.discard(writer)

    async def _ask(
        self, from_client: asyncio.StreamReader, to_server: asyncio.StreamWriter, silence: asyncio.Event
    ) -> None:
        while True:
            data = await _some(from_client)
            if COMMIT in data and self.losses:
                if self.losses.popleft() is Loss.QUESTION:
                    raise EOFError
                silence.set()
            to_server.write(data)
            await to_server.drain()

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[Proxy]":
        listening = await asyncio.start_unix_server(self._serve, self._directory / SOCKET)
        try:
            yield self
        finally:
            self.drop_all()
            listening.close()
            await listening.wait_closed()
            shutil.rmtree(self._directory)


async def _some(reader: asyncio.StreamReader) -> bytes:
    data = await reader.read(CHUNK)
    if not data:
        raise EOFError
    return data


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence: asyncio.Event) -> None:
    while True:
        data = await _some(reader)
        if not silence.is_set():
            writer.write(data)
            await writer.drain()
        elif IDLE in data:
            raise EOFError

"""The output of a command, taken from its pipe as it comes."""

import asyncio
import os
from contextlib import suppress
from typing import Final

from sideband.tools.output import HeadTail

CHUNK_BYTES: Final = 64 * 1024


class Pipe:
    """One pipe for all that a command and what it starts may write; `ended` once none of them has it any more.

    The reading end is ours, so that it can be closed although a process that got away still holds the other.
    """

    def __init__(self, output: HeadTail) -> None:
        self.ended = asyncio.Event()
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe()
        self._open = {self._read_end, self.write_end}
        os.set_blocking(self._read_end, False)
        self._loop.add_reader(self._read_end, self._take)

    def hand_over(self) -> None:
        """Close our copy of the writing end; the command has its own."""
        self._close(self.write_end)

    async def linger(self, seconds: float) -> None:
        """Wait for the end of the output, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()

    def close(self) -> None:
        """Take what is there already, and no more: whoever has the other end may write for ever."""
        if not self.ended.is_set():
            with suppress(BlockingIOError):
                self._take()
        self._loop.remove_reader(self._read_end)
        for descriptor in tuple(self._open):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        os.close(descriptor)

    def _take(self) -> None:
        chunk = os.read(self._read_end, CHUNK_BYTES)
        self._output.feed(chunk)
        if not chunk:
            self._loop.remove_reader(self._read_end)
            self.ended.set()

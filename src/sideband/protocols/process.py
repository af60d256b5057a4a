"""A child process that speaks a protocol on its standard streams: an ACP agent or an MCP server."""

import asyncio
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from sideband.core.errors import shown
from sideband.protocols.frames import Frame, LineTransport

# What is kept of the standard error of a child.
STDERR_BYTES: Final = 16 * 1024
# A child that leaves more than this unread is given up, so that what waits for it cannot fill the memory.
MAX_UNREAD_BYTES: Final = 32 * 1024 * 1024
# At the end, how long a child may take after its standard input was closed, and then after SIGTERM.
EOF_SECONDS: Final = 2.0
TERM_SECONDS: Final = 1.0
# After the end of the stream, how long to wait for the exit code.
EXIT_SECONDS: Final = 1.0

_READ_BYTES: Final = 256 * 1024


class ChildNotStarted(Exception):
    """The command could not be started; the message says why and what to do."""


class ChildPipes(LineTransport):
    """Frames over the standard streams of a child.

    Some programs print a banner or log lines. A line that cannot be JSON-RPC is skipped and counted. `is_overrun` is set
    when the connection was given up because the child does not read.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, output: asyncio.ReadTransport
    ) -> None:
        super().__init__(reader, writer)
        self._stdin = writer
        self._output = output
        self.other_lines = 0
        self.first_other_line = ""
        self.is_overrun = False

    async def receive(self) -> Sequence[Frame]:
        while frames := await super().receive():
            kept = [frame for frame in frames if not self._is_other(frame)]
            if kept:
                return kept
        return ()

    def _is_other(self, frame: Frame) -> bool:
        if not isinstance(frame, bytes) or frame[:1] == b"{" or (frame[:1] == b"[" and frame[1:].lstrip()[:1] == b"{"):
            return False
        self.other_lines += 1
        self.first_other_line = self.first_other_line or frame[:200].decode(errors="replace")
        return True

    def send(self, frame: bytes) -> None:
        super().send(frame)
        if self._stdin.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.is_overrun = True
            self.abort()

    @property
    def is_congested(self) -> bool:
        # Reading goes on while a large prompt is sent: a child that waits for its output to be read does not read.
        # `MAX_UNREAD_BYTES` bounds what waits.
        return False

    def end_input(self) -> None:
        """Close the standard input of the child, which tells it to end."""
        self._stdin.close()

    def abort(self) -> None:
        """Close the connection, and discard what waits to be sent."""
        # A transport that has sent everything may be closed already, and then it cannot be aborted.
        if self._stdin.transport.get_write_buffer_size():
            self._stdin.transport.abort()
        self._stdin.close()
        self._output.close()


class _StderrTail(asyncio.Protocol):
    """Keeps the last bytes that the child writes to its standard error."""

    def __init__(self) -> None:
        self.kept = bytearray()

    def data_received(self, data: bytes) -> None:
        self.kept += data
        del self.kept[:-STDERR_BYTES]


class ChildProcess:
    """A running child in a process group of its own."""

    def __init__(
        self,
        command: str,
        process: asyncio.subprocess.Process,
        pipes: ChildPipes,
        errors: asyncio.ReadTransport,
        stderr: _StderrTail,
    ) -> None:
        self.command = command
        self.pipes = pipes
        self._process = process
        self._errors = errors
        self._stderr = stderr

    @property
    def stderr(self) -> str:
        """The end of its standard error."""
        return self._stderr.kept.decode(errors="replace")

    async def wait(self) -> None:
        """Wait for the end of the process itself; others that it has started may still hold its pipes."""
        await self._process.wait()

    async def exit_code(self) -> int | None:
        """Its exit code, for which it gets a moment; None if it still runs."""
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await self._process.wait()
        return self._process.returncode

    async def end(self, *, is_working: bool = True) -> None:
        """Let the child end by itself if it works, then end its whole process group."""
        try:
            self.pipes.end_input()
            if is_working and not self.pipes.is_overrun and await self._is_over(EOF_SECONDS):
                return
            self._signal(signal.SIGTERM)
            await self._is_over(TERM_SECONDS)
        finally:
            # Also what the child has left running. A cancelled caller does not wait for its end.
            self._signal(signal.SIGKILL)
            self.pipes.abort()
            self._errors.close()
        await self._process.wait()

    async def _is_over(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
                return True
        return False

    def _signal(self, number: signal.Signals) -> None:
        # If the whole group has ended, some systems report a missing process, others a missing permission.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


async def start_child(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], what: str) -> ChildProcess:
    """Start a child; `environment` is its whole environment. The caller ends it with `ChildProcess.end`.

    `ChildNotStarted` if that fails; its message calls the child `what`.
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for writes in (True, False, False):
            read_end, write_end = os.pipe()
            ours.append(write_end if writes else read_end)
            theirs.append(read_end if writes else write_end)
        process = await _start(argv, cwd, environment, theirs, what)
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    attaching = asyncio.ensure_future(_attach(shlex.join(argv), process, ours))
    try:
        return await asyncio.shield(attaching)
    except asyncio.CancelledError:
        await (await attaching).end(is_working=False)
        raise


async def _start(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: Sequence[int], what: str
) -> asyncio.subprocess.Process:
    stdin, stdout, stderr = streams
    try:
        return await asyncio.create_subprocess_exec(
            *argv, cwd=cwd, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except OSError as error:
        _refuse(argv[0], cwd, error, what)
    except ValueError as error:
        raise ChildNotStarted(f"{what} cannot be started: {error}") from None


def _refuse(program: str, cwd: Path, error: OSError, what: str) -> NoReturn:
    if not cwd.is_dir():
        raise ChildNotStarted(f"{what} cannot be started in {cwd}, which is not a folder") from None
    remedy = (
        "check the spelling, or give the full path" if isinstance(error, FileNotFoundError) else "check the command"
    )
    raise ChildNotStarted(f"{what} cannot be started: {shown(program)}: {error.strerror}; {remedy}") from None


async def _attach(command: str, process: asyncio.subprocess.Process, streams: Sequence[int]) -> ChildProcess:
    loop = asyncio.get_running_loop()
    stdin, stdout, stderr = streams
    reader = asyncio.StreamReader(limit=_READ_BYTES)
    tail = _StderrTail()
    output, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(stdout, "rb", buffering=0)
    )
    errors, _ = await loop.connect_read_pipe(lambda: tail, os.fdopen(stderr, "rb", buffering=0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(stdin, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    return ChildProcess(command, process, ChildPipes(reader, writer, output), errors, tail)

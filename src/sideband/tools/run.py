"""The tool `run`: a command in its own process group, with one output stream and a time-out.

This is not a sandbox: a command can do whatever the user who runs the agent can.
"""

import asyncio
import os
import re
import shlex
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.editor import editor_of
from sideband.tools.root import Root
from sideband.tools.text import Caps, HeadTail, cut
from sideband.tools.tool import Halt, Refused, Run, WorkspaceTool, explained, offload, outlast, run_within

CHUNK_BYTES: Final = 64 * 1024


class Pipe:
    """One pipe for the output of a command and its child processes; `ended` is set when all of them have closed it.

    The reading end belongs to this process, so it can be closed while an escaped process still holds the writing end.
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
        """Close this process's copy of the writing end, after the command has started with its own."""
        self._close(self.write_end)

    async def linger(self, seconds: float) -> None:
        """Wait for the end of the output, at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()

    def close(self) -> None:
        """Read what is in the pipe and close it; a process with the writing end could write without end."""
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


SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Commands run unattended: no prompts, no pager, no colours.
UNATTENDED: Final[Mapping[str, str]] = MappingProxyType(
    {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
)
# How long to wait for the output of processes that a command left running.
LINGER_SECONDS: Final = 0.5
# How long it may take to end a killed command and read the rest of its output.
ENDING_SECONDS: Final = 10
MAX_REPORTED_BYTES: Final = 200
MAX_NOTED_BYTES: Final = 2000


class ShellCommand(NamedTuple):
    """What to start, and where.

    `line` is the command as a shell line, for reports. `environment` is None for that of this process without secrets.
    """

    argv: Sequence[str]
    line: str
    folder: Path
    environment: Mapping[str, str] | None
    seconds: int


class CommandEnd(NamedTuple):
    """How a command ended; `code` is None after a time-out, or if it is not known. A signal is a negative code.

    `left`: it left processes running, which were killed. `escaped`: a process survived the kill. `kept_end`: only the end
    of the output was kept.
    """

    code: int | None
    timed_out: bool = False
    left: bool = False
    escaped: bool = False
    kept_end: bool = False


def run(root: Root, caps: Caps, environment: Mapping[str, str] | None) -> WorkspaceTool[Run]:
    async def perform(arguments: Run, context: ToolContext) -> ToolOutput:
        folder = await offload(partial(_folder, root, arguments.cwd))
        command = _command(arguments, folder, environment)
        editor = editor_of(context)
        output = HeadTail(caps.run_bytes)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            end = None if editor is None else await editor.run(command, output, context)
            if end is None:
                end = await _run(command, output, context)
        except asyncio.CancelledError:
            # A cancelled call has no result, so report the output as an effect of the call.
            if output.total:
                context.applied(f"it wrote: {output.last(MAX_NOTED_BYTES)}")
            raise
        data = {
            "command": command.line,
            "exit_code": end.code,
            "timed_out": end.timed_out,
            "duration_ms": round((clock() - began) * 1000),
        }
        return ToolOutput(
            text=_report(output.text(), end, command.seconds),
            is_error=end.code != 0,
            original_bytes=output.total if output.cut or end.kept_end else None,
            data=data,
        )

    return WorkspaceTool(
        name="run",
        description=(
            "Run a command in the workspace and get its output, stdout and stderr together, and its exit code if that "
            f"is not 0. It has no input and is killed after timeout seconds, {caps.run_seconds} at most; what it leaves "
            "running in the background is killed, too. "
            f"Of more than {caps.run_bytes} bytes of output the middle is left out."
        ),
        arguments=run_within(caps.run_seconds),
        idempotent=False,
        perform=perform,
        seconds=caps.run_seconds + ENDING_SECONDS,
    )


def _environment() -> dict[str, str]:
    """The environment of this process without secrets, which must not reach the model through a command's output."""
    inherited = {name: value for name, value in os.environ.items() if not SECRET_NAME.search(name)}
    return {**inherited, **UNATTENDED}


def _folder(root: Root, cwd: str, _: Halt) -> Path:
    place = root.resolve(cwd)
    with explained(place), root.folder(place.parts):
        return root.full_path(place)


def _command(arguments: Run, folder: Path, environment: Mapping[str, str] | None) -> ShellCommand:
    if isinstance(arguments.command, str):
        argv, line = ["/bin/sh", "-c", arguments.command], arguments.command
    else:
        argv, line = arguments.command, shlex.join(arguments.command)
    if "\0" in line:
        raise Refused("command contains a NUL character, which cannot be passed to a program")
    return ShellCommand(argv, line, folder, environment, arguments.timeout)


async def _run(command: ShellCommand, output: HeadTail, context: ToolContext) -> CommandEnd:
    pipe = Pipe(output)
    try:
        process = await _started(command, pipe, context)
        try:
            end = await _ended(process, pipe, command.seconds)
        finally:
            await _kill(process)
        await pipe.linger(LINGER_SECONDS)
        return end._replace(escaped=not pipe.ended.is_set())
    finally:
        pipe.close()


async def _started(command: ShellCommand, pipe: Pipe, context: ToolContext) -> Process:
    start = asyncio.create_subprocess_exec(
        *command.argv,
        cwd=command.folder,
        env=_environment() if command.environment is None else command.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe.write_end,
        stderr=pipe.write_end,
        start_new_session=True,
    )
    starting = asyncio.ensure_future(start)
    # Cancelling the start half-way could leave a running command without an owner.
    cancelled = await outlast(starting)
    pipe.hand_over()
    try:
        process = starting.result()
    except OSError as error:
        raise cancelled or Refused(f"{command.argv[0]} cannot be run: {error.strerror}") from None
    context.applied(f"ran: {cut(command.line, MAX_REPORTED_BYTES)}")
    if cancelled:
        await _kill(process)
        raise cancelled
    return process


async def _ended(process: Process, pipe: Pipe, seconds: int) -> CommandEnd:
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        return CommandEnd(None, timed_out=True)
    await pipe.linger(LINGER_SECONDS)
    return CommandEnd(code, left=not pipe.ended.is_set())


async def _kill(process: Process) -> None:
    """Kill the whole process group and reap the process."""
    # If the whole group has ended, some systems report a missing process, others a missing permission.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    cancelled = await outlast(asyncio.ensure_future(process.wait()))
    if cancelled:
        raise cancelled


def _report(text: str, end: CommandEnd, seconds: int) -> str:
    notes = []
    if end.timed_out:
        notes.append(f"timed out after {seconds} s and was killed with all that it started")
    elif end.code is None:
        notes.append("its exit code is not known")
    elif end.code < 0:
        notes.append(f"killed by signal {-end.code}")
    elif end.code or not text:
        notes.append(f"exit code {end.code}")
    if end.escaped:
        notes.append("a process that it started could not be killed and still runs")
    elif end.left:
        notes.append("what it left running was killed")
    if end.kept_end:
        notes.append("the beginning of its output is left out")
    if not text:
        notes.append("no output")
    ended_line = "" if not text or text.endswith("\n") or not notes else "\n"
    return f"{text}{ended_line}[{'; '.join(notes)}]" if notes else text

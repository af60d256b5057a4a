"""Running a command: its own process group, one stream of output, an end in bounded time.

That is no sandbox: a command can do whatever the user who runs the agent can.
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
from sideband.tools.arguments import Run, run_within
from sideband.tools.offload import Halt, offload, outlast
from sideband.tools.output import Caps, HeadTail, cut
from sideband.tools.pipe import Pipe
from sideband.tools.refusal import Refused, explained
from sideband.tools.root import Root
from sideband.tools.tool import WorkspaceTool

SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Nobody is there to answer a question, to turn a page or to see colours.
UNATTENDED: Final[Mapping[str, str]] = MappingProxyType(
    {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
)
# How long the output of something that a command left behind is waited for.
LINGER_SECONDS: Final = 0.5
# How long a command that is killed may take to be gone, with all of its output read.
ENDING_SECONDS: Final = 10
MAX_REPORTED_BYTES: Final = 200
MAX_NOTED_BYTES: Final = 2000


class _Command(NamedTuple):
    """What to start, and where; `line` is how one would type it."""

    argv: Sequence[str]
    line: str
    folder: Path
    environment: Mapping[str, str]
    seconds: int


class _End(NamedTuple):
    """How it ended; `code` None: its time was over. `left` and `escaped` tell what kept its output open after that."""

    code: int | None
    left: bool = False
    escaped: bool = False


def run(root: Root, caps: Caps, environment: Mapping[str, str] | None) -> WorkspaceTool[Run]:
    async def perform(arguments: Run, context: ToolContext) -> ToolOutput:
        folder = await offload(partial(_folder, root, arguments.cwd))
        command = _command(arguments, folder, _environment() if environment is None else environment)
        output = HeadTail(caps.run_bytes)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            end = await _run(command, output, context)
        except asyncio.CancelledError:
            # A cancelled call has no output of its own; what the command wrote may be all that anybody learns of it.
            if output.total:
                context.applied(f"it wrote: {output.last(MAX_NOTED_BYTES)}")
            raise
        data = {
            "command": command.line,
            "exit_code": end.code,
            "timed_out": end.code is None,
            "duration_ms": round((clock() - began) * 1000),
        }
        return ToolOutput(
            text=_report(output.text(), end, command.seconds),
            is_error=end.code != 0,
            original_bytes=output.total if output.cut else None,
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
    """This process's, without what must not get into a text that leaves the machine."""
    inherited = {name: value for name, value in os.environ.items() if not SECRET_NAME.search(name)}
    return {**inherited, **UNATTENDED}


def _folder(root: Root, cwd: str, _: Halt) -> Path:
    place = root.resolve(cwd)
    with explained(place), root.folder(place.parts):
        return root.full_path(place)


def _command(arguments: Run, folder: Path, environment: Mapping[str, str]) -> _Command:
    if isinstance(arguments.command, str):
        argv, line = ["/bin/sh", "-c", arguments.command], arguments.command
    else:
        argv, line = arguments.command, shlex.join(arguments.command)
    if "\0" in line:
        raise Refused("command has a NUL in it, which no program can be given")
    return _Command(argv, line, folder, environment, arguments.timeout)


async def _run(command: _Command, output: HeadTail, context: ToolContext) -> _End:
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


async def _started(command: _Command, pipe: Pipe, context: ToolContext) -> Process:
    start = asyncio.create_subprocess_exec(
        *command.argv,
        cwd=command.folder,
        env=command.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe.write_end,
        stderr=pipe.write_end,
        start_new_session=True,
    )
    starting = asyncio.ensure_future(start)
    # A start that is cancelled halfway would leave a command that ran and nobody knows of.
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


async def _ended(process: Process, pipe: Pipe, seconds: int) -> _End:
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        return _End(None)
    await pipe.linger(LINGER_SECONDS)
    return _End(code, left=not pipe.ended.is_set())


async def _kill(process: Process) -> None:
    """End the whole group, and leave no zombie of it."""
    # Where all of the group has ended, some systems know no such process, others no permission.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    cancelled = await outlast(asyncio.ensure_future(process.wait()))
    if cancelled:
        raise cancelled


def _report(text: str, end: _End, seconds: int) -> str:
    notes = []
    if end.code is None:
        notes.append(f"timed out after {seconds} s and was killed with all that it started")
    elif end.code < 0:
        notes.append(f"killed by signal {-end.code}")
    elif end.code or not text:
        notes.append(f"exit code {end.code}")
    if end.escaped:
        notes.append("something that it started got away and still runs")
    elif end.left:
        notes.append("what it left running was killed")
    if not text:
        notes.append("no output")
    ended_line = "" if not text or text.endswith("\n") or not notes else "\n"
    return f"{text}{ended_line}[{'; '.join(notes)}]" if notes else text

"""Runs a command of the user in its own process group and keeps a bounded part of its output."""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sideband.providers.verifiers import TEXT_BYTES
from sideband.tools.run import LINGER_SECONDS, UNATTENDED, Pipe
from sideband.tools.text import HeadTail
from sideband.tools.tool import offload, outlast


class ProcessEnd(NamedTuple):
    """How a command ended; `fault` says why it failed, and is empty if it passed. `started` if it ran at all."""

    fault: str
    output: str
    started: bool = True

    @property
    def passed(self) -> bool:
        return not self.fault


def failed(code: int) -> str:
    """The fault of a command that ended with an exit status other than 0."""
    return f"failed (exit status {code})"


async def run(
    command: Sequence[str],
    *,
    folder: Path,
    seconds: float | None,
    environment: Mapping[str, str] | None = None,
    with_errors: bool = True,
) -> ProcessEnd:
    """Run the command and return how it ended; at the end, and when cancelled, its whole process group is killed.

    `environment` replaces that of this process. `seconds=None` sets no time-out. Without `with_errors` the standard
    error of the command is discarded.
    """
    output = HeadTail(TEXT_BYTES)
    pipe = Pipe(output)
    try:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                env={**(os.environ if environment is None else environment), **UNATTENDED},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe.write_end,
                stderr=pipe.write_end if with_errors else asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        # Cancelling the start half-way could leave a running command without an owner.
        cancelled = await outlast(starting)
        pipe.hand_over()
        try:
            process = starting.result()
        except (OSError, ValueError) as error:
            if cancelled:
                raise cancelled from None
            reason = error.strerror if isinstance(error, OSError) else error
            if not await offload(lambda _: folder.is_dir()):
                reason = "the directory in which it runs does not exist"
            return ProcessEnd(f"cannot be started: {reason}", "", started=False)
        try:
            if cancelled:
                raise cancelled
            fault = await _fault(process, seconds)
        finally:
            await _kill(process)
        await pipe.linger(LINGER_SECONDS)
        return ProcessEnd(fault, output.text())
    finally:
        pipe.close()


async def _fault(process: Process, seconds: float | None) -> str:
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        return f"timed out after {seconds:g} s and was killed"
    if code < 0:
        return f"was killed by signal {-code}"
    return failed(code) if code else ""


async def _kill(process: Process) -> None:
    # If the whole group has ended, some systems report a missing process, others a missing permission.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    cancelled = await outlast(asyncio.ensure_future(process.wait()))
    if cancelled:
        raise cancelled

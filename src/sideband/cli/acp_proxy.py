"""`sideband acp-proxy`: put Sideband between an editor and an ACP agent."""

import asyncio
import logging
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from cyclopts import Parameter

from sideband.cli.app import REFUSALS, refuse
from sideband.cli.target import StoreOption, store_of
from sideband.core.errors import shown
from sideband.core.masking import mask_text
from sideband.inspect.report import printable

if TYPE_CHECKING:
    from sideband.protocols.acp.proxy.proxy import Proxy
    from sideband.protocols.frames import LineTransport, PipeReader

# At the end, how long an agent may take after its standard input was closed, and then after SIGTERM.
EOF_SECONDS: Final = 5.0
TERM_SECONDS: Final = 2.0
GROUP_POLL_SECONDS: Final = 0.02
# A prompt waits no longer than this for a locked store; then it goes to the agent as it is.
PATIENCE_SECONDS: Final = 2.0
# The exit status of shells for a program that cannot be started, and that does not exist.
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
# The exit status of shells for a program that a signal has ended: this and its number.
BY_SIGNAL: Final = 128

_PREFIX: Final = "sideband acp-proxy"
# The name is a part of `proxy:NAME:ID`, which is typed on command lines.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def acp_proxy(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    name: str | None = None,
    principal: str = "editor",
    store: StoreOption = None,
) -> int:
    """Run an ACP agent, and hand it the reminders and messages that its sessions are sent.

    An editor starts this command instead of the agent. Frames between the two are forwarded as they are. The sessions of
    the agent are listed as `proxy:NAME:ID`; reminders for them come from the editor, or from any program:
    `sideband remind BODY --to proxy:NAME:ID`.

    Reminders stand in front of the next prompt. An agent that supports steering gets interrupts at once, and everything
    else while one of its tools runs.

    Exits with the status of the agent, or with 128 and the number of the signal that has ended it. Exits with 127 if there
    is no such program, with 126 if it cannot be started, and with 2 if an option is wrong or the store cannot be opened.

    Parameters
    ----------
    command
        The command of the agent and its arguments, after `--`.
    name
        The name of the agent in the names of its sessions: ASCII letters, digits, `.`, `_` and `-`. The default is the
        name of the program up to the first `-`.
    principal
        The name of the editor, which is recorded with everything that it sends.
    """
    if not command:
        return refuse("no agent is named; write it after --, for example: sideband acp-proxy -- claude-agent-acp")
    agent_name = PurePath(command[0]).name.partition("-")[0] if name is None else name
    if _NAME.fullmatch(agent_name) is None:
        return refuse(
            "the name of the agent may have ASCII letters, digits, '.', '_' and '-', and must have one of them, not "
            f"{shown(agent_name)}; choose another one, for example: --name claude",
            option="--name",
        )
    try:
        url = store_of(store, must_exist=False)
        return asyncio.run(_run(command, url, agent_name, principal))
    except REFUSALS as error:
        return refuse(error)


async def _run(command: Sequence[str], store_url: str, name: str, principal: str) -> int:
    # Imported here, so that the help of the command appears fast.
    from sideband.protocols.acp.proxy.proxy import MAX_FORWARDED_BYTES, Proxy  # noqa: PLC0415 - see above
    from sideband.protocols.frames import standard_streams  # noqa: PLC0415 - see above
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above

    _log_to_stderr()
    # The store is opened first, because an agent without its reminders would look like one that works.
    async with open_store(store_url, patience_seconds=PATIENCE_SECONDS) as store:
        try:
            agent = await _start(command, limit=MAX_FORWARDED_BYTES)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            refuse(f"the agent cannot be started: {command[0]}: {why}; check the command after --")
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        try:
            async with standard_streams(limit=MAX_FORWARDED_BYTES) as editor:
                proxy = Proxy(editor, agent.pipes, store, agent_name=name, principal=principal)
                try:
                    return await _forward(proxy, agent)
                finally:
                    await proxy.aclose()
        finally:
            agent.kill()


class _Agent(NamedTuple):
    """The agent in a process group of its own, its pipes, and the reading end of its standard output."""

    process: Process
    pipes: "LineTransport"
    output: "PipeReader"

    async def ends(self, seconds: float) -> bool:
        """Whether the process of the agent ends in this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.process.wait()
        return self.process.returncode is not None

    async def end_group(self) -> None:
        """End the agent and every process that it has left running."""
        if self._signal(signal.SIGTERM):
            deadline = asyncio.get_running_loop().time() + TERM_SECONDS
            # No event tells of the end of a process group.
            while self._signal(0) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - see above
                await asyncio.sleep(GROUP_POLL_SECONDS)
            self._signal(signal.SIGKILL)
        await self.ends(TERM_SECONDS)

    def kill(self) -> None:
        """Leave nothing open, also if this program fails or is cancelled."""
        self._signal(signal.SIGKILL)
        self.output.close()

    def _signal(self, number: int) -> bool:
        """Signal the whole group; whether there is a process in it."""
        # If the whole group has ended, some systems report a missing process, others a missing permission.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)
            return True
        return False


async def _start(command: Sequence[str], *, limit: int) -> _Agent:
    from sideband.protocols.frames import LineTransport, PipeReader  # noqa: PLC0415 - as in _run

    # Pipes of our own: with those of asyncio, waiting for the process is also waiting for the end of its output, which a
    # process that the agent has left running may hold open.
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=theirs_in, stdout=theirs_out, start_new_session=True
        )
    except BaseException:
        os.close(ours_in)
        os.close(ours_out)
        raise
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    output = PipeReader(ours_out, reader)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(ours_in, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    return _Agent(process, LineTransport(reader, writer, limit=limit), output)


async def _forward(proxy: "Proxy", agent: _Agent) -> int:
    """Forward frames until one side ends, then end the other one; the exit status of the command."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, asked.set)
    stopping = asyncio.ensure_future(asked.wait())
    from_editor = asyncio.ensure_future(proxy.forward_editor())
    from_agent = asyncio.ensure_future(proxy.forward_agent())
    # A process that the agent has left running may keep its output open, so the end of the output is not enough.
    exiting = asyncio.ensure_future(agent.process.wait())
    tasks: list[asyncio.Future[Any]] = [stopping, from_editor, from_agent, exiting]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        by_itself = (exiting.done() or from_agent.done()) and await agent.ends(TERM_SECONDS)
        tasks.append(asyncio.ensure_future(agent.pipes.close()))
        # What the agent still says is forwarded.
        if by_itself or await agent.ends(EOF_SECONDS):
            await asyncio.wait((from_agent,), timeout=TERM_SECONDS)
        await agent.end_group()
        await asyncio.wait((from_agent,), timeout=TERM_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await agent.pipes.close()
    for forwarding in (from_editor, from_agent):
        if not forwarding.cancelled():
            # A fault of ours is not hidden by the end of the agent.
            forwarding.result()
    return _status(agent.process, by_itself=by_itself)


def _status(agent: Process, *, by_itself: bool) -> int:
    code = agent.returncode or 0
    if not by_itself:
        # A signal of ours is no failure of the agent.
        return max(code, 0)
    how = f"with exit status {code}" if code >= 0 else f"by signal {-code}"
    _complain(f"the agent ended {how}")
    return code if code >= 0 else BY_SIGNAL - code


class _MaskedFormatter(logging.Formatter):
    """Masks secrets in whatever the library writes, and leaves no control characters for the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, mask_text(super().format(record)).splitlines()))


def _log_to_stderr() -> None:
    """Write warnings of the library to standard error, beside what the agent writes there."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MaskedFormatter(f"{_PREFIX}: %(message)s"))
    logging.getLogger("sideband").addHandler(handler)


def _complain(text: str) -> None:
    print(f"{_PREFIX}: {text}", file=sys.stderr)

"""`sideband acp-proxy`: put Sideband between an editor and an ACP agent."""

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from sideband.cli.app import REFUSALS, refuse
from sideband.cli.target import StoreOption, store_of
from sideband.core.masking import mask_text
from sideband.inspect.report import printable

if TYPE_CHECKING:
    from sideband.protocols.acp.proxy.proxy import Proxy
    from sideband.protocols.frames import LineTransport

# At the end, how long an agent may take after its standard input was closed, and then after SIGTERM.
EOF_SECONDS: Final = 5.0
TERM_SECONDS: Final = 2.0
# The exit status of shells for a program that cannot be started, and that does not exist.
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
# The exit status of shells for a program that a signal has ended: this and its number.
BY_SIGNAL: Final = 128

_PREFIX: Final = "sideband acp-proxy"


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

    Exits with the status of the agent, and with 2 if the store cannot be opened.

    Parameters
    ----------
    command
        The command of the agent and its arguments, after `--`.
    name
        The name of the agent in the names of its sessions. The default is the name of the program up to the first `-`.
    principal
        The name of the editor, which is recorded with everything that it sends.
    """
    if not command:
        return refuse("no agent is named; write it after --, for example: sideband acp-proxy -- claude-agent-acp")
    try:
        url = store_of(store, must_exist=False)
        return asyncio.run(_run(command, url, name or PurePath(command[0]).name.partition("-")[0], principal))
    except REFUSALS as error:
        return refuse(error)


async def _run(command: Sequence[str], store_url: str, name: str, principal: str) -> int:
    # Imported here, so that the help of the command appears fast.
    from sideband.protocols.acp.proxy.proxy import MAX_FORWARDED_BYTES, Proxy  # noqa: PLC0415 - see above
    from sideband.protocols.frames import LineTransport, standard_streams  # noqa: PLC0415 - see above
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above

    _log_to_stderr()
    # The store is opened first, because an agent without its reminders would look like one that works.
    async with open_store(store_url) as store:
        try:
            agent = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        except OSError as error:
            refuse(f"the agent cannot be started: {command[0]}: {error.strerror}; check the command after --")
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        if agent.stdin is None or agent.stdout is None:  # pragma: no cover - both are pipes
            raise AssertionError
        pipes = LineTransport(agent.stdout, agent.stdin, limit=MAX_FORWARDED_BYTES)
        async with standard_streams(limit=MAX_FORWARDED_BYTES) as editor:
            proxy = Proxy(editor, pipes, store, agent_name=name, principal=principal)
            try:
                return await _forward(proxy, agent, pipes)
            finally:
                await proxy.aclose()


async def _forward(proxy: "Proxy", agent: Process, pipes: "LineTransport") -> int:
    """Forward frames until one side ends, then end the other one; the exit status of the command."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, asked.set)
    stopping = asyncio.ensure_future(asked.wait())
    from_editor = asyncio.ensure_future(proxy.forward_editor())
    from_agent = asyncio.ensure_future(proxy.forward_agent())
    try:
        await asyncio.wait((stopping, from_editor, from_agent), return_when=asyncio.FIRST_COMPLETED)
        by_itself = from_agent.done() and await _ends(agent, TERM_SECONDS)
        if not by_itself:
            await _end(agent, pipes, from_agent)
    finally:
        for task in (stopping, from_editor, from_agent):
            task.cancel()
        await asyncio.wait((stopping, from_editor, from_agent))
        await pipes.close()
    for forwarding in (from_editor, from_agent):
        if not forwarding.cancelled():
            # A fault of ours is not hidden by the end of the agent.
            forwarding.result()
    return _status(agent, by_itself=by_itself)


async def _end(agent: Process, pipes: "LineTransport", from_agent: "asyncio.Future[None]") -> None:
    """Close the standard input of the agent, and forward what it still says; if it does not end, end it."""
    await pipes.close()
    await asyncio.wait((from_agent,), timeout=EOF_SECONDS)
    if await _ends(agent, EOF_SECONDS if from_agent.done() else 0.0):
        return
    with suppress(ProcessLookupError):
        agent.terminate()
    if not await _ends(agent, TERM_SECONDS):
        with suppress(ProcessLookupError):
            agent.kill()
        await agent.wait()


async def _ends(agent: Process, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await agent.wait()
    return agent.returncode is not None


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

"""The files and terminals of the clients, as the editor that the workspace tools use. Only protocol version 1 has them.

The client whose prompt started the turn is asked first, then the others in the order in which they have attached. What
happens if a client fails:

- It cannot read a file: the file is read from the disk. It does not answer: the call is refused, because the client may
  have text that is not saved.
- It refuses to write a file, or does not answer: the call is refused.
- It does not know a method that it has offered, or its connection is lost before the file was written: the tools do
  without it, with the same checks.
- It refuses to run a command, or is lost while the command runs: the call fails. The command is never run again.
"""

import asyncio
import concurrent.futures
import re
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from sideband.logs import LOG
from sideband.ports import ToolContext
from sideband.protocols.acp.agent.attachment import Attachment
from sideband.protocols.acp.agent.session_updates import Abilities
from sideband.protocols.frames import ConnectionLost
from sideband.protocols.jsonrpc import METHOD_NOT_FOUND, RpcError
from sideband.tools.root import WorkspacePath
from sideband.tools.run import MAX_REPORTED_BYTES, UNATTENDED, CommandEnd, ShellCommand
from sideband.tools.text import HeadTail, cut
from sideband.tools.tool import Halt, Refused, outlast

# So long a client may take to read or write a file, or to start a command.
ANSWER_SECONDS: Final = 10.0
# So long a client may take to end a command whose call was cancelled; less than the loop gives a cancelled call.
STOP_SECONDS: Final = 1.5
# A terminal keeps so many bytes of output, which always fit into one frame.
TERMINAL_BYTES: Final = 1024 * 1024

_T = TypeVar("_T")


def editor_of_clients(
    attachments: Sequence[Attachment], session_id: str, cwd: str, prompt_id: str | None
) -> "ClientEditor | None":
    """The editor for a call that begins now; None if no client offers anything. `prompt_id` has started the turn."""
    able = [
        attachment
        for attachment in attachments
        if not attachment.is_observer and not attachment.peer.is_over and _offers(attachment.abilities)
    ]
    # Sorting is stable, so the others keep the order in which they have attached.
    able.sort(key=lambda attachment: not attachment.awaits(prompt_id))
    return ClientEditor(able, session_id, cwd) if able else None


def _offers(abilities: Abilities) -> bool:
    return abilities.reads_files or abilities.writes_files or abilities.has_terminals


class ClientEditor:
    """The clients of a session during one tool call, most wanted first. `cwd` is the folder as the clients name it."""

    def __init__(self, attachments: Sequence[Attachment], session_id: str, cwd: str) -> None:
        self._attachments = attachments
        self._session_id = session_id
        self._cwd = cwd
        self._loop = asyncio.get_running_loop()

    # Files.

    def read(self, place: WorkspacePath, halt: Halt) -> str | None:
        return self._wait(self._read(place), halt)

    def write(self, place: WorkspacePath, text: str) -> bool:
        # A write that was sent is not given up when the call is cancelled: its result says whether the file was written.
        return self._wait(self._write(place, text), Halt())

    def _wait(self, asking: Coroutine[Any, Any, _T], halt: Halt) -> _T:
        """Ask in the event loop and wait here, in the thread of a tool."""
        answer = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            with halt.stopping(answer.cancel):
                return answer.result()
        except concurrent.futures.CancelledError:
            halt.check()
            raise
        finally:
            # The halt may be older than the question. This has no effect on an answer.
            answer.cancel()

    async def _read(self, place: WorkspacePath) -> str | None:
        for attachment in self._with(lambda abilities: abilities.reads_files):
            try:
                answer = await self._ask(attachment, "fs/read_text_file", path=self._path(place))
            except ConnectionLost:
                continue
            except RpcError as error:
                LOG.debug("a client cannot read %s: %s", place, error)
                return None
            except TimeoutError:
                raise _no_answer(f"read {place}") from None
            content = answer.get("content")
            return content if isinstance(content, str) else None
        return None

    async def _write(self, place: WorkspacePath, text: str) -> bool:
        for attachment in self._with(lambda abilities: abilities.writes_files):
            try:
                await self._ask(attachment, "fs/write_text_file", path=self._path(place), content=text)
            except ConnectionLost:
                # If the client has written the file before, the check for changes on the disk finds it.
                return False
            except RpcError as error:
                if error.code == METHOD_NOT_FOUND:
                    return False
                raise Refused(f"the editor could not write {place}: {error.message}") from None
            except TimeoutError:
                raise _no_answer(f"write {place}", "; read_file it to see whether it has") from None
            return True
        return False

    # Terminals.

    async def run(self, command: ShellCommand, output: HeadTail, context: ToolContext) -> CommandEnd | None:
        attachment = next(self._with(lambda abilities: abilities.has_terminals), None)
        if attachment is None:
            return None
        creating = asyncio.ensure_future(self._create(attachment, command))
        # Cancelling the start half-way could leave a command running that cannot be killed.
        cancelled = await outlast(creating)
        terminal_id = creating.result()
        if terminal_id is None:
            if cancelled:
                raise cancelled
            return None
        context.applied(f"ran: {cut(command.line, MAX_REPORTED_BYTES)}")
        terminal = _Terminal(lambda method: self._ask(attachment, method, terminalId=terminal_id), output)
        if cancelled:
            await terminal.stop()
            raise cancelled
        attachment.show_terminal(context.call_id, terminal_id)
        return await terminal.run(command.seconds)

    async def _create(self, attachment: Attachment, command: ShellCommand) -> str | None:
        environment = UNATTENDED if command.environment is None else command.environment
        program, *arguments = command.argv
        try:
            answer = await self._ask(
                attachment,
                "terminal/create",
                command=program,
                args=arguments,
                cwd=str(command.folder),
                env=[{"name": name, "value": value} for name, value in environment.items()],
                outputByteLimit=TERMINAL_BYTES,
            )
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                return None
            raise Refused(f"{program} cannot be run in a terminal of the editor: {error.message}") from None
        except ConnectionLost:
            raise Refused(f"{_LOST} was started; it is not known whether it runs") from None
        except TimeoutError:
            raise _no_answer("start the command", "; it is not known whether it runs") from None
        terminal_id = answer.get("terminalId")
        if not isinstance(terminal_id, str):
            raise Refused(
                "the editor has answered without the id of a terminal; it is not known whether the command runs"
            )
        return terminal_id

    # Requests.

    def _with(self, has: Callable[[Abilities], bool]) -> Iterator[Attachment]:
        """The clients that can be asked."""
        for attachment in self._attachments:
            if has(attachment.abilities) and not attachment.peer.is_over:
                yield attachment

    def _path(self, place: WorkspacePath) -> str:
        return str(Path(self._cwd, *place.parts))

    async def _ask(self, attachment: Attachment, method: str, **params: object) -> dict[str, Any]:
        asked = {"sessionId": self._session_id, **params}
        seconds = None if method == _WAIT else ANSWER_SECONDS
        async with asyncio.timeout(seconds):
            answer = await attachment.peer.request(method, asked)
        return answer if isinstance(answer, dict) else {}


_SIGNAL_NUMBER: Final = re.compile(r"[0-9]{1,3}")
_WAIT: Final = "terminal/wait_for_exit"
_LOST: Final = "the connection to the editor was lost while the command"


def _no_answer(what: str, then: str = "") -> Refused:
    return Refused(f"the editor did not {what} within {ANSWER_SECONDS:g} s{then}")


class _Terminal:
    """A terminal of a client in which a command runs; its output is added to `output` at the end."""

    def __init__(self, ask: Callable[[str], Coroutine[Any, Any, dict[str, Any]]], output: HeadTail) -> None:
        self._ask = ask
        self._output = output

    async def run(self, seconds: int) -> CommandEnd:
        """Wait for the end of the command, at most so many seconds, and release the terminal."""
        try:
            try:
                end = await self._exit(seconds)
                end = end._replace(kept_end=await self._read())
            except asyncio.CancelledError:
                stopping = asyncio.ensure_future(self.stop())
                await outlast(stopping)
                raise
            await self._try("terminal/release")
        except ConnectionLost:
            raise Refused(f"{_LOST} ran; it is not known how it ended") from None
        return end

    async def _exit(self, seconds: int) -> CommandEnd:
        try:
            async with asyncio.timeout(seconds):
                status = await self._ask(_WAIT)
        except TimeoutError:
            await self._try("terminal/kill")
            return CommandEnd(None, timed_out=True)
        except RpcError as error:
            LOG.debug("a client cannot wait for a command: %s", error)
            await self._try("terminal/kill")
            return CommandEnd(None)
        return CommandEnd(_code(status))

    async def _read(self) -> bool:
        """Read the output, and return whether its beginning was discarded."""
        try:
            answer = await self._ask("terminal/output")
        except (RpcError, TimeoutError) as error:
            reason = str(error) or "no answer"
            raise Refused(f"the command ran, but the editor did not give its output: {reason}") from None
        # A terminal shows lines that end in \r\n.
        self._output.feed(str(answer.get("output", "")).replace("\r\n", "\n").encode("utf-8", "replace"))
        return answer.get("truncated") is True

    async def stop(self) -> None:
        """End the command as far as the client does that in time, and take its output."""
        with suppress(TimeoutError, ConnectionLost, Refused):
            async with asyncio.timeout(STOP_SECONDS):
                await self._try("terminal/kill")
                await self._read()
                await self._try("terminal/release")

    async def _try(self, method: str) -> None:
        try:
            await self._ask(method)
        except (RpcError, TimeoutError) as error:
            LOG.debug("%s failed: %s", method, error)


def _code(status: dict[str, Any]) -> int | None:
    """The exit code; negative for a signal, which clients name with or without SIG or by its number."""
    code, name = status.get("exitCode"), str(status.get("signal") or "").upper().removeprefix("SIG")
    if _SIGNAL_NUMBER.fullmatch(name):
        return -int(name)
    if f"SIG{name}" in signal.Signals.__members__:
        return -signal.Signals[f"SIG{name}"]
    return code if isinstance(code, int) and not isinstance(code, bool) else None

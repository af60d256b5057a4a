"""An editor that talks ACP to an agent over pipes: raw frames, all of them recorded."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sideband.protocols.frames import Frame, LineTransport
from sideband.protocols.jsonrpc import METHOD_NOT_FOUND, Call, Peer, RpcError

# With this capability Sideband names its reminder updates; other agents ignore it.
_CAPABILITIES: Final = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "_meta": {"sideband": {"reminders": {"emit": True}}},
}
# An agent that was asked to end gets this long before it is killed.
_END_SECONDS: Final = 3
_SHOWN_FRAMES: Final = 40
_SHOWN_BYTES: Final = 2_000


class _RecordedTransport(LineTransport):
    """Lines, with a copy of each frame: those that were received after `<`, those that were sent after `>`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.frames: list[str] = []

    async def receive(self) -> Sequence[Frame]:
        received = await super().receive()
        self.frames += (f"< {frame.decode() if isinstance(frame, bytes) else frame}" for frame in received)
        return received

    def send(self, frame: bytes) -> None:
        self.frames.append(f"> {frame.decode()}")
        super().send(frame)


class Editor:
    """The client of one session of an agent. It allows whatever the agent asks for, and keeps every update."""

    def __init__(self, transport: _RecordedTransport, directory: Path) -> None:
        self.peer = Peer(transport, self._handle)
        self.session_id = ""
        self.initialized: Mapping[str, Any] = {}
        """The agent's answer to `initialize`."""
        self.updates: list[Mapping[str, Any]] = []
        self._directory = directory
        self._updated = asyncio.Condition()

    async def initialize(self, auth_method: str | None, capabilities: Mapping[str, Any]) -> None:
        request = {
            "protocolVersion": 1,
            "clientCapabilities": {**_CAPABILITIES, **capabilities},
            "clientInfo": {"name": "editor", "version": "1"},
        }
        self.initialized = await self.peer.request("initialize", request)
        if auth_method is not None:
            await self.peer.request("authenticate", {"methodId": auth_method})

    async def open_session(self) -> None:
        opened = await self.peer.request("session/new", {"cwd": str(self._directory), "mcpServers": []})
        self.session_id = opened["sessionId"]

    async def load_session(self, session_id: str) -> None:
        """Load a session; the updates are then those of the replay."""
        self.session_id = session_id
        where = {"cwd": str(self._directory), "mcpServers": []}
        await self.peer.request("session/load", {"sessionId": session_id, **where})

    async def prompt(self, text: str) -> str:
        """Send a prompt and wait for the end of its turn; the reason why it ended."""
        prompt = [{"type": "text", "text": text}]
        answer = await self.peer.request("session/prompt", {"sessionId": self.session_id, "prompt": prompt})
        stop_reason: str = answer["stopReason"]
        return stop_reason

    def cancel(self) -> None:
        """Cancel the running turn."""
        self.peer.notify("session/cancel", {"sessionId": self.session_id})

    async def remind(self, body: str, **options: object) -> str:
        """Send a reminder; its id."""
        reminder = {"sessionId": self.session_id, "body": body, **options}
        reminder_id: str = (await self.peer.request("session/inject_reminder", reminder))["reminderId"]
        return reminder_id

    async def update(self, matches: Callable[[Mapping[str, Any]], object]) -> Mapping[str, Any]:
        """The first update that matches, as soon as it has arrived."""
        async with self._updated:
            await self._updated.wait_for(lambda: any(map(matches, self.updates)))
        return next(filter(matches, self.updates))

    async def emitted(self, body: str) -> Mapping[str, Any]:
        """The update that says that the reminder with this body was handed over."""
        return await self.update(lambda one: one["sessionUpdate"] == "reminder_emitted" and one["body"] == body)

    def texts(self, kind: str) -> list[str]:
        """The texts of all chunks of this kind: `user_message_chunk`, `agent_message_chunk`."""
        return [one["content"]["text"] for one in self.updates if one["sessionUpdate"] == kind]

    async def _handle(self, call: Call) -> object:
        match call.method, call.params:
            case "session/update", {"update": update}:
                async with self._updated:
                    self.updates.append(update)
                    self._updated.notify_all()
                return None
            case "session/request_permission", {"options": options}:
                allowed = next(option for option in options if option["kind"].startswith("allow"))
                return {"outcome": {"outcome": "selected", "optionId": allowed["optionId"]}}
            case _ if call.request_id is None:
                # A notification of the agent's own, such as Codex and Qwen send.
                return None
            case _:
                raise RpcError(METHOD_NOT_FOUND, "Method not found")


@asynccontextmanager
async def an_editor(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    auth_method: str | None,
    capabilities: Mapping[str, Any],
    log: Path,
) -> AsyncIterator[Editor]:
    """An editor with its agent, which is initialized. Nothing that was started is left at the end of the block."""
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=directory,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    assert process.stdout is not None
    assert process.stdin is not None
    transport = _RecordedTransport(process.stdout, process.stdin)
    editor = Editor(transport, directory)
    serving = asyncio.ensure_future(editor.peer.serve())
    try:
        await editor.initialize(auth_method, capabilities)
        yield editor
    except BaseException as error:
        error.add_note(_evidence(transport.frames, log))
        raise
    finally:
        await transport.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def _evidence(frames: Sequence[str], log: Path) -> str:
    """The last frames, and what the agent wrote to standard error."""
    shown = [frame if len(frame) < _SHOWN_BYTES else f"{frame[:_SHOWN_BYTES]}…" for frame in frames[-_SHOWN_FRAMES:]]
    written = log.read_text(encoding="utf-8", errors="replace")[-_SHOWN_BYTES:]
    return "\n".join(("The last frames:", *shown, "Standard error:", written))

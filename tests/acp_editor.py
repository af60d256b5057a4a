"""An editor that talks to our ACP agent over real pipes, and keeps every frame that it gets in order."""

import asyncio
import functools
import inspect
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, ParamSpec

from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.models.scripted import Line
from sideband.protocols.acp.agent import AcpAgent
from sideband.protocols.frames import LineTransport
from sideband.providers.registry import Registry
from sideband.runtime.store import Store, open_store
from sideband.testing import ScriptedModel
from sideband.tools.workspace import workspace_tools

# Every wait of an editor ends after this time; it is far longer than any answer takes.
SECONDS: Final = 20.0

SCRIPTED: Final = "scripted:"
ALLOW: Final = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

Answer = Callable[[dict[str, Any]], Any]
_Given = ParamSpec("_Given")


def on_pipes(test: Callable[_Given, Coroutine[Any, Any, None]]) -> Callable[_Given, None]:
    """Run an asynchronous test in an event loop of its own, with a limit of time."""

    @functools.wraps(test)
    def run(*args: _Given.args, **kwargs: _Given.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 4 * SECONDS))

    return run


class Refused(Exception):
    """The agent, or an answer of the editor, refused a request."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']} {error.get('data')}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Editor:
    """One connection. `frames` has every frame of the agent; `answers` says how its requests are answered, by method.

    An answer returns the result or something that can be awaited for it, or raises `Refused`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.frames: list[Any] = []
        self.answers: dict[str, Answer | None] = {"session/request_permission": lambda _params: ALLOW}
        self._waiting: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._answering: set[asyncio.Future[None]] = set()
        self._arrived = asyncio.Event()
        self._next_id = 0
        self._reads = asyncio.Event()
        self._reads.set()
        self.ended = asyncio.ensure_future(self._read())

    # Sending.

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data + b"\n")

    def notify(self, method: str, **params: Any) -> None:  # noqa: ANN401 - of any method
        self.send_raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def begin(self, method: str, **params: Any) -> "asyncio.Future[dict[str, Any]]":  # noqa: ANN401 - of any method
        """Send a request; the future is its whole answer."""
        self._next_id += 1
        self._waiting[self._next_id] = answer = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self.send_raw(json.dumps(message).encode())
        return answer

    async def call(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - of any method
        """The result of a request; `Refused` if the agent answers with an error."""
        return await result_of(self.begin(method, **params))

    # Receiving.

    async def _read(self) -> None:
        while line := await self._reader.readline():
            await self._reads.wait()
            message = json.loads(line)
            self.frames.append(message)
            self._arrived.set()
            if isinstance(message, list):
                continue
            if "method" not in message:
                waiting = self._waiting.pop(message["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            elif "id" in message:
                answer = self.answers.get(message["method"])
                if answer is not None:
                    answering = asyncio.ensure_future(self._answer(message, answer))
                    self._answering.add(answering)
                    answering.add_done_callback(self._answering.discard)
        for unanswered in self._answering:
            unanswered.cancel()

    async def _answer(self, message: dict[str, Any], answer: Answer) -> None:
        frame: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            result = answer(message["params"])
            frame["result"] = await result if inspect.isawaitable(result) else result
        except Refused as refused:
            frame["error"] = {"code": refused.code, "message": refused.message}
        self.send_raw(json.dumps(frame).encode())

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until a frame makes this true."""
        async with asyncio.timeout(SECONDS):
            while not holds():
                self._arrived.clear()
                await self._arrived.wait()

    async def frame(self, holds: Callable[[dict[str, Any]], object], *, after: int = 0) -> dict[str, Any]:
        """The first frame after a place in `frames` for which this is true."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [frame for frame in self.frames[after:] if isinstance(frame, dict) and holds(frame)][:1]
            return bool(found)

        await self.until(look)
        return found[0]

    def updates(self, *kinds: str, after: int = 0) -> list[dict[str, Any]]:
        """The updates that have arrived, of these kinds or of all."""
        all_updates = [
            frame["params"]["update"]
            for frame in self.frames[after:]
            if isinstance(frame, dict) and frame.get("method") == "session/update"
        ]
        return [update for update in all_updates if not kinds or update["sessionUpdate"] in kinds]

    def reminders(self, *, after: int = 0) -> list[dict[str, Any]]:
        """The reminder updates, in whichever form they have arrived."""
        found = []
        for update in self.updates(after=after):
            carried = update.get("_meta", {}).get("sideband", {}).get("update")
            told = carried or update
            if told["sessionUpdate"].startswith("reminder_"):
                found.append(told)
        return found

    async def update(self, kind: str, *, after: int = 0) -> dict[str, Any]:
        """The first update of this kind, which may be still to come."""
        await self.until(lambda: self.updates(kind, after=after))
        return self.updates(kind, after=after)[0]

    # Common requests.

    async def initialize(self, version: int = 1, **capabilities: Any) -> Any:  # noqa: ANN401 - of any kind
        if version == 1:
            return await self.call("initialize", protocolVersion=1, clientCapabilities=capabilities)
        info = {"name": "test", "version": "1"}
        return await self.call("initialize", protocolVersion=version, capabilities=capabilities, info=info)

    async def new(self, cwd: Path | str = "/", **params: Any) -> str:  # noqa: ANN401 - of any kind
        result = await self.call("session/new", cwd=str(cwd), mcpServers=[], **params)
        session_id: str = result["sessionId"]
        return session_id

    def prompt(self, session_id: str, text: str) -> "asyncio.Future[dict[str, Any]]":
        return self.begin("session/prompt", sessionId=session_id, prompt=[text_block(text)])

    async def prompted(self, session_id: str, text: str = "Go on.") -> Any:  # noqa: ANN401 - the result
        return await result_of(self.prompt(session_id, text))

    def pause(self) -> None:
        """Read nothing more."""
        self._reads.clear()

    def go_on(self) -> None:
        self._reads.set()


def text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


async def result_of(answer: "asyncio.Future[dict[str, Any]]") -> Any:  # noqa: ANN401 - of any method
    async with asyncio.timeout(SECONDS):
        message = await answer
    if "error" in message:
        raise Refused(message["error"])
    return message["result"]


async def refusal_of(answer: "asyncio.Future[dict[str, Any]]") -> Refused:
    """The error of a request that must be refused."""
    try:
        result = await result_of(answer)
    except Refused as refused:
        return refused
    raise AssertionError(f"the agent did not refuse, but answered {result}")


async def _pipe() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The two ends of a pipe."""
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(write_end, "wb", buffering=0)
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


@asynccontextmanager
async def connected(agent: AcpAgent, *, version: int | None = 1, **capabilities: Any) -> AsyncIterator[Editor]:  # noqa: ANN401
    """An editor that is connected to an agent of this process, and initialised unless `version` is None."""
    to_agent, from_agent = await _pipe(), await _pipe()
    serving = asyncio.ensure_future(agent.serve(LineTransport(to_agent[0], from_agent[1])))
    editor = Editor(from_agent[0], to_agent[1])
    try:
        if version is not None:
            await editor.initialize(version, **capabilities)
        yield editor
    finally:
        to_agent[1].close()
        async with asyncio.timeout(SECONDS):
            await serving
            from_agent[1].close()
            await editor.ended


@asynccontextmanager
async def an_agent(
    *script: Line,
    store: Store | None = None,
    model: ScriptedModel | str | None = SCRIPTED,
    limits: Limits = DEFAULT_LIMITS,
    **settings: Any,  # noqa: ANN401 - those of AcpAgent
) -> AsyncIterator[AcpAgent]:
    """An agent with a scripted model and without providers, on a store in memory or the given one."""
    options = {"providers": Registry(), "reminders": False, **settings.pop("options", {})}
    async with open_store("memory:", limits=limits) as own:
        given = {
            "model": ScriptedModel(script) if model == SCRIPTED else model,
            "options": options,
            "tools_of": workspace_tools,
            **settings,
        }
        async with AcpAgent(store or own, **given) as agent:
            yield agent


@asynccontextmanager
async def an_editor(
    *script: Line,
    version: int | None = 1,
    client: Mapping[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[Editor]:
    """An editor with an agent of its own; `client` are its capabilities."""
    async with an_agent(*script, **settings) as agent, connected(agent, version=version, **(client or {})) as editor:
        yield editor


EMITS: Final[Mapping[str, Any]] = {"_meta": {"sideband": {"reminders": {"emit": True}}}}
"""The capabilities of a client of version 1 that knows reminder updates by name."""


def kinds(updates: Sequence[Mapping[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]

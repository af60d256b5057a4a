"""Our A2A server on a socket, with a model that works until a test lets it finish, and the clients that tests drive."""

import asyncio
import itertools
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import uvicorn
from starlette.types import Receive, Scope, Send

from sideband.core.messages import Reply, ToolCall
from sideband.protocols.a2a import A2aServer
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel
from tests.loopback import within
from tests.peers.clients import HERE, NODE, Json, environment
from tests.peers.schemas import PACKAGES
from tests.programs import ROOT
from tests.waiting import until

REMINDERS: Final = "urn:sideband:a2a:reminders:v1"
RAW: Final = "urn:sideband:a2a:reminders-raw:v1"
EMITTED: Final = "tasks/reminderEmitted"
DEDUPED: Final = "tasks/reminderDeduped"
EXPIRED: Final = "tasks/reminderExpired"
BODY: Final = "The build on main is red."
WORDS: Final = "Fix the build."
PLAN: Final = "I run the tests first."
ANSWER: Final = "The work is done."

# A few seconds on an idle machine. Most of them go into importing packages that are not compiled, and other tests may
# run at the same time.
in_time = within(120)
_SECONDS: Final = 50
_STREAM_LIMIT: Final = 2**24
_ENVIRONMENT: Final = {"PYTHONDONTWRITEBYTECODE": "1", "ADK_SUPPRESS_A2A_EXPERIMENTAL_FEATURE_WARNINGS": "true"}


def _python(name: str) -> str:
    """The interpreter of an environment of `PYTHON_PEERS` in the Makefile."""
    return str(ROOT / "build" / name / "bin" / "python")


# How each peer is started; arguments follow.
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "python": [sys.executable, str(HERE / "a2a_sdk.py")],
    "python-0.3": [_python("a2a-strands"), str(HERE / "a2a_sdk_0_3.py")],
    "javascript": [str(NODE), str(HERE / "a2a_javascript.mjs"), str(PACKAGES)],
    "strands": [_python("a2a-strands"), str(HERE / "a2a_strands.py")],
    "adk": [_python("a2a-adk"), str(HERE / "a2a_adk.py")],
    "adk-server": [_python("a2a-adk"), str(HERE / "a2a_adk_server.py")],
    "javascript-server": [str(NODE), str(HERE / "a2a_javascript_server.mjs"), str(PACKAGES)],
}


class Refused(Exception):
    """A server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


async def rpc(url: str, method: str, **params: object) -> Any:  # noqa: ANN401 - any JSON value
    """The result of a JSON-RPC request of A2A 1.0."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx.AsyncClient(timeout=_SECONDS) as http:
        answer = (await http.post(url, json=request, headers={"A2A-Version": "1.0"})).json()
    if "error" in answer:
        raise Refused(answer["error"]["code"], answer["error"]["message"])
    return answer["result"]


async def inject(url: str, task_id: str, **reminder: object) -> Json:
    """Send a reminder to a task of the agent at this address."""
    accepted: Json = await rpc(url, "tasks/inject_reminder", taskId=task_id, reminder=reminder)
    return accepted


def state(told: Mapping[str, Any]) -> str:
    """The state of a task or an update, in the words of A2A 0.3."""
    word: str = told["status"]["state"]
    return word.removeprefix("TASK_STATE_").lower()


class Agent:
    """Our server. Its model calls a tool that lasts until `finish`, and then answers. `paths` are those of all requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        call = ToolCall(id="call_1", name="work", args={})
        self.model = ScriptedModel([Reply(text=PLAN, tool_calls=(call,))], the_end=ANSWER)
        self.paths: list[str] = []
        self._is_working = asyncio.Event()
        self._may_finish = asyncio.Event()

    async def work(self) -> str:
        """Work until the test lets it finish."""
        self._is_working.set()
        await self._may_finish.wait()
        return "The tests pass."

    async def working(self) -> None:
        """Wait until the tool runs."""
        await self._is_working.wait()

    def finish(self) -> None:
        """Let the tool return."""
        self._may_finish.set()


@asynccontextmanager
async def an_agent(folder: Path) -> AsyncIterator[Agent]:
    """Our server on a free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        agent = Agent(f"http://127.0.0.1:{listening.getsockname()[1]}")
        async with (
            open_store(f"sqlite:///{folder / 'store.db'}") as store,
            A2aServer(
                store, model=agent.model, url=agent.url, options={"model": agent.model, "tools": [agent.work]}
            ) as server,
        ):

            async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http":
                    agent.paths.append(scope["path"])
                await server.app(scope, receive, send)

            config = uvicorn.Config(recorded, log_config=None, access_log=False, timeout_graceful_shutdown=5)
            web = uvicorn.Server(config)
            serving = asyncio.ensure_future(web.serve(sockets=[listening]))
            try:
                await until(lambda: web.started or serving.done())
                yield agent
            finally:
                agent.finish()
                web.should_exit = True
                await serving


class Failed(Exception):
    """The SDK of a client reported an error."""


class Stream:
    """The stream of a task, as the SDK of a client hands out its events."""

    def __init__(self, answer: asyncio.Future[Any], changed: asyncio.Condition) -> None:
        self.events: list[Json] = []
        self._answer = answer
        self._changed = changed

    async def until(self, holds: Callable[[], object]) -> None:
        """Return when `holds()` is true. A stream that ends before is an error."""
        async with self._changed:
            await self._changed.wait_for(lambda: holds() or self._answer.done())
        if not holds():
            raise Failed(f"the stream ended: {self._answer.exception()}, after {self.events}")

    async def task_id(self) -> str:
        """Wait for the task, which comes first."""
        await self.until(lambda: self.events)
        return str(self.events[0]["task"]["id"])

    async def end(self) -> Any:  # noqa: ANN401 - any JSON value
        """Wait for the end of the stream; the value is the result that the client reports."""
        return await self._answer

    def states(self) -> list[str]:
        """The states of the task, in order; a repeated one counts once."""
        told = [one.get("task") or one.get("statusUpdate") for one in self.events]
        return [one for one, _ in itertools.groupby(state(update) for update in told if update)]

    def notes(self, *methods: str) -> list[Json]:
        """The notifications with one of these names in the metadata of status updates."""
        updates = [one["statusUpdate"] for one in self.events if "statusUpdate" in one]
        notes = [update["metadata"][REMINDERS] for update in updates if REMINDERS in (update.get("metadata") or {})]
        return [note for note in notes if note["method"] in methods]

    def said(self) -> str:
        """The text of all artifacts."""
        artifacts = [one["artifactUpdate"]["artifact"] for one in self.events if "artifactUpdate" in one]
        return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


class Client:
    """A client in a process of its own that follows the orders of `a2a_orders.py`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        self.console: list[str] = []
        """What the JavaScript SDK logged; the others use standard error."""
        self.errors = asyncio.ensure_future(process.stderr.read())
        self._process = process
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._changed = asyncio.Condition()
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._changed:
                self._changed.notify_all()
                match msgspec.json.decode(line):
                    case {"of": number, "event": event}:
                        self._streams[number].events.append(event)
                    case {"answers": number, "error": error}:
                        self._answers[number].set_exception(Failed(error))
                    case {"answers": number, "result": result}:
                        self._answers[number].set_result(result)
                    case {"console": words}:
                        self.console.append(words)
        ended = Failed(f"the client has ended: {(await self.errors).decode()}")
        async with self._changed:
            self._changed.notify_all()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ended)

    def _order(self, order: Mapping[str, object]) -> int:
        assert self._process.stdin is not None
        number = len(self._answers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(msgspec.json.encode({**order, "as": number}) + b"\n")
        return number

    async def do(self, **order: object) -> Any:  # noqa: ANN401 - any JSON value
        """Give an order; the value is its result."""
        return await self._answers[self._order(order)]

    def stream(self, words: str, *extensions: str) -> Stream:
        """Send a message with these extensions activated, and follow the stream of its task."""
        return self._follow({"stream": words, "extensions": extensions})

    def subscribe(self, task_id: str, *extensions: str) -> Stream:
        """Follow the stream of a task with these extensions activated."""
        return self._follow({"subscribe": task_id, "extensions": extensions})

    def _follow(self, order: Mapping[str, object]) -> Stream:
        number = self._order(order)
        stream = self._streams[number] = Stream(self._answers[number], self._changed)
        return stream


@asynccontextmanager
async def _a_process(
    command: Sequence[str], home: Path, *, stderr: int = asyncio.subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A peer. On leaving, its standard input is closed, and it has to end by itself."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env=environment(home) | _ENVIRONMENT,
        limit=_STREAM_LIMIT,
    )
    assert process.stdin is not None
    try:
        yield process
        process.stdin.close()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process.stdin.close()


@asynccontextmanager
async def a_client(peer: str, *arguments: str, home: Path) -> AsyncIterator[Client]:
    """A client, which must not log anything; the name of the peer is a key of `COMMANDS`."""
    async with _a_process([*COMMANDS[peer], *arguments], home) as process:
        assert process.stdin is not None
        client = Client(process)
        try:
            yield client
            process.stdin.close()
            await client.reading
            logged = [*client.console, (await client.errors).decode()]
            assert logged == [""], logged
        finally:
            for reading in (client.reading, client.errors):
                reading.cancel()
            await asyncio.wait([client.reading, client.errors])


@asynccontextmanager
async def a_command(*, home: Path) -> AsyncIterator[str]:
    """The address of `sideband a2a`, which has to end in good order."""
    command = (sys.executable, "-m", "sideband.cli", "a2a", "--port", "0", "--model", f"scripted:{ANSWER}")
    server = await asyncio.create_subprocess_exec(
        *(*command, "--store", f"sqlite:///{home / 'store.db'}"),
        stdout=asyncio.subprocess.PIPE,
        env=environment(home),
    )
    try:
        assert server.stdout is not None
        yield (await server.stdout.readline()).decode().split()[-1]
        server.terminate()
        assert await server.wait() == 0
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


@asynccontextmanager
async def a_foreign_server(peer: str, *, home: Path) -> AsyncIterator[str]:
    """The address of a server that is not ours; the name of the peer is a key of `COMMANDS`."""
    async with _a_process(COMMANDS[peer], home, stderr=asyncio.subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()

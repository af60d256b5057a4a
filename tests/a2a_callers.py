"""An A2A server on a socket of this machine, and callers that send it raw requests."""

import asyncio
import itertools
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx

from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.models.scripted import Line
from sideband.ports import Journal, Model
from sideband.protocols.a2a.auth import KnownPeer, read_peers
from sideband.protocols.a2a.reminders import URI
from sideband.protocols.a2a.server import A2aServer
from sideband.protocols.http import serve_app
from sideband.runtime.store import Store, open_store
from sideband.testing import ScriptedModel
from tests.acp_editor import SECONDS, on_pipes

# Runs an asynchronous test with a limit of time.
on_sockets = on_pipes

COORDINATOR: Final = "coordinator-token-1"
REVIEWER: Final = "reviewer-token-22"
DASHBOARD: Final = "dashboard-token-333"
_IDS: Final = itertools.count(1)


def some_peers(**coordinator: object) -> Sequence[KnownPeer]:
    """Two peers and a program of the operator; `coordinator` has further settings of the first."""
    return read_peers(
        {
            "peers": {
                "coordinator": {"token": COORDINATOR, **coordinator},
                "reviewer": {"token": REVIEWER},
                "dashboard": {"token": DASHBOARD, "trust": "controller"},
            }
        }
    )


class Refused(AssertionError):
    """A request that the test expects to succeed was refused."""


def message(text: str = "Rebase the branch.", **fields: object) -> dict[str, Any]:
    """The parameters of a request that sends a text."""
    given = fields.pop("configuration", None)
    metadata = fields.pop("metadata", None)
    said = {"messageId": f"m-{next(_IDS)}", "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    params: dict[str, Any] = {"message": said}
    if given is not None:
        params["configuration"] = given
    if metadata is not None:
        params["metadata"] = metadata
    return params


class A2aCaller:
    """Sends requests of one principal, over JSON-RPC unless they name a path."""

    def __init__(self, client: httpx.AsyncClient, token: str | None = None) -> None:
        self.client = client
        self.headers: dict[str, str] = {"A2A-Version": "1.0"}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    async def answer(self, method: str, params: object, **headers: str) -> dict[str, Any]:
        """The whole answer to a request."""
        response = await self.raw(
            json.dumps({"jsonrpc": "2.0", "id": "r", "method": method, "params": params}), **headers
        )
        answer: dict[str, Any] = response.json()
        return answer

    async def raw(self, body: str | bytes, path: str = "/", method: str = "POST", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"Content-Type": "application/json", **self.headers, **named}
        return await self.client.request(method, path, content=body, headers=given)

    async def call(self, method: str, params: object, **headers: str) -> Any:  # noqa: ANN401 - the result of any method
        answer = await self.answer(method, params, **headers)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    async def refusal(self, method: str, params: object, **headers: str) -> dict[str, Any]:
        error: dict[str, Any] = (await self.answer(method, params, **headers))["error"]
        return error

    async def begin(self, text: str = "Rebase the branch.", **fields: object) -> dict[str, Any]:
        """Begin a task and return it as it was then."""
        params = message(text, configuration={"returnImmediately": True}, **fields)
        task: dict[str, Any] = (await self.call("SendMessage", params))["task"]
        return task

    async def task(self, task_id: str) -> dict[str, Any]:
        task: dict[str, Any] = await self.call("GetTask", {"id": task_id})
        return task

    async def remind(self, task_id: str, body: str = "The build is red.", **reminder: object) -> dict[str, Any]:
        params = {"taskId": task_id, "reminder": {"body": body, **reminder}}
        result: dict[str, Any] = await self.call("tasks/inject_reminder", params)
        return result

    @asynccontextmanager
    async def stream(
        self, method: str, params: object, *, extensions: Sequence[str] = (URI,), **headers: str
    ) -> AsyncIterator["Frames"]:
        """The frames of a streaming request, as they arrive."""
        given = {**self.headers, **headers}
        if extensions:
            given["A2A-Extensions"] = ",".join(extensions)
        body = {"jsonrpc": "2.0", "id": "s", "method": method, "params": params}
        async with self.client.stream("POST", "/", json=body, headers=given) as response:
            yield Frames(response)

    async def until_ended(self, task_id: str) -> dict[str, Any]:
        """The task after its end."""
        async with self.stream("SubscribeToTask", {"id": task_id}) as frames:
            await frames.rest()
        return await self.task(task_id)


class Frames:
    """The frames of a stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.headers = response.headers
        self.seen: list[dict[str, Any]] = []
        self._lines = response.aiter_lines()

    async def next(self) -> dict[str, Any] | None:
        """The next frame; None at the end of the stream."""
        async for line in self._lines:
            if line.startswith("data:"):
                frame: dict[str, Any] = json.loads(line.removeprefix("data:"))
                self.seen.append(frame)
                return frame
        return None

    async def rest(self) -> list[dict[str, Any]]:
        """All frames until the end of the stream."""
        found = []
        while (frame := await self.next()) is not None:
            found.append(frame)
        return found

    async def until(self, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next frame for which this holds."""
        while (frame := await self.next()) is not None:
            if holds(frame):
                return frame
        raise AssertionError(f"the stream ended before: {self.seen}")

    async def told(self) -> dict[str, Any]:
        """The next notification about a reminder."""
        return notified(await self.until(notified)) or {}


def notified(frame: Mapping[str, Any]) -> dict[str, Any] | None:
    """The notification in the metadata of a frame; None if it has none."""
    update = frame.get("result", {}).get("statusUpdate", {})
    told: dict[str, Any] | None = update.get("metadata", {}).get(URI)
    return told


def state_in(frame: Mapping[str, Any]) -> str | None:
    """The state that a frame tells of; None if it is not about a state, or carries a notification."""
    result = frame.get("result", {})
    status = result.get("statusUpdate", {}) if notified(frame) is None else {}
    state: str | None = status.get("status", result.get("task", {}).get("status", {})).get("state")
    return state


def shape(frame: Mapping[str, Any]) -> str:
    """What a frame is, in a word or two."""
    told, state = notified(frame), state_in(frame)
    if told is not None:
        return f"{told['method'].rpartition('/')[2]} {told.get('phase', '')}".strip()
    if "method" in frame:
        return f"raw {frame['method'].rpartition('/')[2]}"
    if "artifactUpdate" in frame.get("result", {}):
        return "artifact"
    return (state or "?").removeprefix("TASK_STATE_").lower()


class ServedTasks:
    """A running server: its address, its store, its model, and callers of it."""

    def __init__(self, url: str, store: Store, model: Model, server: A2aServer) -> None:
        self.url = url
        self.server = server
        self.store = store
        self.model = model
        self.client = httpx.AsyncClient(base_url=url, timeout=SECONDS)

    def caller(self, token: str | None = None) -> A2aCaller:
        return A2aCaller(self.client, token)

    @property
    def requests(self) -> list[Any]:
        """The requests to the scripted model."""
        assert isinstance(self.model, ScriptedModel)
        return self.model.requests


@asynccontextmanager
async def served(
    script: Sequence[Line] | Model = (),
    *,
    store: Store | None = None,
    journal: Journal | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **options: Any,  # noqa: ANN401 - those of A2aServer
) -> AsyncIterator[ServedTasks]:
    """A server on a free port whose model follows this script."""
    if store is None:
        store = Store(journal, limits=limits) if journal is not None else open_store("memory:", limits=limits)
    model: Any = ScriptedModel(script) if isinstance(script, Sequence) else script
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        stopping = asyncio.Event()
        async with store, A2aServer(store, model=model, url=url, **options) as server:
            serving = asyncio.create_task(serve_app(server.app, listening, stopping=stopping))
            tasks = ServedTasks(url, store, model, server)
            try:
                async with tasks.client:
                    yield tasks
            finally:
                stopping.set()
                await serving


class Door:
    """A tool that waits until it is opened, so that its task is running meanwhile."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def wait_at_the_door(self) -> str:
        """Wait until the door is opened."""
        self.entered.set()
        await self.open.wait()
        return "the door is open"


async def in_time(waiting: Awaitable[Any]) -> Any:  # noqa: ANN401 - any value
    """Await something that has to happen soon."""
    return await asyncio.wait_for(waiting, SECONDS)

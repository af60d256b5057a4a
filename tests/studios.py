"""A studio on a socket of this machine, and visitors that use its HTTP API."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import httpx

from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.models.scripted import Line
from sideband.ports import Journal, Model
from sideband.protocols.http import serve_app
from sideband.runtime.options import AgentOptions
from sideband.runtime.session import Session
from sideband.runtime.store import Store, open_store
from sideband.studio.app import Studio
from sideband.testing import ScriptedModel
from tests.acp_editor import SECONDS, on_pipes

# Runs an asynchronous test with a limit of time.
on_sockets = on_pipes

TOKEN: Final = "token-of-the-operator"  # noqa: S105 - of a server of the tests


class Declined(AssertionError):
    """A request that the test expects to succeed was refused."""


class StreamedEvents:
    """The events of a stream, as they arrive."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.seen: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any] | None:
        """The next event, with `event`, `data` and perhaps `id`; None at the end of the stream."""
        found: dict[str, Any] = {}
        async for line in self._lines:
            if line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif found:
                found["data"] = json.loads(found["data"])
                self.seen.append(found)
                return found
        return None

    async def until(self, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next event for which this holds."""
        while (event := await self.next()) is not None:
            if holds(event):
                return event
        raise AssertionError(f"the stream ended before: {self.seen}")

    async def update(self, kind: str) -> dict[str, Any]:
        """The next update of this kind."""
        found = await self.until(lambda event: event["event"] == "update" and event["data"]["kind"] == kind)
        data: dict[str, Any] = found["data"]
        return data

    @property
    def cursors(self) -> list[int]:
        """The cursors of the updates so far."""
        return [event["data"]["cursor"] for event in self.seen if event["event"] == "update"]


class Visitor:
    """Sends requests with the operator's token, or as a browser that has logged in."""

    def __init__(self, url: str, *, cookie: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"} if cookie is None else {"Cookie": cookie}
        # Many streams may be open at the same time.
        limits = httpx.Limits(max_connections=None)
        self.client = httpx.AsyncClient(base_url=url, headers=headers, timeout=SECONDS, limits=limits)

    async def send(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        if body is None:
            return await self.client.request(method, path, headers=headers)
        return await self.client.request(method, path, json=body, headers=headers)

    async def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any answer
        """The answer to a request that must succeed."""
        response = await self.send(method, path, body)
        if response.is_error:
            raise Declined(f"{response.status_code}: {response.text}")
        return response.json() if response.content else None

    async def get(self, path: str) -> Any:  # noqa: ANN401 - any answer
        return await self.call("GET", path)

    async def post(self, path: str, body: object) -> Any:  # noqa: ANN401 - any answer
        return await self.call("POST", path, body)

    async def refusal(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """The status and the error of a request that must be refused."""
        response = await self.send(method, path, body)
        assert response.is_error, response.text
        return response.status_code, response.json()["error"]

    @asynccontextmanager
    async def stream(
        self,
        session: str | None = None,
        *,
        after: int = 0,
        path: str = "/api/stream",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> AsyncIterator[StreamedEvents]:
        params = {"after": str(after)} | ({} if session is None else {"session": session})
        async with self.client.stream("GET", path, params=params, headers={**headers}) as response:
            assert response.status_code == 200, response.status_code
            yield StreamedEvents(response)


class ServedStudio:
    """A running studio: its address, its store and its model."""

    def __init__(self, url: str, store: Store, model: Any, studio: Studio) -> None:  # noqa: ANN401 - a model or None
        self.url = url
        self.store = store
        self.model = model
        self.studio = studio
        self.visitor = Visitor(url)
        self.stopping = asyncio.Event()

    async def begin(self, **records: object) -> Session:
        """A session that nobody runs."""
        return await self.store.begin(attributes=records)

    @property
    def requests(self) -> list[Any]:
        """The requests to the scripted model."""
        assert isinstance(self.model, ScriptedModel)
        return self.model.requests


@asynccontextmanager
async def a_studio(
    script: Sequence[Line] | Model | None = (),
    *,
    store: Store | None = None,
    store_url: str = "memory:",
    journal: Journal | None = None,
    limits: Limits = DEFAULT_LIMITS,
    options: Any = None,  # noqa: ANN401 - options of the runs, without the model
    **settings: Any,  # noqa: ANN401 - those of Studio
) -> AsyncIterator[ServedStudio]:
    """A studio on a free port whose sessions follow this script; None is a studio without a model."""
    if store is None:
        store = Store(journal, limits=limits) if journal is not None else open_store(store_url, limits=limits)
    model: Any = ScriptedModel(script) if isinstance(script, Sequence) else script

    async def options_of(_session: Session) -> AgentOptions | None:
        if model is None:
            return None
        given: AgentOptions = {"model": model}
        return {**given, **options} if options is not None else given

    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        given = {"workspace": "/", "model": None if model is None else "scripted:", **settings}
        studio = Studio(
            store,
            store_url=store_url,
            url=f"http://{host}",
            token=TOKEN,
            options_of=options_of,
            allowed_hosts=(host,),
            **given,
        )
        async with store, studio:
            served = ServedStudio(f"http://{host}", store, model, studio)
            serving = asyncio.create_task(serve_app(studio.app, listening, stopping=served.stopping, stop=studio.stop))
            try:
                async with served.visitor.client:
                    yield served
            finally:
                served.stopping.set()
                await serving

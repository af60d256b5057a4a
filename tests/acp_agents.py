"""Agents for the tests of the ACP client: from a table over pipes, as a short program, and on the official Python SDK."""

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, ParamSpec

import msgspec

from sideband.protocols.acp.client import AgentClient, connect
from sideband.protocols.jsonrpc import METHOD_NOT_FOUND, RpcError
from tests.piped import FarEnd, piped
from tests.programs import ROOT

# Every test ends after this time, which is far longer than any of them takes.
SECONDS: Final = 60.0
SDK_AGENT: Final = (sys.executable, str(ROOT / "tests" / "sdk_agent.py"))

_Given = ParamSpec("_Given")


def in_time(test: Callable[_Given, Coroutine[Any, Any, None]]) -> Callable[_Given, None]:
    """Run an asynchronous test in an event loop of its own, with a limit of time."""

    @functools.wraps(test)
    def run(*args: _Given.args, **kwargs: _Given.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), SECONDS))

    return run


class TableAgent:
    """Answers each request from a table: a result, an `RpcError`, or a function of the parameters that gives one.

    `frames` has every frame of the client. A method that is not in the table is unknown.
    """

    def __init__(self, far: FarEnd, answers: Mapping[str, Any]) -> None:
        self.frames: list[dict[str, Any]] = []
        self.answers = dict(answers)
        self._far = far
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def sent(self, method: str) -> list[dict[str, Any]]:
        """The parameters of each call of this method."""
        return [frame["params"] for frame in self.frames if frame.get("method") == method]

    def methods(self) -> list[str]:
        """The methods that were called after `initialize`, in their order."""
        return [frame["method"] for frame in self.frames if "method" in frame][1:]

    def update(self, session_id: str, **update: object) -> None:
        """Send an update."""
        self._far.call("session/update", {"sessionId": session_id, "update": update})

    async def ask(self, method: str, params: object) -> dict[str, Any]:
        """Send a request to the client, and return its whole answer."""
        request_id = f"ask-{len(self._asked)}"
        self._asked[request_id] = asyncio.get_running_loop().create_future()
        self._far.call(method, params, request_id=request_id)
        return await self._asked[request_id]

    async def serve(self) -> None:
        while line := await self._far.reader.readline():
            frame = msgspec.json.decode(line)
            self.frames.append(frame)
            if "method" not in frame:
                self._asked[frame["id"]].set_result(frame)
            elif "id" in frame:
                task = asyncio.create_task(self._answer(frame))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, frame: dict[str, Any]) -> None:
        answer = self.answers.get(frame["method"], RpcError(METHOD_NOT_FOUND, "Method not found"))
        if callable(answer):
            answer = answer(frame["params"])
        if asyncio.iscoroutine(answer):
            answer = await answer
        told: dict[str, object] = {"jsonrpc": "2.0", "id": frame["id"]}
        if isinstance(answer, RpcError):
            error = {"code": answer.code, "message": answer.message}
            told["error"] = error if answer.data is None else error | {"data": answer.data}
        else:
            told["result"] = answer
        self._far.send(told)


@asynccontextmanager
async def a_connection(
    capabilities: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    *,
    meta: Mapping[str, Any] | None = None,
    offers: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401 - the other ones of `connect`
) -> AsyncIterator[tuple[AgentClient, TableAgent]]:
    """A client that is connected to an agent with these capabilities and answers, and the agent.

    `offers` are the requests that the client answers.
    """
    initialized = {"protocolVersion": 1, "agentCapabilities": dict(capabilities or {}), "_meta": dict(meta or {})}
    async with piped() as (transport, far):
        agent = TableAgent(far, {"initialize": initialized, **(answers or {})})
        serving = asyncio.create_task(agent.serve())
        try:
            async with connect(transport, answers=offers, **options) as client:
                yield client, agent
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


# An agent as a short program. `serve` calls `answer` with each request after `initialize`; `send` writes a frame.
PRELUDE: Final = """
import json, os, sys, time
INITIALIZED = {"protocolVersion": 1}
def send(**frame): print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)
def serve(answer):
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["method"] == "initialize": send(id=frame["id"], result=INITIALIZED)
        elif "id" in frame: answer(frame)
"""
ECHO: Final = "serve(lambda frame: send(id=frame['id'], result=frame['params']))"
TABLE: Final = """
def answer(frame):
    told = ANSWERS.get(frame["method"], {"error": {"code": -32601, "message": "Method not found"}})
    send(id=frame["id"], **told)
serve(answer)
"""


def an_agent(program: str = ECHO, before: str = "") -> list[str]:
    """The command of an agent that runs `before`, then `program`."""
    return [sys.executable, "-c", f"{PRELUDE}\n{before}\n{program}"]


def a_table_agent(initialized: Mapping[str, Any], answers: Mapping[str, Any]) -> list[str]:
    """The command of an agent with this reply to `initialize`; `answers` has a `result` or an `error` for each method."""
    return an_agent(TABLE, f"INITIALIZED |= {dict(initialized)!r}; ANSWERS = {dict(answers)!r}")

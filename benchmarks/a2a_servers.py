"""The processes that the A2A benchmark talks to over sockets: `python -m benchmarks.a2a_servers ROLE ARGUMENTS`.

Each prints its port when it answers, and ends when its standard input does. All run on the same web server with the same
settings.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

from benchmarks.acp_servers import ROOMY
from sideband.protocols.http import serve_app

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from sideband.runtime.options import AgentOptions

App = AbstractAsyncContextManager["ASGIApp"]

REPLY: Final = "I wait for the build."
_RESULT: Final = {
    "reminderId": "01981f6b-7d51-7c1d-bb02-0a1b2c3d4e5f",
    "dedupedCount": 1,
    "acceptedAt": "2026-01-01T00:00:00.000Z",
}


# What a role needs is imported in it, so that the other roles do not load it.


@asynccontextmanager
async def floor(_url: str) -> AsyncIterator["ASGIApp"]:
    """A route of Starlette that reads a request and answers with a fixed result: the least that a server on it does."""
    from starlette.applications import Starlette  # noqa: PLC0415 - see above
    from starlette.responses import JSONResponse  # noqa: PLC0415 - see above
    from starlette.routing import Route  # noqa: PLC0415 - see above

    async def endpoint(request: "Request") -> "Response":
        asked = await request.json()
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": _RESULT})

    yield Starlette(routes=[Route("/", endpoint, methods=["POST"])])


@asynccontextmanager
async def agent(url: str, store_url: str) -> AsyncIterator["ASGIApp"]:
    """Our server, without limits; its agent calls a tool that never returns."""
    from sideband.core.messages import Reply, ToolCall  # noqa: PLC0415 - see above
    from sideband.models.scripted import ScriptedModel  # noqa: PLC0415 - see above
    from sideband.protocols.a2a import A2aServer  # noqa: PLC0415 - see above
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above

    async def wait_for_build() -> str:
        """Wait until the build has ended."""
        await asyncio.Event().wait()
        return "The build has ended."

    model = ScriptedModel([Reply(text=REPLY, tool_calls=(ToolCall(id="c1", name="wait_for_build"),))])
    options: AgentOptions = {"model": model, "tools": [wait_for_build], "tool_seconds": 3_600.0}
    async with (
        open_store(store_url, limits=ROOMY) as store,
        A2aServer(store, model=model, url=url, options=options) as served,
    ):
        yield served.app


@asynccontextmanager
async def sdk(url: str) -> AsyncIterator["ASGIApp"]:
    """The server of the official SDK as it is, with an agent that completes every task at once."""
    from a2a.server.agent_execution import AgentExecutor, RequestContext  # noqa: PLC0415 - see above
    from a2a.server.events import EventQueue  # noqa: PLC0415 - see above
    from a2a.server.request_handlers import DefaultRequestHandler  # noqa: PLC0415 - see above
    from a2a.server.routes import create_jsonrpc_routes  # noqa: PLC0415 - see above
    from a2a.server.tasks import InMemoryTaskStore  # noqa: PLC0415 - see above
    from a2a.types import (  # noqa: PLC0415 - see above
        AgentCapabilities,
        AgentCard,
        AgentInterface,
        AgentSkill,
        Task,
        TaskState,
        TaskStatus,
    )
    from starlette.applications import Starlette  # noqa: PLC0415 - see above

    class Completing(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            # One event, which is the least that ends a task.
            status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
            await event_queue.enqueue_event(Task(id=context.task_id, context_id=context.context_id, status=status))

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise NotImplementedError

    card = AgentCard(
        name="benchmark",
        description="Completes every task at once.",
        version="1",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="completes", name="completes", description="Completes every task.", tags=["none"])],
    )
    handler = DefaultRequestHandler(Completing(), InMemoryTaskStore(), card)
    yield Starlette(routes=create_jsonrpc_routes(handler, "/"))


ROLES: Final[dict[str, Callable[..., App]]] = {"floor": floor, "agent": agent, "sdk": sdk}


async def main(role: str, *arguments: str) -> None:
    stopping = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        async with ROLES[role](f"http://127.0.0.1:{port}", *arguments) as app:
            serving = asyncio.create_task(serve_app(app, listening, stopping=stopping))
            # Connections wait in the queue of the socket until the application answers.
            print(port, flush=True)
            await asyncio.to_thread(sys.stdin.buffer.read)
            stopping.set()
            await serving


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

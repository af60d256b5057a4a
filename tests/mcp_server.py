"""The server of the MCP tests: its tools emit reminders inside a call, or later from a task of the server.

Run it as `python tests/mcp_server.py stdio`, or with `stateful` or `stateless` over HTTP; then it prints its port. `plain`
in front of that makes it a low-level server without a listen handler, and JSON after it gives options of `Reminders`.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

from sideband.protocols.mcp.server import Reminders


class Later:
    """Emits in a task of its own, which works for no request."""

    def __init__(self, reminders: Reminders) -> None:
        self.reminders = reminders
        self.queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    @asynccontextmanager
    async def lifespan(self, _server: object) -> AsyncIterator[dict[str, Any]]:
        task = asyncio.ensure_future(self._emit())
        try:
            yield {}
        finally:
            task.cancel()

    async def _emit(self) -> None:
        while True:
            await self.reminders.emit(**await self.queue.get())


def a_server(reminders: Reminders) -> MCPServer[Any]:
    """A server of the high-level kind."""
    later = Later(reminders)
    server: MCPServer[Any] = MCPServer(
        "emitter", extensions=[reminders], middleware=[reminders], lifespan=later.lifespan, log_level="WARNING"
    )

    @server.tool()
    async def emit(reminder: dict[str, Any], count: int = 1) -> str:
        """Emit inside this call."""
        for number in range(count):
            body = reminder["body"] if count == 1 else f"{reminder['body']} {number}"
            await reminders.emit(**{**reminder, "body": body})
        return "emitted"

    @server.tool()
    async def emit_later(reminder: dict[str, Any]) -> str:
        """Emit in a task that works for no request."""
        later.queue.put_nowait(reminder)
        return "soon"

    @server.tool()
    async def tell_tools_changed(ctx: Context) -> str:
        """Publish a change of a core kind."""
        await ctx.notify_tools_changed()
        return "told"

    return server


def a_plain_server(reminders: Reminders) -> Server[Any]:
    """A low-level server: the middleware alone is mounted, and it has no listen handler."""
    later = Later(reminders)

    async def list_tools(_ctx: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[Tool(name=name, input_schema={"type": "object"}) for name in ("emit", "emit_later")]
        )

    async def call_tool(_ctx: object, params: CallToolRequestParams) -> CallToolResult:
        reminder = (params.arguments or {})["reminder"]
        if params.name == "emit":
            await reminders.emit(**reminder)
        else:
            later.queue.put_nowait(reminder)
        return CallToolResult(content=[TextContent(text="done")])

    server: Server[Any] = Server("plain", on_list_tools=list_tools, on_call_tool=call_tool, lifespan=later.lifespan)
    server.middleware.append(reminders)
    return server


async def _serve(kind: str, *, is_plain: bool, options: dict[str, Any]) -> None:
    reminders = Reminders(**options)
    server = a_plain_server(reminders) if is_plain else a_server(reminders)
    if kind == "stdio":
        if isinstance(server, MCPServer):
            await server.run_stdio_async()
        else:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        return
    app = server.streamable_http_app(stateless_http=kind == "stateless")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)  # noqa: T201 - for the test that started it
        await uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)).serve([listening])


if __name__ == "__main__":
    words = sys.argv[1:]
    plain = words[0] == "plain"
    if plain:
        words.pop(0)
    asyncio.run(_serve(words[0], is_plain=plain, options=json.loads(words[1]) if len(words) > 1 else {}))

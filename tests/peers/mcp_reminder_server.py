"""A server with reminders: `python mcp_reminder_server.py stdio|http|stateless PIPE`.

The tool `emit` sends its argument as a reminder, inside the request. Each line that is written to the named pipe PIPE is
sent outside of any request. Over HTTP the server prints its URL and ends when its standard input does.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer

from sideband.protocols.mcp.server import Reminders

reminders = Reminders()
server: MCPServer[dict[str, object]] = MCPServer(
    "reminding", version="1.0", log_level="ERROR", extensions=[reminders], middleware=[reminders]
)
sent: asyncio.Queue[str] = asyncio.Queue()


@server.tool()
async def emit(body: str) -> str:
    """Send a reminder."""
    return await reminders.emit(body, dedupe_key=body, ttl_turns=2, tags=["test"])


@server.tool()
async def outside() -> str:
    """Wait for the next line of the pipe, which has been sent as a reminder when this returns."""
    return await sent.get()


@server.tool()
async def nothing() -> str:
    """Do nothing."""
    return "Nothing was done."


async def emit_lines(pipe: Path) -> None:
    """Send each line of the pipe as a reminder."""
    # Open for reading and writing, so that the pipe does not end when a writer closes it.
    file = os.fdopen(os.open(pipe, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), file)
    async for line in lines:
        body = line.decode().strip()
        await reminders.emit(body, ttl_turns=2, tags=["test"])
        sent.put_nowait(body)


async def serve_http(*, stateless: bool) -> None:
    app = server.streamable_http_app(stateless_http=stateless)
    listener = socket.create_server(("127.0.0.1", 0))
    program = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
    serving = asyncio.create_task(program.serve(sockets=[listener]))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    program.should_exit = True
    await serving


async def main(kind: str, pipe: str) -> None:
    emitting = asyncio.create_task(emit_lines(Path(pipe)))
    serving: Awaitable[None] = (
        server.run_stdio_async() if kind == "stdio" else serve_http(stateless=kind == "stateless")
    )
    await serving
    emitting.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    # Connections that a client has left open must not delay the end.
    os._exit(0)

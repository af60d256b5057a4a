"""The server of the MCP tests over HTTP at a port of the caller's choice, of both revisions or of 2025-11-25 alone.

Run it as `python tests/mcp_http_server.py PORT (modern|stateful|stateless)`; it prints the port when it listens. Apart from
`modern` it does not know `server/discover`, as servers of revision 2025-11-25 do not.
"""

import asyncio
import json
import socket
import sys

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sideband.protocols.mcp.server import Reminders
from tests.mcp_server import a_server


class WithoutDiscover:
    """Answers `server/discover` as a server does that does not know it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        request = json.loads(body)
        if request.get("method") == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": answer})
            return
        was_read = False

        async def replayed() -> Message:
            nonlocal was_read
            if was_read:
                return await receive()
            was_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replayed, send)


async def _serve(port: int, kind: str) -> None:
    app: ASGIApp = a_server(Reminders()).streamable_http_app(stateless_http=kind == "stateless")
    if kind != "modern":
        app = WithoutDiscover(app)
    with socket.create_server(("127.0.0.1", port)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)).serve([listening])


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2]))

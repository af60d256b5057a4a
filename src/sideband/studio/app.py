"""The studio as an ASGI application: the page, the HTTP API and its event streams."""

import gzip
import hashlib
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from sideband.protocols.http import HttpRefusal, RequestChecks
from sideband.protocols.servers import SessionServers
from sideband.runtime.store import Store
from sideband.studio.api import Api, Rehearsals, login_url
from sideband.studio.auth import Gate
from sideband.studio.openapi import openapi
from sideband.studio.operations import refused
from sideband.studio.routes import OPERATIONS, routes
from sideband.studio.runs import OptionsOf, ReplyTexts, StudioRuns
from sideband.studio.stream import Streams

STATIC: Final = Path(__file__).parent / "static"
MAX_STREAMS: Final = 10_000

# The page runs only its own scripts, and talks only to its own server. Scripts that make markup from text are refused.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types lit-html"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Studio:
    """Shows the sessions of a store to a person, and lets that person act on them; `app` is the application.

    Enter it with `async with`: from then on it runs what its users ask for. `url` is the address of the server, for the
    links that log a browser in. `token` is the operator's. `options_of` says how a session is run. `texts` holds the
    replies that other parts of this process write, such as a rehearsal. `servers` connects the sessions that are run here
    to MCP servers. At most `max_streams` event streams are open at a time.
    """

    def __init__(
        self,
        store: Store,
        *,
        store_url: str,
        url: str,
        token: str,
        options_of: OptionsOf,
        allowed_hosts: Collection[str],
        workspace: str = "",
        model: str | None = None,
        texts: ReplyTexts | None = None,
        servers: SessionServers | None = None,
        rehearsals: Rehearsals | None = None,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        texts = texts or ReplyTexts()
        origins = [f"http://{host}" for host in allowed_hosts]
        port = urlsplit(url).port or 0
        self.gate = Gate(token, port=port, now=time.time)
        self._url = url
        self._streams = Streams(store, texts, most=max_streams)
        self._runs = StudioRuns(store, options_of, texts, servers=servers)
        api = Api(
            store,
            store_url=store_url,
            runs=self._runs,
            streams=self._streams,
            gate=self.gate,
            url=url,
            workspace=workspace,
            model=model,
            rehearsals=rehearsals,
        )
        described = msgspec.json.encode(openapi(OPERATIONS))
        self.app: ASGIApp = _CheckedApp(
            Router(
                [
                    *routes(api),
                    Route("/openapi.json", _StaticFile(described, "application/json")),
                    *_static_routes(),
                ],
                default=_not_found,
                redirect_slashes=False,
            ),
            RequestChecks(allowed_hosts, origins),
        )

    async def __aenter__(self) -> Self:
        self._runs.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._streams.close()
        await self._runs.close()

    def stop(self) -> None:
        """End the event streams; for the end of the web server, which waits for them."""
        self._streams.stop()

    def login_url(self) -> str:
        """An address that logs a browser in, once."""
        return login_url(self._url, self.gate)


# What everybody may read.

_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def _static_routes() -> list[Route]:
    """The files of the page, read once. Only these exact paths are served, so no path can leave the folder."""
    files = [path for path in sorted(STATIC.rglob("*")) if path.suffix in _MEDIA_TYPES]
    found = {f"/static/{path.relative_to(STATIC).as_posix()}": path for path in files} | {"/": STATIC / "index.html"}
    return [Route(at, _StaticFile(path.read_bytes(), _MEDIA_TYPES[path.suffix])) for at, path in found.items()]


class _StaticFile:
    """Answers with these bytes, or with 304 if the client has them already."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content = content
        self._media_type = media_type
        # Without a time in it, so that all servers have the same bytes.
        self._packed = gzip.compress(content, mtime=0)
        self._tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope["method"], Headers(scope=scope))(scope, receive, send)

    def _answer(self, method: str, headers: Headers) -> Response:
        if method not in ("GET", "HEAD"):
            return refused(HttpRefusal(405, "This address takes GET.", "method_not_allowed"), {"Allow": "GET"})
        # Checked each time, so that the parts of a page are of one version.
        given = {"ETag": self._tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=given)
        if "gzip" not in headers.get("accept-encoding", ""):
            return Response(self._content, headers=given, media_type=self._media_type)
        packed = {**given, "Content-Encoding": "gzip"}
        return Response(self._packed, headers=packed, media_type=self._media_type)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    answer = refused(
        HttpRefusal(404, "There is nothing at this address; /openapi.json lists the addresses.", "not_found")
    )
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(answer)
    else:
        await answer(scope, receive, send)


class _CheckedApp:
    """Checks the host and the origin of each request, and adds the headers that protect the page to each answer."""

    def __init__(self, app: ASGIApp, checks: RequestChecks) -> None:
        self._app = app
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if scope["type"] == "http" and scope["path"].startswith("/api/"):
            # Ids are matched as they are written, and decoded afterwards: they may contain a slash.
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        refusal = self._checks.refusal(Headers(scope=scope))
        if refusal is None or scope["type"] == "websocket":
            await self._app(scope, receive, protected)
        else:
            await refused(refusal)(scope, receive, protected)

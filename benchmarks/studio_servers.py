"""The processes that the studio benchmark talks to over sockets: `python -m benchmarks.studio_servers ROLE ARGUMENTS`.

Each prints its port when it answers, and ends when its standard input does. All run on the same web server with the same
settings. The studio also reads lines: `SESSION NUMBER` fills the session with so many events, and prints how many it has
written.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.acp_servers import ROOMY
from sideband.protocols.http import serve_app

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from sideband.runtime.session import Session
    from sideband.runtime.store import Store

TOKEN: Final = "token-of-the-benchmark"  # noqa: S105 - of a server of the benchmark
BODY: Final = "File changed externally: src/app.py. Re-read it before editing."
FILLED_AT_ONCE: Final = 200
# Fewer than a listening socket of the system may have waiting.
BACKLOG: Final = 512

_RESULT: Final = {
    "reminderId": "01981f6b-7d51-7c1d-bb02-0a1b2c3d4e5f",
    "dedupedCount": 1,
    "acceptedAt": "2026-01-01T00:00:00.000Z",
}


class Served(NamedTuple):
    """An application, how it fills a session with events, and what ends its streams."""

    app: "ASGIApp"
    fill: Callable[[str, int], Awaitable[int]]
    stop: Callable[[], None] = lambda: None


# What a role needs is imported in it, so that the other roles do not load it.


@asynccontextmanager
async def floor(_host: str) -> AsyncIterator[Served]:
    """A route of Starlette that reads a request and answers with a fixed result: the least that a server on it does."""
    from starlette.applications import Starlette  # noqa: PLC0415 - see above
    from starlette.responses import JSONResponse  # noqa: PLC0415 - see above
    from starlette.routing import Route  # noqa: PLC0415 - see above

    async def endpoint(request: "Request") -> "Response":
        await request.json()
        return JSONResponse(_RESULT)

    async def fill(_session_id: str, _events: int) -> int:
        return 0

    yield Served(Starlette(routes=[Route("/api/sessions/{id}/remind", endpoint, methods=["POST"])]), fill)


@asynccontextmanager
async def studio(host: str, store_url: str) -> AsyncIterator[Served]:
    """The studio, without limits, on a store that is pruned as by default; no session has a model."""
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above
    from sideband.studio.app import Studio  # noqa: PLC0415 - see above

    async def no_options(_session: "Session") -> None:
        return None

    async with open_store(store_url, limits=ROOMY) as store:
        shown = Studio(
            store,
            store_url=store_url,
            url=f"http://{host}",
            token=TOKEN,
            options_of=no_options,
            allowed_hosts=(host,),
        )
        async with shown:
            yield Served(shown.app, lambda session_id, events: _fill(store, session_id, events), shown.stop)


async def _fill(store: "Store", session_id: str, wanted: int) -> int:
    """Accept reminders and clear them, until the store has so many events more; return their number."""
    from sideband.core.reminder import Source  # noqa: PLC0415 - see above
    from sideband.core.surfaces import Surface  # noqa: PLC0415 - see above
    from sideband.runtime.producer import Producer  # noqa: PLC0415 - see above
    from sideband.studio.auth import PROGRAM  # noqa: PLC0415 - see above

    session = await store.session(session_id)
    producer = Producer(session, PROGRAM, surface=Surface.HTTP, source=Source.BRIDGE)
    begun = await store.last_sequence()
    while (written := await store.last_sequence() - begun) < wanted:
        # Each has two events.
        together = min(FILLED_AT_ONCE, (wanted - written + 1) // 2)
        await asyncio.gather(*(producer.remind({"body": BODY, "tags": ["filled"]}) for _ in range(together)))
        assert await producer.clear(tag="filled") == together
    return written


ROLES: Final[dict[str, Callable[..., AbstractAsyncContextManager[Served]]]] = {"floor": floor, "studio": studio}


async def main(role: str, *arguments: str) -> None:
    stopping = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listening:
        port = listening.getsockname()[1]
        async with ROLES[role](f"127.0.0.1:{port}", *arguments) as served:
            serving = asyncio.create_task(serve_app(served.app, listening, stopping=stopping, stop=served.stop))
            # Connections take over the options of the socket, so it has them before its port is known.
            await asyncio.sleep(0)
            print(port, flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                session_id, events = line.split()
                print(await served.fill(session_id, int(events)), flush=True)
            stopping.set()
            await serving


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""The host over every transport and revision, against servers on the official SDK in processes of their own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import pytest

from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host import Admission, ServerReport
from sideband.protocols.mcp.host import connection as connections
from tests.mcp_hosts import Desk, a_desk
from tests.programs import ROOT
from tests.waiting import until

STDIO: Final = ROOT / "tests" / "mcp_server.py"
HTTP: Final = "tests.mcp_http_server"


class HttpServer(NamedTuple):
    process: asyncio.subprocess.Process
    port: int

    @property
    def config(self) -> ServerConfig:
        return ServerConfig(name="emitter", url=f"http://127.0.0.1:{self.port}/mcp")

    async def kill(self) -> None:
        if self.process.returncode is None:
            os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()


async def start_http(kind: str, port: int = 0) -> HttpServer:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", HTTP, str(port), kind, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    return HttpServer(process, int(await process.stdout.readline()))


@asynccontextmanager
async def a_server_over(route: str) -> AsyncIterator[ServerConfig]:
    if route == "stdio":
        yield ServerConfig(name="emitter", command=(sys.executable, str(STDIO), "stdio"), env={"PYTHONPATH": str(ROOT)})
        return
    server = await start_http(route)
    try:
        yield server.config
    finally:
        await server.kill()


ROUTES: Final = [
    pytest.param("stdio", "2026-07-28", id="stdio-2026"),
    pytest.param("modern", "2026-07-28", id="http-2026"),
    pytest.param("stateful", "2025-11-25", id="http-2025"),
    pytest.param("stateless", "2025-11-25", id="http-2025-stateless"),
]


async def ready(desk: Desk, version: str) -> None:
    """Wait until the server can reach the host."""
    connected = next(one for one in desk.reports if isinstance(one, ServerReport) and one.state == "connected")
    assert connected.protocol_version == version
    assert connected.emits
    if version == "2026-07-28":
        await until(lambda: "listening" in desk.states())


@pytest.mark.requirement("mcp:host:transports")
@pytest.mark.parametrize(("route", "version"), ROUTES)
def test_reminders_arrive_once_on_every_transport_and_revision(route: str, version: str) -> None:
    async def story() -> None:
        async with a_server_over(route) as server, a_desk(server) as desk:
            await ready(desk, version)
            for number, tool in enumerate(("emit", "emit_later", "emit")):
                # Until 2025-11-25 the stream on which a server sends by itself is opened some time after the connection.
                body = f"Fact {number}."
                while not any(one.body == body for one in desk.told(Admission.ACCEPTED)):
                    await desk.call(tool, "emitter", reminder={"body": body, "id": f"f{number}", "dedupe_key": body})
                    await asyncio.sleep(0.05)
            assert [body for _, body in await desk.pending()] == ["Fact 0.", "Fact 1.", "Fact 2."]
            # Of one call, exactly one report, whatever carriages the server has.
            before = len(desk.told(Admission.ACCEPTED))
            await desk.call("emit", "emitter", reminder={"body": "Once.", "id": "once"})
            await desk.accepted(before + 1)
            await desk.call("emit", "emitter", reminder={"body": "Last.", "dedupe_key": "Fact 0."})
            await until(lambda: desk.told(Admission.ACCEPTED)[-1].body == "Last.")
            assert [one.body for one in desk.told(Admission.ACCEPTED)].count("Once.") == 1
            assert desk.told(Admission.DROPPED) == []

    asyncio.run(story())


@pytest.mark.requirement("mcp:host:listens-again")
@pytest.mark.parametrize("route", ["modern", "stateful"])
def test_a_server_that_is_killed_and_comes_back_is_heard_again(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PING_SECONDS", 0.1)

    async def story() -> None:
        server = await start_http(route)
        try:
            async with a_desk(server.config) as desk:
                await ready(desk, "2026-07-28" if route == "modern" else "2025-11-25")
                desk.reports.clear()
                await server.kill()
                failed = await desk.call("emit", "emitter", reminder={"body": "Lost."})
                assert failed.is_error
                server = await start_http(route, server.port)
                awaited = "listening" if route == "modern" else "connected"
                await until(lambda: awaited in desk.states())
                while not desk.told(Admission.ACCEPTED):
                    desk.tools = tuple(await desk.host.attach(desk.session))
                    await desk.call("emit_later", "emitter", reminder={"body": "Back.", "id": "back"})
                    await asyncio.sleep(0.05)
                assert await desk.pending() == [("emitter:back", "Back.")]
        finally:
            await server.kill()

    asyncio.run(story())

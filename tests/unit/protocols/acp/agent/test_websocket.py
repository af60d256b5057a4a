"""The WebSocket transport and its application, on a server that each test plays itself."""

import asyncio
from typing import Any

import pytest
from starlette.websockets import WebSocket

from sideband.protocols.acp.agent import websocket
from sideband.protocols.acp.agent.websocket import WebSocketTransport, websocket_app
from sideband.protocols.frames import CONGESTED_BYTES, ConnectionLost
from tests.acp_editor import an_agent, on_pipes
from tests.waiting import until


class Server:
    """A server with one client; while `takes` is not set, the client does not read."""

    def __init__(self, **scope: Any) -> None:  # noqa: ANN401 - of any kind
        self.scope = {"type": "websocket", "headers": [], "subprotocols": [], "path": "/", "query_string": b"", **scope}
        self.sent: list[Any] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.fault: Exception | None = None
        self._arriving: asyncio.Queue[Any] = asyncio.Queue()
        self.arrive({"type": "websocket.connect"})

    def arrive(self, message: dict[str, Any]) -> None:
        self._arriving.put_nowait(message)

    async def receive(self) -> Any:  # noqa: ANN401 - a message of the server
        return await self._arriving.get()

    async def send(self, message: Any) -> None:  # noqa: ANN401 - a message of the application
        await self.takes.wait()
        if self.fault is not None:
            raise self.fault
        self.sent.append(message)

    async def accepted(self) -> WebSocketTransport:
        connection = WebSocket(self.scope, self.receive, self.send)
        await connection.accept()
        self.sent.clear()
        return WebSocketTransport(connection)


@on_pipes
async def test_a_slow_client_is_congested_and_gets_everything_in_order() -> None:
    server = Server()
    transport = await server.accepted()
    server.takes.clear()
    frames = [b"%d" % number + b" " * 100_000 for number in range(20)]
    for frame in frames:
        transport.send(frame)
    draining = asyncio.ensure_future(transport.drain())
    was_congested = transport.is_congested
    assert sum(map(len, frames)) > CONGESTED_BYTES
    assert not draining.done()
    server.takes.set()
    await draining
    assert (was_congested, transport.is_congested) == (True, False)
    await transport.close()
    assert [message["text"].encode() for message in server.sent[:-1]] == frames
    assert server.sent[-1] == {"type": "websocket.close", "code": 1000, "reason": ""}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(OSError("gone"), id="of-the-socket"),
        pytest.param(RuntimeError("after the close"), id="of-the-server"),
    ],
)
@on_pipes
async def test_a_lost_client_is_told_to_the_one_who_waits_for_room(fault: Exception) -> None:
    server = Server()
    transport = await server.accepted()
    server.takes.clear()
    transport.send(b" " * 2 * CONGESTED_BYTES)
    draining = asyncio.ensure_future(transport.drain())
    server.fault = fault
    server.takes.set()
    with pytest.raises(ConnectionLost):
        await draining
    transport.send(b"nothing happens after the end")
    await transport.close()
    assert (server.sent, transport.is_congested) == ([], False)


@on_pipes
async def test_a_disconnect_ends_the_stream_and_drops_what_waits() -> None:
    server = Server()
    transport = await server.accepted()
    server.takes.clear()
    transport.send(b"never sent")
    server.arrive({"type": "websocket.disconnect", "code": 1001})
    assert await transport.receive() == ()
    await transport.close()
    assert server.sent == []


@on_pipes
async def test_a_client_that_reads_nothing_delays_the_end_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0.01)
    server = Server()
    transport = await server.accepted()
    server.takes.clear()
    transport.send(b"never taken")
    await transport.close()
    await until(transport._writing.done)
    assert server.sent == []


@on_pipes
async def test_a_client_that_goes_while_it_is_told_the_end_is_no_fault() -> None:
    server = Server()
    transport = await server.accepted()
    server.fault = OSError("gone")
    await transport.close()
    assert server.sent == []


@on_pipes
async def test_a_server_without_statuses_refuses_with_the_one_that_it_has() -> None:
    server = Server()
    async with an_agent() as agent:
        await websocket_app(agent, token=None)(server.scope, server.receive, server.send)
    assert server.sent == [{"type": "websocket.close", "code": 1000, "reason": ""}]

"""The ACP agent as a WebSocket application, behind a real server on the loopback interface."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from sideband.core.errors import InvalidOption
from sideband.models.scripted import Line
from sideband.protocols.acp.agent.websocket import websocket_app
from sideband.protocols.frames import MAX_FRAME_BYTES
from sideband.render.view import RequestView
from tests.acp_editor import an_agent, on_pipes, result_of
from tests.acp_scenes import Held, calling
from tests.acp_sockets import a_server, over_websocket
from tests.programs import run_python

TOKEN: Final = "a-token-of-this-test"  # noqa: S105 - of this test alone
PAGE: Final = "https://editor.example"
INITIALIZE: Final = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})


@asynccontextmanager
async def a_port(*script: Line, **options: Any) -> AsyncIterator[int]:  # noqa: ANN401 - those of the application
    """The port of a server with an agent."""
    async with an_agent(*script) as agent, a_server(websocket_app(agent, **{"token": None, **options})) as port:
        yield port


# The same agent.


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_connections_share_the_sessions_and_a_disconnect_leaves_the_turn_running() -> None:
    held = Held("Finished alone.")
    async with a_port(held.line, "Next.") as port, over_websocket(port) as other:
        async with over_websocket(port) as editor:
            session = await editor.new()
            await other.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
            editor.prompt(session, "Go on.")
            await held.begun.wait()
        held.release()
        told = await other.update("agent_message_chunk")
        assert (await other.prompted(session))["stopReason"] == "end_turn"
        async with over_websocket(port) as late:
            await late.call("session/load", sessionId=session, cwd="/", mcpServers=[])
            replayed = [update["content"]["text"] for update in late.updates("agent_message_chunk")]
    assert told["content"]["text"] == "Finished alone."
    assert replayed == ["Finished alone.", "Next."]


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_the_application_can_be_mounted_and_the_agent_asks_its_client() -> None:
    async with an_agent(calling("run", command="echo hello"), "Done.") as agent:
        mounting = Starlette(routes=[Mount("/acp", websocket_app(agent, token=None))])
        async with (
            a_server(mounting) as port,
            connect(f"ws://127.0.0.1:{port}/acp/", subprotocols=[Subprotocol("acp")]) as socket,
        ):
            assert socket.subprotocol == "acp"
            await socket.send(INITIALIZE)
            assert json.loads(await socket.recv())["result"]["agentInfo"]["name"] == "sideband"
        async with a_server(websocket_app(agent, token=None)) as port, over_websocket(port) as editor:
            assert (await editor.prompted(await editor.new()))["stopReason"] == "end_turn"
            assert [frame for frame in editor.frames if frame.get("method") == "session/request_permission"]


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_each_message_is_a_frame_of_at_most_eight_mebibytes() -> None:
    async with a_port() as port, connect(f"ws://127.0.0.1:{port}/", max_size=None) as socket:
        answers = []
        for message in (INITIALIZE, "no JSON", " " * MAX_FRAME_BYTES + INITIALIZE, INITIALIZE):
            await socket.send(message)
            answers.append(json.loads(await socket.recv()))
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, -32700, -32600, -32600]
    assert answers[2]["error"]["data"] == {"reason": "frame_too_large", "limit": MAX_FRAME_BYTES}


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_a_binary_message_ends_the_connection() -> None:
    async with a_port() as port, connect(f"ws://127.0.0.1:{port}/") as socket:
        await socket.send(INITIALIZE)
        await socket.send(INITIALIZE.encode())
        assert "result" in json.loads(await socket.recv())
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1003, "only text messages are understood")


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_a_client_that_does_not_read_delays_neither_the_turn_nor_other_clients() -> None:
    text = "x" * 200_000

    async def reply(_view: RequestView) -> str:
        return text

    async with (
        an_agent(*[reply] * 40) as agent,
        a_server(websocket_app(agent, token=None)) as port,
        AsyncExitStack() as stack,
    ):
        editor = await stack.enter_async_context(over_websocket(port))
        session = await editor.new()
        # A buffer of one message: then the client stops reading from the socket.
        slow = await stack.enter_async_context(connect(f"ws://127.0.0.1:{port}/", max_size=None, max_queue=1))
        resume = {"jsonrpc": "2.0", "id": 2, "method": "session/resume", "params": {"sessionId": session, "cwd": "/"}}
        for message in (INITIALIZE, json.dumps(resume)):
            await slow.send(message)
            await slow.recv()
        for _ in range(40):
            await editor.prompted(session)
        # The slow client gets everything when it reads.
        told = 0
        while told < 40 * len(text):
            message = json.loads(await slow.recv())
            update = message["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                told += len(update["content"]["text"])
    assert told == 40 * len(text)


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_a_client_that_is_lost_without_a_word_leaves_the_agent_serving() -> None:
    text = "x" * 2_000_000
    held = Held(text)
    async with a_port(held.line, "Next.") as port, over_websocket(port) as other:
        socket = await connect(f"ws://127.0.0.1:{port}/", max_size=None, max_queue=1)
        session = await other.new()
        resume = {"jsonrpc": "2.0", "id": 2, "method": "session/resume", "params": {"sessionId": session, "cwd": "/"}}
        for message in (INITIALIZE, json.dumps(resume)):
            await socket.send(message)
            await socket.recv()
        turn = other.prompt(session, "Go on.")
        await held.begun.wait()
        held.release()
        await result_of(turn)
        socket.transport.abort()
        await socket.wait_closed()
        assert (await other.prompted(session))["stopReason"] == "end_turn"


# Who may connect.


async def status_of(port: int, **options: Any) -> int:  # noqa: ANN401 - those of `connect`
    """The status of the answer to a handshake."""
    try:
        async with connect(f"ws://127.0.0.1:{port}/", **options):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


@pytest.mark.requirement("acp:websocket:same-agent")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 101),
        ("127.0.0.1:PORT", 101),
        ("LOCALHOST:1", 101),
        ("[::1]:80", 101),
        ("exact.example:81", 101),
        ("exact.example:82", 421),
        ("exact.example", 421),
        ("localhost.", 421),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example/?localhost", 421),
        ("localhost:", 421),
        ("", 421),
    ],
)
@on_pipes
async def test_only_listed_hosts_are_answered_for(host: str, status: int) -> None:
    hosts = ["127.0.0.1", "localhost", "[::1]", "exact.example:81"]
    async with a_port(allowed_hosts=hosts) as port:
        assert await raw_status(port, host.replace("PORT", str(port))) == status


async def raw_status(port: int, *hosts: str) -> int:
    """The status of a handshake with these Host headers, which no client would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        "GET / HTTP/1.1",
        *(f"Host: {host}" for host in hosts),
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1])


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_two_hosts_are_none() -> None:
    async with a_port() as port:
        assert await raw_status(port, "127.0.0.1", "localhost") in (400, 421)


@pytest.mark.requirement("acp:websocket:same-agent")
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 101),
        (PAGE, 101),
        (PAGE.upper(), 101),
        ("http://editor.example", 403),
        (f"{PAGE}.evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1", 403),
    ],
)
@on_pipes
async def test_only_pages_of_listed_origins_connect(origin: str | None, status: int) -> None:
    async with a_port(allowed_origins=[PAGE]) as port:
        assert await status_of(port, origin=origin) == status


@pytest.mark.requirement("acp:websocket:same-agent")
@pytest.mark.parametrize(
    ("options", "status"),
    [
        pytest.param({}, 401, id="no-token"),
        pytest.param({"additional_headers": {"Authorization": f"Bearer {TOKEN}"}}, 101, id="header"),
        pytest.param({"additional_headers": {"Authorization": f"bearer  {TOKEN}"}}, 101, id="scheme-in-any-case"),
        pytest.param({"additional_headers": {"Authorization": f"Basic {TOKEN}"}}, 401, id="another-scheme"),
        pytest.param({"additional_headers": {"Authorization": f"Bearer {TOKEN}x"}}, 401, id="another-token"),
        pytest.param({"additional_headers": {"Authorization": "Bearer "}}, 401, id="an-empty-token"),
        pytest.param({"additional_headers": {"Cookie": f"a=b; sideband_token={TOKEN}"}}, 101, id="cookie"),
        pytest.param({"additional_headers": {"Cookie": f"token={TOKEN}"}}, 401, id="another-cookie"),
        pytest.param({"subprotocols": ["acp", f"sideband.token.{TOKEN}"]}, 101, id="subprotocol"),
        pytest.param({"subprotocols": ["acp", "sideband.token.x"]}, 401, id="another-token-in-a-subprotocol"),
        pytest.param({"origin": "https://evil.example", "subprotocols": [f"sideband.token.{TOKEN}"]}, 403, id="origin"),
    ],
)
@on_pipes
async def test_a_configured_token_is_required(options: dict[str, Any], status: int) -> None:
    async with a_port(token=TOKEN) as port:
        assert await status_of(port, **options) == status


@pytest.mark.requirement("acp:websocket:same-agent")
@on_pipes
async def test_the_token_is_not_repeated_and_a_refusal_names_the_scheme() -> None:
    async with a_port(token=TOKEN) as port:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{port}/")
        offered = [Subprotocol(f"sideband.token.{TOKEN}"), Subprotocol("acp")]
        async with connect(f"ws://127.0.0.1:{port}/", subprotocols=offered) as socket:
            assert socket.subprotocol == "acp"
        answer = await asyncio.to_thread(plain_answer, port)
    assert refused.value.response.headers["WWW-Authenticate"] == "Bearer"
    assert refused.value.response.body == b"A valid token is required.\n"
    assert answer == (426, b"This address serves WebSocket connections.\n")


def plain_answer(port: int) -> tuple[int, bytes]:
    """What a request without an upgrade gets."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.requirement("acp:websocket:same-agent")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"token": ""}, "token"),
        ({"token": "two words"}, "token"),
        ({"allowed_hosts": "localhost"}, "allowed_hosts"),
        ({"allowed_origins": PAGE}, "allowed_origins"),
    ],
)
@on_pipes
async def test_wrong_options_are_refused_without_the_secret(options: dict[str, Any], field: str) -> None:
    async with an_agent() as agent:
        with pytest.raises(InvalidOption, match=rf"{field} must ") as refused:
            websocket_app(agent, **{"token": None, **options})
    assert "two words" not in str(refused.value)


@pytest.mark.requirement("acp:websocket:same-agent")
def test_a_missing_package_is_one_sentence_that_names_the_extra() -> None:
    program = "import sys; sys.modules['starlette'] = None\nimport sideband.protocols.acp.agent.websocket"
    failed = run_python("-c", program)
    *_, last = failed.stderr.splitlines()
    assert last.endswith("needs starlette, which is not installed: pip install 'sideband[serve]'")

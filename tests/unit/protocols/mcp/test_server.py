"""`Reminders` on servers in this process: what `emit` checks, and which clients are reached on which carriage."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import mcp_types
import pytest
from mcp import Client
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from sse_starlette.sse import AppStatus

from sideband.core.errors import BodyTooLarge, InvalidOption, InvalidReminder, ReminderError, UnknownPropagate
from sideband.core.reminder import Propagate, RoleHint
from sideband.protocols.mcp.capabilities import EXTENSION, LISTEN, receive_settings
from sideband.protocols.mcp.messages import ReminderParams, ReminderSpec
from sideband.protocols.mcp.server import Reminders
from sideband.protocols.mcp.server import reminders as module
from sideband.protocols.mcp.server.serve import serve_lines
from tests.acp_agents import in_time
from tests.acp_sockets import a_server as served
from tests.mcp_clients import LEGACY, MODERN
from tests.mcp_server import a_plain_server
from tests.piped import piped
from tests.waiting import until

ERAS: Final = [pytest.param(LEGACY, id="2025"), pytest.param("auto", id="2026")]


@pytest.fixture(autouse=True)
def no_web_server_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget that a web server of this process was ended by a signal, after which all streams of the SDK end at once."""
    monkeypatch.setattr(AppStatus, "should_exit", False)


class Seen(BaseModel):
    """The params of a reminder, as a client sees them."""

    reminder: dict[str, Any]


class Receiver(ClientExtension):
    """Receives reminders; declares that it does unless `name` is None."""

    def __init__(self, name: str | None = "me") -> None:
        self.identifier = EXTENSION if name is not None else "test/undeclared"
        self.bodies: list[str] = []
        self._settings: dict[str, Any] = {} if name is None else receive_settings(name)

    def settings(self) -> dict[str, Any]:
        return self._settings

    def notifications(self) -> list[NotificationBinding[Any]]:
        return [NotificationBinding(method="notifications/reminder", params_type=Seen, handler=self._receive)]

    async def _receive(self, params: Seen) -> None:
        self.bodies.append(params.reminder["body"])


class _Raw(mcp_types.Request[dict[str, Any], str]):
    pass


def a_server(reminders: Reminders) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("here", extensions=[reminders], middleware=[reminders], log_level="CRITICAL")

    @server.tool()
    async def emit(body: str) -> str:
        await reminders.emit(body)
        return "emitted"

    @server.tool()
    async def fail(body: str) -> str:
        await reminders.emit(body)
        raise MCPError(-1, "failed on purpose")

    @server.tool()
    async def emit_after_the_response(body: str) -> str:
        task = asyncio.ensure_future(asyncio.sleep(0.05))
        task.add_done_callback(lambda _: tasks.append(asyncio.ensure_future(reminders.emit(body))))
        return "soon"

    tasks: list[asyncio.Future[str]] = []
    return server


async def round_trip(client: Client) -> None:
    """Send a request; when it is answered, the server has begun with everything that was sent before."""
    with pytest.raises(MCPError):
        await client.session.send_request(_Raw(method="test/unknown", params={}), mcp_types.Result)


@asynccontextmanager
async def a_client(server: MCPServer[Any] | Server[Any], mode: str, receiver: Receiver) -> AsyncIterator[Client]:
    async with Client(server, mode=mode, extensions=[receiver], cache=None) as client:
        await round_trip(client)
        yield client


@asynccontextmanager
async def listening(client: Client, params: Mapping[str, Any] | None = None) -> AsyncIterator[asyncio.Task[Any]]:
    request = _Raw(method=LISTEN, params=dict(params or {}))
    stream = asyncio.ensure_future(client.session.send_request(request, mcp_types.Result))
    try:
        await round_trip(client)
        yield stream
    finally:
        stream.cancel()
        with suppress(asyncio.CancelledError, MCPError):
            await stream


# What `emit` checks.


@pytest.mark.parametrize(
    ("fields", "error", "code", "named"),
    [
        pytest.param({"body": "  "}, InvalidReminder, "HARN-RMD-002", "body", id="blank-body"),
        pytest.param({"body": 7}, InvalidReminder, "HARN-RMD-002", "body", id="body-of-another-type"),
        pytest.param({"ttl_turns": 0}, InvalidReminder, "HARN-RMD-002", "ttlTurns", id="ttl-below-1"),
        pytest.param({"tags": [""]}, InvalidReminder, "HARN-RMD-002", "tags[0]", id="blank-tag"),
        pytest.param({"id": "a b"}, InvalidReminder, "HARN-RMD-002", "id", id="id-with-a-blank"),
        pytest.param({"role_hint": "assistant"}, InvalidReminder, "HARN-RMD-002", "roleHint", id="unknown-hint"),
        pytest.param({"meta": {1: 2, "a": object()}}, InvalidReminder, "HARN-RMD-002", "_meta", id="meta-not-json"),
        pytest.param(
            {"propagate": "everywhere"}, UnknownPropagate, "HARN-RMD-005", "propagate", id="unknown-propagate"
        ),
        pytest.param({"propagate": "all"}, InvalidOption, "HARN-RMD-001", "propagate", id="undeclared-propagate"),
        pytest.param({"role_hint": "user_block"}, InvalidOption, "HARN-RMD-001", "role_hint", id="undeclared-hint"),
        pytest.param({"body": "x" * 8_193}, BodyTooLarge, "SIDEBAND-106", "body", id="body-that-no-session-accepts"),
    ],
)
@in_time
async def test_a_wrong_reminder_raises_the_error_of_a_host_and_sends_nothing(
    fields: dict[str, Any], error: type[ReminderError], code: str, named: str
) -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_server(reminders), LEGACY, receiver) as client:
        with pytest.raises(error) as caught:
            await reminders.emit(**{"body": "fine", **fields})
        assert (caught.value.code, caught.value.field) == (code, named)
        await reminders.emit("fence")
        await until(lambda: receiver.bodies)
        assert receiver.bodies == ["fence"]
        assert client.protocol_version != MODERN


@in_time
async def test_a_declared_value_can_be_emitted() -> None:
    reminders = Reminders(propagate=[Propagate.ALL], role_hints=[RoleHint.USER_BLOCK])
    assert await reminders.emit("fine", propagate="all", role_hint="user_block", id="mine") == "mine"
    assert reminders.settings()["roleHints"] == ["user_block"]


@in_time
async def test_declared_values_can_be_given_as_words() -> None:
    reminders = Reminders(propagate=["all"], role_hints=["user_block"])
    assert await reminders.emit("fine", propagate="all", role_hint="user_block", id="mine") == "mine"
    assert reminders.settings()["propagate"] == ["all"]
    with pytest.raises(InvalidOption, match=r"'session'.*declare it"):
        Reminders(propagate=["all"])._params({"id": "r1", "body": "fine", "propagate": "session"}, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"propagate": ["al"]}, "propagate must be a list of 'all', 'session', 'none'; 'al' is", id="word"),
        pytest.param({"propagate": "all"}, "propagate must be a list of .*, not 'all'", id="one-word"),
        pytest.param({"propagate": [["all"]]}, "propagate must be a list of .* is none of them", id="nested"),
        pytest.param({"role_hints": ["system", "user"]}, "role_hints must be a list of .*; 'user' is", id="hint"),
    ],
)
def test_unknown_words_are_refused_with_the_allowed_ones(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        Reminders(**options)


def test_reminders_can_be_used_again_in_a_second_event_loop() -> None:
    reminders, receiver = Reminders(), Receiver()

    async def serve(body: str) -> None:
        await reminders.emit("before the first message")
        async with a_client(a_server(reminders), LEGACY, receiver):
            await reminders.emit(body)
            await until(lambda: body in receiver.bodies)

    for body in ("first", "second"):
        asyncio.run(serve(body))
    assert receiver.bodies == ["first", "second"]


def test_the_channel_and_only_declared_exclude_each_other() -> None:
    with pytest.raises(InvalidOption, match="exclude each other"):
        Reminders(only_declared=True, channel=True)


@in_time
async def test_emit_in_another_event_loop_says_what_to_do() -> None:
    reminders, receiver = Reminders(), Receiver()
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(reminders.emit("lost"))
        except RuntimeError as error:
            caught.append(error)

    async with a_client(a_server(reminders), LEGACY, receiver):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join)
    assert "another event loop" in str(caught[0])


@in_time
async def test_without_any_client_a_reminder_goes_nowhere_and_is_no_error() -> None:
    assert await Reminders().emit("unheard")


# Mounting.


@pytest.mark.parametrize("mode", ERAS)
@in_time
async def test_the_extension_alone_says_that_the_middleware_is_missing(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    reminders = Reminders()
    server: MCPServer[Any] = MCPServer("half", extensions=[reminders])

    @server.tool()
    async def emit() -> str:
        return await reminders.emit("unheard")

    async with a_client(server, mode, Receiver()) as client:
        with pytest.raises(MCPError):
            await client.call_tool("emit", {})
    assert "middleware=[reminders]" in caplog.text


@pytest.mark.parametrize("mode", ERAS)
@in_time
async def test_the_middleware_alone_is_enough(mode: str) -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_plain_server(reminders), mode, receiver) as client:
        await client.call_tool("emit", {"reminder": {"body": "from the low level"}})
        await until(lambda: receiver.bodies)
        assert (client.server_capabilities.experimental or {})["reminders"]["emit"] is True
    assert receiver.bodies == ["from the low level"]


# Carriages.


@pytest.mark.parametrize("mode", ERAS)
@in_time
async def test_what_a_failing_tool_has_emitted_arrives(mode: str) -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_server(reminders), mode, receiver) as client:
        with suppress(MCPError):
            await client.call_tool("fail", {"body": "before the failure"})
        await until(lambda: receiver.bodies)
    assert receiver.bodies == ["before the failure"]


@in_time
async def test_a_task_of_a_request_that_is_over_does_not_write_on_its_stream() -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_server(reminders), "auto", receiver) as client:
        async with listening(client):
            await client.call_tool("emit_after_the_response", {"body": "on the listen stream"})
            await until(lambda: receiver.bodies)
        await client.call_tool("emit_after_the_response", {"body": "nowhere"})
        await client.call_tool("emit", {"body": "on the stream of the request"})
        await until(lambda: len(receiver.bodies) == 2)
    assert receiver.bodies == ["on the listen stream", "on the stream of the request"]


@pytest.mark.parametrize("mode", ERAS)
@in_time
async def test_two_connections_are_two_clients(mode: str) -> None:
    reminders, first, second = Reminders(), Receiver("same"), Receiver("same")
    server = a_server(reminders)
    async with (
        a_client(server, mode, first) as one,
        a_client(server, mode, second) as other,
        listening(one) as stream,
        listening(other),
    ):
        await reminders.emit("to both")
        await until(lambda: first.bodies and second.bodies)
        assert not stream.done()
    assert (first.bodies, second.bodies) == (["to both"], ["to both"])


@in_time
async def test_a_client_that_has_left_is_forgotten() -> None:
    reminders = Reminders()
    server = a_server(reminders)
    for _ in range(3):
        async with a_client(server, LEGACY, Receiver()) as client, listening(client):
            assert (len(reminders._standalone), len(reminders._streams)) == (1, 1)
    assert (len(reminders._standalone), len(reminders._streams)) == (0, 0)


@in_time
async def test_a_second_initialized_notification_changes_nothing() -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_server(reminders), LEGACY, receiver) as client:
        await client.session.send_notification(mcp_types.InitializedNotification())
        await round_trip(client)
        await reminders.emit("once")
        await until(lambda: receiver.bodies)
        await round_trip(client)
    assert receiver.bodies == ["once"]


@in_time
async def test_the_number_of_streams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 1)
    server = a_server(Reminders())
    async with (
        a_client(server, "auto", Receiver()) as one,
        a_client(server, "auto", Receiver()) as other,
        listening(one),
    ):
        with pytest.raises(MCPError, match="1 listen streams are open"):
            await other.session.send_request(_Raw(method=LISTEN, params={}), mcp_types.Result)
        # Its own older stream makes room for a newer one.
        async with listening(one) as newer:
            assert not newer.done()


@in_time
async def test_a_new_client_takes_the_place_of_the_one_that_was_silent_for_longest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 2)
    reminders, receivers = Reminders(), [Receiver() for _ in range(3)]
    server = a_server(reminders)
    async with a_client(server, LEGACY, receivers[0]) as first, a_client(server, LEGACY, receivers[1]):
        await round_trip(first)
        async with a_client(server, LEGACY, receivers[2]):
            await reminders.emit("to two")
            await until(lambda: receivers[0].bodies and receivers[2].bodies)
            assert len(reminders._standalone) == 2
        assert "more than 2 clients are connected" in caplog.text
    assert [receiver.bodies for receiver in receivers] == [["to two"], [], ["to two"]]
    assert reminders._standalone == {}


@in_time
async def test_a_new_client_takes_the_place_of_one_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 2)
    reminders, receivers = Reminders(), [Receiver() for _ in range(3)]
    server = a_server(reminders)
    async with a_client(server, LEGACY, receivers[0]), a_client(server, LEGACY, receivers[1]):
        _, blocked = reminders._standalone.values()
        monkeypatch.setattr(type(blocked.outbox), "has_overflowed", property(lambda box: box is blocked.outbox))
        async with a_client(server, LEGACY, receivers[2]):
            assert blocked not in reminders._standalone.values()
            await reminders.emit("news")
            await until(lambda: receivers[0].bodies and receivers[2].bodies)


@in_time
async def test_closing_ends_every_listen_stream_gracefully() -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_server(reminders), "auto", receiver) as client, listening(client) as stream:
        reminders.close()
        result = await stream
    assert result.meta == {
        "io.modelcontextprotocol/subscriptionId": result.meta["io.modelcontextprotocol/subscriptionId"]
    }


@in_time
async def test_what_waits_for_an_older_stream_is_sent_on_the_newer_one() -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_server(reminders), "auto", receiver) as client, listening(client) as older:
        stream = reminders._streams[0]
        stream.outbox.put(ReminderParams(reminder=ReminderSpec(id="r1", body="waiting")))
        async with listening(client):
            await until(lambda: older.done() and receiver.bodies)
    assert receiver.bodies == ["waiting"]


# Listen streams beside the server's own handler, and HTTP.


@pytest.mark.parametrize("plain", [False, True], ids=["beside-the-handler", "without-a-handler"])
@in_time
async def test_the_filter_key_is_acknowledged_with_the_keys_that_the_server_serves(*, plain: bool) -> None:
    reminders, receiver = Reminders(), Receiver()
    acknowledged: list[dict[str, Any]] = []

    async def on_message(message: object) -> None:
        if isinstance(message, mcp_types.SubscriptionsAcknowledgedNotification):
            acknowledged.append(message.params.notifications.model_dump(by_alias=True, exclude_none=True))

    server: MCPServer[Any] | Server[Any] = a_plain_server(reminders) if plain else a_server(reminders)
    wanted = {"toolsListChanged": True, "reminders": {"tags": ["build"]}}
    async with Client(server, extensions=[receiver], message_handler=on_message) as client:
        request = _Raw(method="subscriptions/listen", params={"notifications": wanted})
        stream = asyncio.ensure_future(client.session.send_request(request, mcp_types.Result))
        await until(lambda: acknowledged)
        await reminders.emit("another", tags=["git"])
        await reminders.emit("wanted", tags=["build"])
        await until(lambda: receiver.bodies)
        reminders.close()
        assert (await stream).meta is not None
    assert acknowledged == [{"reminders": {"tags": ["build"]}, **({} if plain else {"toolsListChanged": True})}]
    assert receiver.bodies == ["wanted"]


@pytest.mark.parametrize("options", [{}, {"channel": True}], ids=["reminders", "channel"])
@pytest.mark.parametrize("stateless", [False, True], ids=["stateful", "stateless"])
@pytest.mark.parametrize("mode", ERAS)
@in_time
async def test_over_http_a_client_is_reached_once(mode: str, options: dict[str, Any], *, stateless: bool) -> None:
    reminders, receiver = Reminders(**options), Receiver()
    app = a_server(reminders).streamable_http_app(stateless_http=stateless)
    async with served(app) as port, Client(f"http://127.0.0.1:{port}/mcp", mode=mode, extensions=[receiver]) as client:
        await client.call_tool("emit", {"body": "in a request"})
        async with listening(client):
            await client.call_tool("emit", {"body": "on a stream"})
        await until(lambda: not reminders._streams)
        await client.call_tool("emit", {"body": "in another request"})
        await until(lambda: len(receiver.bodies) == 3)
    assert receiver.bodies == ["in a request", "on a stream", "in another request"]


@in_time
async def test_without_a_declaration_a_legacy_client_gets_the_channel_instead() -> None:
    reminders, receiver = Reminders(channel=True), Receiver(None)
    told: list[dict[str, Any]] = []

    class Params(BaseModel):
        content: str
        meta: dict[str, str]

    class Channel(ClientExtension):
        identifier = "test/channel"

        def notifications(self) -> list[NotificationBinding[Any]]:
            return [NotificationBinding(method="notifications/claude/channel", params_type=Params, handler=self.tell)]

        async def tell(self, params: Params) -> None:
            told.append(params.model_dump())

    async with Client(a_server(reminders), mode=LEGACY, extensions=[receiver, Channel()]) as client:
        assert (client.server_capabilities.experimental or {})["claude/channel"] == {}
        await round_trip(client)
        await reminders.emit("news", id="r1", ttl_turns=3)
        await until(lambda: told)
    assert told == [{"content": "news", "meta": {"id": "r1", "ttl_turns": "3"}}]
    assert receiver.bodies == []


@in_time
async def test_a_connection_without_a_handshake_opens_no_listen_stream() -> None:
    reminders = Reminders()
    async with piped() as (lines, far):
        serving = asyncio.ensure_future(serve_lines(a_server(reminders), lines, stopping=asyncio.Event()))
        far.call(LISTEN, {}, request_id=1)
        assert (await far.receive())["error"]["code"] == mcp_types.METHOD_NOT_FOUND
        await far.hang_up()
        await serving


@in_time
async def test_a_newer_reminder_on_a_stream_withdraws_the_older_one_that_waits_elsewhere() -> None:
    reminders, receiver = Reminders(), Receiver()
    async with a_client(a_server(reminders), LEGACY, receiver) as client, listening(client):
        (standalone,) = reminders._standalone.values()
        standalone.outbox.put(ReminderParams(reminder=ReminderSpec(id="r1", body="stale", dedupe_key="k")))
        await reminders.emit("current", dedupe_key="k")
        await until(lambda: receiver.bodies)
        await round_trip(client)
    assert receiver.bodies == ["current"]

"""The server of watchers, in this process and on real pipes."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from sideband.core.errors import InvalidOption
from sideband.protocols.http import is_loopback
from sideband.protocols.mcp.server import resource_subscriptions
from sideband.protocols.mcp.server.serve import serve_http, serve_lines
from sideband.protocols.mcp.server.watch_server import WatchServer
from sideband.watch.notice import Notice
from tests.acp_agents import in_time
from tests.piped import FarEnd, piped
from tests.programs import run_sideband
from tests.waiting import until

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


class Told:
    """A watcher that notices what a test tells it; an exception is raised, and None ends it."""

    uri = "watch://told"
    title = "What was told"

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self.latest = "nothing yet"
        self.is_closed = False
        self.ready = asyncio.Event()

    async def notices(self) -> AsyncGenerator[Notice, None]:
        self.ready.set()
        try:
            while (item := await self.queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                self.latest = item
                yield Notice(body=item, dedupe_key="told", ttl_turns=1, uris=(self.uri,))
        finally:
            self.is_closed = True


def a_watch_server(watcher: Told, *, files: Path | None = None) -> WatchServer:
    return WatchServer("told", [watcher], instructions="Reports what it is told.", files=files, hook_tool=True)


class _Raw(mcp_types.Request[dict[str, Any], str]):
    """A request that the SDK has no class for."""


@asynccontextmanager
async def a_client(watching: WatchServer, mode: str = "legacy") -> AsyncIterator[Client]:
    async with Client(watching.server, mode=mode, cache=None) as client:
        await client.list_tools()
        yield client


async def text_of(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    return str(content.model_dump()["text"])


@in_time
async def test_the_latest_result_is_a_resource_and_the_watcher_ends_with_the_server() -> None:
    watcher = Told()
    async with a_client(a_watch_server(watcher)) as client:
        assert await text_of(client, "watch://told") == "nothing yet"
        watcher.queue.put_nowait("news")
        await until(lambda: watcher.latest == "news")
        assert await text_of(client, "watch://told") == "news"
        assert not watcher.is_closed
    assert watcher.is_closed


@pytest.mark.parametrize(
    ("end", "why"),
    [
        pytest.param(None, "what it watched no longer exists.", id="by-itself"),
        pytest.param(ValueError("inside"), "of an error (ValueError).", id="by-a-fault"),
        pytest.param(InvalidOption("root is gone"), "of an error: HARN-RMD-001: root is gone.", id="by-a-refusal"),
    ],
)
@in_time
async def test_a_watcher_that_ends_is_reported(
    end: Exception | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = Told()
    async with a_client(a_watch_server(watcher)) as client:
        watcher.queue.put_nowait(end)
        await until(lambda: watcher.is_closed)
        answer = await client.call_tool("pending_reminders", {})
        assert f"told has stopped and reports no more changes, because {why}" in str(answer.content)
    assert ("told has stopped" in caplog.text) == (end is not None)


@in_time
async def test_a_file_that_is_watched_alone_is_served_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    (tmp_path / "b.txt").write_text("b", encoding="utf-8")
    async with a_client(a_watch_server(Told(), files=tmp_path / "a.txt")) as client:
        assert await text_of(client, (tmp_path / "a.txt").as_uri()) == "a"
        with pytest.raises(MCPError, match="only the text file"):
            await text_of(client, (tmp_path / "b.txt").as_uri())
    async with a_client(a_watch_server(Told(), files=tmp_path)) as client:
        assert await text_of(client, (tmp_path / "b.txt").as_uri()) == "b"
        with pytest.raises(MCPError, match="there is no file"):
            await text_of(client, (tmp_path / "c.txt").as_uri())


# Subscriptions.


@in_time
async def test_a_subscriber_is_told_until_it_unsubscribes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_subscriptions, "MAX_SUBSCRIPTIONS", 1)
    watcher, told = Told(), []

    async def on_message(message: object) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            told.append(message.params.uri)

    async def ask(client: Client, method: str, uri: str) -> None:
        await client.session.send_request(_Raw(method=method, params={"uri": uri}), mcp_types.Result)

    async with Client(a_watch_server(watcher).server, mode="legacy", message_handler=on_message) as client:
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        await ask(client, "resources/subscribe", "watch://told")
        with pytest.raises(MCPError, match="1 resources at most"):
            await ask(client, "resources/subscribe", "watch://other")
        watcher.queue.put_nowait("news")
        await until(lambda: told)
        await ask(client, "resources/unsubscribe", "watch://told")
        watcher.queue.put_nowait("more news")
        await until(lambda: watcher.latest == "more news")
        await client.list_tools()
    assert told == ["watch://told"]


# Serving.


@asynccontextmanager
async def on_pipes(watching: WatchServer, stopping: asyncio.Event) -> AsyncIterator[tuple[FarEnd, asyncio.Task[None]]]:
    """The far end of a server on pipes, and the task that serves."""
    async with piped(limit=1_000) as (lines, far):
        serving = asyncio.ensure_future(serve_lines(watching.server, lines, stopping=stopping))
        far.call("initialize", HELLO, request_id=1)
        assert (await far.receive())["id"] == 1
        yield far, serving
        await serving


@in_time
async def test_a_server_on_pipes_ends_with_its_input(caplog: pytest.LogCaptureFixture) -> None:
    watcher = Told()
    async with on_pipes(a_watch_server(watcher), asyncio.Event()) as (far, serving):
        far.write(b"garbage", b"x" * 2_000)
        far.call("tools/list", request_id=2)
        assert (await far.receive())["id"] == 2
        assert not serving.done()
        await far.hang_up()
    assert watcher.is_closed
    assert "discarded, because it has more than 1,000 bytes" in caplog.text


@in_time
async def test_a_server_on_pipes_ends_when_it_is_told_to_though_its_input_is_open() -> None:
    watcher, stopping = Told(), asyncio.Event()
    async with on_pipes(a_watch_server(watcher), stopping):
        stopping.set()
    assert watcher.is_closed


@in_time
async def test_a_server_over_http_ends_when_it_is_told_to() -> None:
    watcher, stopping = Told(), asyncio.Event()
    watching = a_watch_server(watcher)
    stopped: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.ensure_future(
            serve_http(watching.server, listening, stopping=stopping, stop=lambda: stopped.append("streams"))
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        async with Client(streamable_http_client(url)) as client:
            assert await text_of(client, "watch://told") == "nothing yet"
        stopping.set()
        await serving
    assert watcher.is_closed
    assert stopped == ["streams"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - refused
        ("192.0.2.1", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_known_by_their_value(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


# The command line.


def test_the_help_describes_each_command_and_prints_no_default_of_a_flag() -> None:
    commands = run_sideband("mcp", "--help").stdout
    assert "Connect to MCP servers and print each reminder" in commands
    options = run_sideband("mcp", "watch-command", "--help").stdout
    assert "the default is the program and" in options
    assert "[default: False]" not in options


def test_the_debounce_time_is_bounded() -> None:
    answer = run_sideband("mcp", "watch-files", "--debounce", "60001")
    assert answer.returncode == 2
    assert "Must be <= 60000" in answer.stdout + answer.stderr

"""The official TypeScript SDKs as clients of a server with reminders: 1.x, and 2.x in both eras, on stdio and HTTP."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.loopback import within
from tests.peers.clients import HERE, NODE, Json, environment, process
from tests.peers.schemas import PACKAGES

LEGACY: Final = ("v1", "legacy")
SETTINGS: Final = {
    "emit": True,
    "propagate": ["session", "none"],
    "roleHints": ["system", "developer"],
    "version": 1,
}
DECLARATIONS: Final[dict[str, Json]] = {
    "experimental": {"experimental": {"reminders": {"receive": True}}},
    "extension": {"extensions": {"sideband/reminders": {}}},
}
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

# Two seconds on an idle machine; the conformance suite, which may run beside them, takes all of it.
in_time = within(180)
every_client = pytest.mark.parametrize("kind", [*LEGACY, "auto"])
every_transport = pytest.mark.parametrize("transport", ["stdio", "http"])


class Failed(Exception):
    """The SDK has refused an order."""


class TypeScriptMcp:
    """`mcp_typescript.mjs` in a process of its own.

    `notified` are the notifications for which the SDK has no handler, `errors` is what the SDK wrote to its console.
    """

    def __init__(self, node: asyncio.subprocess.Process) -> None:
        self.notified: list[Json] = []
        self.errors: list[str] = []
        self._is_streaming = False
        self._node = node
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._changed = asyncio.Condition()
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self._node.stdout is not None
        async for line in self._node.stdout:
            async with self._changed:
                self._changed.notify_all()
                match msgspec.json.decode(line):
                    case {"notified": notification}:
                        self.notified.append(notification)
                    case {"answers": number, "error": error}:
                        self._answers[number].set_exception(Failed(error))
                    case {"answers": number, "result": result}:
                        self._answers[number].set_result(result)
                    case {"streaming": True}:
                        self._is_streaming = True
                    case {"console": words}:
                        self.errors.append(words)

    async def do(self, **order: Any) -> Any:  # noqa: ANN401 - any JSON value
        assert self._node.stdin is not None
        number = len(self._answers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._node.stdin.write(msgspec.json.encode(order | {"as": number}) + b"\n")
        return await self._answers[number]

    async def call(self, tool: str, **arguments: str) -> str:
        """The text that a tool returns."""
        result = await self.do(call=tool, arguments=arguments)
        assert result["isError"] is False, result
        return str(result["content"][0]["text"])

    async def until(self, holds: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)

    async def streaming(self) -> None:
        """Wait for the standalone stream, on which an older server tells what belongs to no request."""
        await self.until(lambda: self._is_streaming)

    async def told(self, count: int) -> None:
        """Wait for so many reminders."""
        await self.until(lambda: len(self.reminders()) >= count)

    async def heard(self, *bodies: str) -> None:
        """Wait for these reminders."""
        await self.until(lambda: set(bodies) <= set(self.bodies()))

    def reminders(self) -> list[Json]:
        """The params of the reminders that arrived."""
        return [one["params"] for one in self.notified if one["method"] == "notifications/reminder"]

    def bodies(self) -> list[str]:
        return [params["reminder"]["body"] for params in self.reminders()]


@asynccontextmanager
async def a_client(
    kind: str, target: Sequence[str], folder: Path, *, declares: Json | None = None
) -> AsyncIterator[TypeScriptMcp]:
    """A client that is connected to the server at this URL, or that is started with this command.

    The SDK must not complain about anything.
    """
    script = [str(NODE), str(HERE / "mcp_typescript.mjs"), str(PACKAGES), kind]
    async with process([*script, msgspec.json.encode(declares or {}).decode(), *target], folder) as node:
        client = TypeScriptMcp(node)
        try:
            yield client
            assert node.stdin is not None
            node.stdin.close()
            await client.reading
        finally:
            client.reading.cancel()
            await asyncio.wait([client.reading])
    assert client.errors == []


class Server:
    """`mcp_reminder_server.py`; `target` is how a client reaches it."""

    def __init__(self, pipe: int, target: Sequence[str]) -> None:
        self.target = target
        self._pipe = pipe

    def emit(self, body: str) -> None:
        """Let it send a reminder outside of any request."""
        os.write(self._pipe, f"{body}\n".encode())


@asynccontextmanager
async def a_watcher(transport: str, folder: Path) -> AsyncIterator[Sequence[str]]:
    """How a client reaches `sideband mcp watch-files`; the client starts it if the transport is `stdio`."""
    command = [sys.executable, "-m", "sideband.cli", "mcp", "watch-files", str(folder)]
    if transport == "stdio":
        yield command
        return
    watcher = await asyncio.create_subprocess_exec(
        *(*command, "--http", "127.0.0.1:0"), env=environment(folder), stderr=asyncio.subprocess.PIPE
    )
    try:
        assert watcher.stderr is not None
        yield [(await watcher.stderr.readline()).decode().split()[-1]]
        watcher.terminate()
        assert await watcher.wait() == 0
    finally:
        if watcher.returncode is None:
            watcher.kill()
            await watcher.wait()


@asynccontextmanager
async def a_server(transport: str, folder: Path) -> AsyncIterator[Server]:
    """A server of a test; the client starts it if the transport is `stdio`."""
    path = folder / "pipe"
    os.mkfifo(path)
    command = [sys.executable, str(HERE / "mcp_reminder_server.py"), transport, str(path)]
    async with AsyncExitStack() as stack:
        # Held open, because a pipe forgets what was written when it is open nowhere: a server may start late.
        pipe = os.open(path, os.O_RDWR)
        stack.callback(os.close, pipe)
        if transport != "stdio":
            server = await stack.enter_async_context(process(command, folder))
            assert server.stdout is not None
            command = [(await server.stdout.readline()).decode().strip()]
        yield Server(pipe, command)


@every_transport
@every_client
@in_time
async def test_it_sees_the_capability_and_the_place_of_the_proposal_does_not_break_it(
    kind: str, transport: str, tmp_path: Path
) -> None:
    async with a_server(transport, tmp_path) as server, a_client(kind, server.target, tmp_path) as client:
        told = await client.do(connect=True)
        if (kind, transport) != ("auto", "stdio"):
            # In this case the SDK asks a process that it starts only for the question.
            assert told["raw"]["reminders"] == SETTINGS
        assert told["capabilities"]["experimental"]["reminders"] == SETTINGS
        assert told["capabilities"]["extensions"]["sideband/reminders"] == SETTINGS
        # Both SDKs remove members of the capabilities that they do not know.
        assert "reminders" not in told["capabilities"]
        if kind != "v1":
            assert told["version"] == ("2025-11-25" if kind == "legacy" else "2026-07-28")
        assert await client.call("nothing") == "Nothing was done."


@every_transport
@pytest.mark.parametrize("kind", LEGACY)
@in_time
async def test_an_older_client_gets_each_reminder_once(kind: str, transport: str, tmp_path: Path) -> None:
    async with a_server(transport, tmp_path) as server, a_client(kind, server.target, tmp_path) as client:
        await client.do(connect=True)
        if transport == "http":
            await client.streaming()
        for number in range(3):
            await client.call("emit", body=f"inside {number}")
            await client.heard(f"inside {number}")
            server.emit(f"outside {number}")
            await client.heard(f"outside {number}")
        await client.call("nothing")
        assert client.bodies() == [f"{place} {number}" for number in range(3) for place in ("inside", "outside")]
        assert not any(SUBSCRIPTION in one.get("_meta", {}) for one in client.reminders())


@every_transport
@in_time
async def test_a_newer_client_gets_each_reminder_once_on_its_listen_stream(transport: str, tmp_path: Path) -> None:
    declares = DECLARATIONS["extension"]
    async with (
        a_server(transport, tmp_path) as server,
        a_client("auto", server.target, tmp_path, declares=declares) as client,
    ):
        await client.do(connect=True)
        await client.do(listen={"reminders": True, "toolsListChanged": True})
        await client.call("emit", body="inside")
        server.emit("outside")
        await client.heard("inside", "outside")
        await client.call("nothing")
        assert Counter(client.bodies()) == {"inside": 1, "outside": 1}
        assert all(SUBSCRIPTION in one["_meta"] for one in client.reminders())
        await client.do(unlisten=True)
        # Without a listen stream only the stream of a request is left.
        await client.call("emit", body="after")
        await client.heard("after")
        assert SUBSCRIPTION not in client.reminders()[-1].get("_meta", {})
        assert client.bodies().count("after") == 1


@every_transport
@pytest.mark.parametrize("declares", DECLARATIONS)
@in_time
async def test_a_newer_client_that_declares_reminders_gets_them_inside_its_requests(
    declares: str, transport: str, tmp_path: Path
) -> None:
    async with (
        a_server(transport, tmp_path) as server,
        a_client("auto", server.target, tmp_path, declares=DECLARATIONS[declares]) as client,
    ):
        await client.do(connect=True)
        server.emit("outside")
        await client.call("outside")
        await client.call("emit", body="inside")
        await client.call("nothing")
        # On this revision a server may not write outside of a request.
        assert client.bodies() == ["inside"]
        assert not any(SUBSCRIPTION in one.get("_meta", {}) for one in client.reminders())


@every_transport
@in_time
async def test_a_newer_client_that_declares_nothing_gets_reminders_only_if_it_listens(
    transport: str, tmp_path: Path
) -> None:
    async with a_server(transport, tmp_path) as server, a_client("auto", server.target, tmp_path) as client:
        await client.do(connect=True)
        await client.call("emit", body="before")
        await client.call("nothing")
        assert client.bodies() == []
        await client.do(listen={"reminders": True})
        await client.call("emit", body="after")
        await client.heard("after")
        await client.call("nothing")
        assert client.bodies() == ["after"]


@pytest.mark.parametrize("kind", LEGACY)
@in_time
async def test_an_older_client_of_a_server_without_sessions_gets_reminders_inside_its_requests(
    kind: str, tmp_path: Path
) -> None:
    async with a_server("stateless", tmp_path) as server, a_client(kind, server.target, tmp_path) as client:
        await client.do(connect=True)
        server.emit("outside")
        await client.call("outside")
        await client.call("emit", body="inside")
        await client.call("nothing")
        assert client.bodies() == ["inside"]


@every_transport
@every_client
@in_time
async def test_it_is_told_once_by_a_watcher_that_a_file_has_changed(kind: str, transport: str, tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    edited = folder / "app.py"
    edited.write_text("one = 1\n", encoding="utf-8")
    async with a_watcher(transport, folder) as target, a_client(kind, target, tmp_path) as client:
        await client.do(connect=True)
        if kind == "auto":
            await client.do(listen={"reminders": True})
        elif transport == "http":
            await client.streaming()
        for count in (1, 2):
            edited.write_text(f"one = {count + 1}\n", encoding="utf-8")
            await client.told(count)
        told = [one["reminder"] for one in client.reminders()]
        assert [one["dedupeKey"] for one in told] == ["file_changed:app.py"] * 2
        assert len({one["id"] for one in told}) == 2
        assert all("app.py" in one["body"] for one in told)


@in_time
async def test_each_client_of_one_watcher_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    edited = folder / "app.py"
    edited.write_text("one = 1\n", encoding="utf-8")
    async with a_watcher("http", folder) as target, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(a_client(kind, target, tmp_path)) for kind in ("v1", "legacy", "auto")
        ]
        for client in clients:
            await client.do(connect=True)
        for client in clients[:2]:
            await client.streaming()
        await clients[2].do(listen={"reminders": True})
        for count in (1, 2):
            edited.write_text(f"one = {count + 1}\n", encoding="utf-8")
            for client in clients:
                await client.told(count)
        ids = [[one["reminder"]["id"] for one in client.reminders()] for client in clients]
        assert ids[0] == ids[1] == ids[2]
        assert len(set(ids[0])) == len(ids[0]) == 2

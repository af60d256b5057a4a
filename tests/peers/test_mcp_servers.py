"""Foreign servers of Sideband's host: the reference servers, and one on the TypeScript SDK that sends reminders."""

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import mcp_types as types
import pytest

import sideband as sb
from sideband.core.messages import Reply, ToolCall
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host import Admission, ServerReport
from sideband.testing import ScriptedModel
from tests.loopback import over_sockets
from tests.mcp_hosts import Desk, a_desk
from tests.peers.clients import HERE, NODE, process
from tests.peers.schemas import PACKAGES
from tests.waiting import until

SERVERS: Final = PACKAGES / "@modelcontextprotocol"
EVERYTHING: Final = ServerConfig(
    name="everything", command=(str(NODE), str(SERVERS / "server-everything" / "dist" / "index.js"), "stdio")
)


def files(folder: Path) -> ServerConfig:
    """The reference server for files of a folder."""
    return ServerConfig(
        name="files", command=(str(NODE), str(SERVERS / "server-filesystem" / "dist" / "index.js"), str(folder))
    )


@asynccontextmanager
async def typescript(transport: str, folder: Path) -> AsyncIterator[ServerConfig]:
    """A server on the TypeScript SDK; over HTTP it runs for this block."""
    command = [str(NODE), str(HERE / "mcp_typescript_server.mjs"), str(PACKAGES), transport]
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            yield ServerConfig(name="typescript", command=tuple(command))
        else:
            server = await stack.enter_async_context(process(command, folder))
            assert server.stdout is not None
            yield ServerConfig(name="typescript", url=(await server.stdout.readline()).decode().strip())


def names(desk: Desk, server: str) -> set[str]:
    """The tools of a server in the next run."""
    return {tool.own_name for tool in desk.host.connections[server].tools}


@over_sockets
async def test_the_tools_of_the_reference_servers_are_listed_and_called(tmp_path: Path) -> None:
    async with a_desk(EVERYTHING, files(tmp_path)) as desk:
        connected = [one for one in desk.reports if isinstance(one, ServerReport) and one.protocol_version is not None]
        assert {(one.server, one.protocol_version, one.tools) for one in connected} == {
            ("everything", "2025-11-25", 13),
            ("files", "2025-11-25", 14),
        }
        assert (await desk.call("echo", "everything", message="Hello.")).text == "Echo: Hello."
        assert (await desk.call("get-sum", "everything", a=2, b=3)).text == "The sum of 2 and 3 is 5."
        path = tmp_path / "notes.txt"
        assert not (await desk.call("write_file", "files", path=str(path), content="one\ntwo\n")).is_error
        assert (await desk.call("read_text_file", "files", path=str(path), head=1)).text == "one"
        # Errors of a tool are results, which the model reads.
        refused = await desk.call("read_text_file", "files", path="/etc/passwd")
        assert refused.is_error
        assert "Access denied" in refused.text
        invalid = await desk.call("get-structured-content", "everything", location="Nowhere")
        assert invalid.is_error
        assert "Invalid arguments" in invalid.text


@pytest.mark.parametrize(
    ("tool", "arguments", "texts"),
    [
        pytest.param(
            "get-tiny-image", {}, ["Here's the image", "[image: image/png, 4,033 bytes; not shown]"], id="image"
        ),
        pytest.param(
            "get-resource-reference",
            {"resourceType": "Text", "resourceId": 1},
            ["[resource: demo://resource/dynamic/text/1]\nResource 1: This is a plaintext resource"],
            id="text-resource",
        ),
        pytest.param(
            "get-resource-reference",
            {"resourceType": "Blob", "resourceId": 1},
            ["[resource: demo://resource/dynamic/blob/1, text/plain, ", " bytes; not shown]"],
            id="binary-resource",
        ),
        pytest.param(
            "get-resource-links",
            {"count": 2},
            ["[resource: demo://resource/dynamic/blob/1", "[resource: demo://resource/dynamic/text/2"],
            id="links",
        ),
        pytest.param("get-structured-content", {"location": "Chicago"}, ['"temperature":'], id="structured"),
        pytest.param(
            "get-annotated-message",
            {"messageType": "error", "includeImage": True},
            ["Error: Operation failed"],
            id="annotated",
        ),
        pytest.param(
            "trigger-long-running-operation", {"duration": 0.1, "steps": 2}, ["operation completed"], id="with-progress"
        ),
    ],
)
@over_sockets
async def test_results_that_are_not_plain_text_are_named(
    tool: str, arguments: dict[str, object], texts: list[str]
) -> None:
    async with a_desk(EVERYTHING) as desk:
        result = await desk.call(tool, "everything", **arguments)
        assert not result.is_error
        for text in texts:
            assert text in result.text


@over_sockets
async def test_media_of_a_file_are_named_with_their_size(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(base64.b64decode("iVBORw0KGgo="))
    async with a_desk(files(tmp_path)) as desk:
        result = await desk.call("read_media_file", "files", path=str(tmp_path / "dot.png"))
        assert result.text == "[image: image/png, 8 bytes; not shown]"


@over_sockets
async def test_log_messages_neither_disturb_nor_count_as_reminders() -> None:
    async with a_desk(EVERYTHING) as desk:
        connection = desk.host.connections["everything"]
        heard: list[str] = []
        received = connection.received

        def noted(message: types.JSONRPCMessage, frame: bytes | None) -> bool:
            if isinstance(message, types.JSONRPCNotification):
                heard.append(message.method)
            return received(message, frame)

        connection.received = noted  # type: ignore[method-assign]  # of this connection alone
        assert not (await desk.call("toggle-simulated-logging", "everything")).is_error
        assert not (await desk.call("toggle-subscriber-updates", "everything")).is_error
        await until(lambda: "notifications/message" in heard)
        assert (await desk.call("echo", "everything", message="Still here.")).text == "Echo: Still here."
        assert await desk.pending() == []
        assert await desk.dropped() == {}
        assert "lost" not in desk.states()


@over_sockets
async def test_the_loop_calls_the_tools_of_a_foreign_server(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    async with a_desk(files(tmp_path)) as desk:
        arguments = {"path": str(path), "content": "Written by the loop.\n"}
        call = ToolCall(id="call_1", name="mcp__files__write_file", args=arguments)
        model = ScriptedModel([Reply(text="I write.", tool_calls=(call,)), "Done."])
        await sb.agent_loop("Write.", session=desk.session, model=model, tools=desk.tools)
        assert "Successfully wrote" in model.requests[1].text
    assert path.read_text("utf-8") == "Written by the loop.\n"


@pytest.mark.parametrize("transport", ["stdio", "http"])
@over_sockets
async def test_tools_that_a_server_adds_and_removes_are_followed(transport: str, tmp_path: Path) -> None:
    async with typescript(transport, tmp_path) as server, a_desk(server) as desk:
        assert names(desk, "typescript") == {"remind", "remind_later", "grow", "shrink"}
        await desk.call("grow", "typescript")
        await until(lambda: "grown" in names(desk, "typescript"))
        await desk.call("shrink", "typescript")
        await until(lambda: "grown" not in names(desk, "typescript"))


@pytest.mark.parametrize("transport", ["stdio", "http"])
@over_sockets
async def test_reminders_of_a_server_that_declares_them_as_the_proposal_does_are_accepted(
    transport: str, tmp_path: Path
) -> None:
    async with typescript(transport, tmp_path) as server, a_desk(server) as desk:
        await desk.call("remind", "typescript")
        await desk.accepted(1)
        await desk.call("remind_later", "typescript")
        await desk.accepted(2)
        bodies = [one.body for one in desk.told(Admission.ACCEPTED)]
        assert bodies == ["Sent inside the request.", "Sent after the response."]
        assert await desk.dropped() == {}
        model = ScriptedModel(["Done."])
        await sb.agent_loop("Go.", session=desk.session, model=model)
        for body in bodies:
            assert model.requests[0].text.count(str(body)) == 1

"""The MCP servers of an ACP session: those that the client gives, and those of the agent's configuration."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sideband.core.messages import Reply, ToolCall
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.servers import LazyServers
from sideband.testing import ScriptedModel
from tests.acp_editor import an_agent, an_editor, connected, on_pipes, refusal_of
from tests.mcp_hosts import RAW, a_raw_server, a_reminder

DECLARES = '{"reminders": {"emit": true}}'


def a_given_server(name: str = "mine") -> dict[str, Any]:
    return {"name": name, "command": sys.executable, "args": [str(RAW), DECLARES], "env": []}


def sending(server: str) -> Reply:
    """The model lets a server send a reminder."""
    args = {"lines": [a_reminder(body="A file changed.")]}
    return Reply(tool_calls=(ToolCall(id="c1", name=f"mcp__{server}__send", args=args),))


async def one_turn(
    server: str, *, given: list[dict[str, Any]], configured: tuple[ServerConfig, ...] = ()
) -> ScriptedModel:
    model = ScriptedModel([sending(server), "Done."])
    async with an_editor(model=model, servers=LazyServers(configured)) as editor:
        session = (await editor.call("session/new", cwd="/", mcpServers=given))["sessionId"]
        await editor.prompted(session)
    return model


@pytest.mark.requirement("acp:mcp:given")
@on_pipes
async def test_the_servers_that_a_client_gives_serve_the_session() -> None:
    model = await one_turn("mine", given=[a_given_server()])
    assert "mcp__mine__send" in model.requests[0].tools
    assert '<server-notice from="mine">' in model.requests[1].text
    assert "A file changed." not in str([m for m in model.requests[1].messages if m["role"] == "user"])


@pytest.mark.requirement("acp:mcp:configured")
@on_pipes
async def test_the_servers_of_the_configuration_serve_every_session() -> None:
    model = await one_turn("shared", given=[a_given_server()], configured=(a_raw_server("shared"),))
    assert {name.split("__")[1] for name in model.requests[0].tools if name.startswith("mcp__")} == {"mine", "shared"}
    assert '<server-notice from="shared">' in model.requests[1].text


@pytest.mark.requirement("acp:mcp:given")
@on_pipes
async def test_a_second_client_that_gives_no_server_leaves_those_of_the_first() -> None:
    model = ScriptedModel(["Done."])
    async with an_agent(model=model, servers=LazyServers()) as agent, connected(agent) as one, connected(agent) as two:
        session = (await one.call("session/new", cwd="/", mcpServers=[a_given_server()]))["sessionId"]
        await two.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        await two.prompted(session)
    assert "mcp__mine__send" in model.requests[0].tools


@pytest.mark.requirement("acp:mcp:given")
@on_pipes
async def test_a_server_that_does_not_start_does_not_keep_a_session_from_being_begun() -> None:
    model = ScriptedModel(["Done."])
    async with an_editor(model=model, servers=LazyServers()) as editor:
        gone = {"name": "gone", "command": "/no/such/program", "args": [], "env": []}
        session = (await editor.call("session/new", cwd="/", mcpServers=[gone]))["sessionId"]
        assert (await editor.prompted(session))["stopReason"] == "end_turn"


@pytest.mark.requirement("acp:mcp:wrong")
@pytest.mark.parametrize(
    ("given", "has_packages"),
    [
        pytest.param([{"name": "x", "command": "x", "args": [], "env": []}], False, id="the-packages-are-missing"),
        pytest.param([{"name": "x"}], True, id="neither-a-command-nor-an-address"),
        pytest.param([{"type": "sse", "name": "x", "url": "http://a", "headers": []}], True, id="an-old-transport"),
        pytest.param({"x": {}}, True, id="no-list"),
        pytest.param([{"name": "shared", "command": "x", "args": [], "env": []}], True, id="a-configured-name"),
    ],
)
@on_pipes
async def test_servers_that_cannot_be_used_are_refused_and_no_session_is_begun(
    given: object,
    has_packages: bool,  # noqa: FBT001 - a column of the table
) -> None:
    servers = LazyServers((ServerConfig(name="shared", command=("x",)),)) if has_packages else None
    async with an_editor(servers=servers) as editor:
        refused = await refusal_of(editor.begin("session/new", cwd="/", mcpServers=given))
        listed = await editor.call("session/list")
    assert (refused.code, listed["sessions"]) == (-32602, [])
    assert refused.data["field"].startswith("mcpServers")
    assert has_packages or "sideband[mcp]" in refused.message


@pytest.mark.requirement("acp:mcp:capability")
@pytest.mark.parametrize(
    ("version", "path", "told"),
    [
        (1, ("agentCapabilities", "mcpCapabilities"), {"http": True, "sse": False}),
        (2, ("capabilities", "session", "mcp"), {"stdio": {}, "http": {}}),
    ],
)
@on_pipes
async def test_the_transports_are_advertised_if_servers_can_be_connected(
    version: int, path: tuple[str, ...], told: Mapping[str, Any]
) -> None:
    for servers in (LazyServers(), None):
        async with an_editor(version=None, servers=servers) as editor:
            found: Any = await editor.initialize(version)
            for name in path:
                found = found.get(name, {})
            assert found == (told if servers is not None else {})


@pytest.mark.requirement("acp:mcp:given")
@on_pipes
async def test_a_server_works_in_the_folder_of_its_session(tmp_path: Path) -> None:
    (given,) = LazyServers().read([a_given_server()], cwd=str(tmp_path))
    assert given.cwd == tmp_path

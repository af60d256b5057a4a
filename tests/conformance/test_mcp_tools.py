"""The tools of MCP servers in the agent loop, and the configuration of servers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sideband as sb
from sideband.core.errors import InvalidOption
from sideband.core.messages import Reply, ToolCall
from sideband.core.trust import GrantField, TrustPolicy
from sideband.protocols.mcp.config import read_config, read_config_file, read_given
from sideband.protocols.mcp.host.tools import (
    MAX_NAME,
    MAX_RESULT_BYTES,
    McpTool,
    output_of,
    tool_name,
    without_collisions,
)
from sideband.runtime.runner import Runner
from sideband.testing import ScriptedModel
from sideband.tools.function import read_tools, watcher_of
from sideband.tools.live import LiveTools
from tests.mcp_hosts import a_desk, a_raw_server
from tests.waiting import until

# Names.


async def _never(_name: str, _args: dict[str, Any]) -> mcp_types.CallToolResult:
    raise AssertionError


def a_tool(server: str, name: str) -> McpTool:
    listed = mcp_types.Tool(name=name, input_schema={"type": "object"})
    return McpTool(listed, server, _never, idempotent=False, seconds=None)


@pytest.mark.requirement("mcp:tools:names")
@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        pytest.param("git", "log", "mcp__git__log", id="server-and-tool"),
        pytest.param("git", "log.all", "mcp__git__log_all_", id="other-characters-are-replaced-and-marked"),
        pytest.param("git", "x" * 80, "mcp__git__" + "x" * 45 + "_", id="a-long-name-is-cut-and-marked"),
    ],
)
def test_a_tool_is_named_after_its_server(server: str, tool: str, name: str) -> None:
    found = tool_name(server, tool)
    assert found.startswith(name)
    assert len(found) <= MAX_NAME


@pytest.mark.requirement("mcp:tools:names")
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "a__b"]), st.sampled_from(["c", "b__c", "é", "é!", "x" * 99])), unique=True
    )
)
def test_no_two_tools_have_the_same_name(tools: list[tuple[str, str]]) -> None:
    found = without_collisions(a_tool(server, name) for server, name in tools)
    assert len({tool.name for tool in found}) == len(tools)
    assert len(read_tools(found)) == len(tools)


# Results.


@pytest.mark.requirement("mcp:tools:results")
def test_what_is_not_text_is_named_in_the_result() -> None:
    async def story() -> None:
        async with a_desk() as desk:
            shown = await desk.call("show")
            assert shown.text.splitlines() == [
                "a text",
                "[image: image/png, 5 bytes; not shown]",
                "[audio: audio/wav, 5 bytes; not shown]",
                "[resource: file:///a]",
                "of a resource",
                "[resource: file:///b, application/pdf, 5 bytes; not shown]",
                "[resource: file:///c: a link]",
            ]
            assert json.loads((await desk.call("seen")).text)["methods"]
            failed = await desk.call("fail")
            assert (failed.text, failed.is_error) == ("it is broken", True)

    asyncio.run(story())


@pytest.mark.requirement("mcp:tools:results")
def test_a_long_result_is_cut_and_says_so() -> None:
    block = mcp_types.TextContent(text="é" * MAX_RESULT_BYTES)
    output = output_of(mcp_types.CallToolResult(content=[block]))
    assert output.original_bytes == 2 * MAX_RESULT_BYTES
    assert output.text.endswith(f"[truncated: {MAX_RESULT_BYTES:,} of {2 * MAX_RESULT_BYTES:,} bytes]")


# In the loop.


def calling(name: str, **args: Any) -> Reply:  # noqa: ANN401 - any arguments
    return Reply(tool_calls=(ToolCall(id="c1", name=name, args=args),))


@pytest.mark.requirement("mcp:tools:in-the-loop", "mcp:tools:workspace-watcher")
def test_a_run_uses_the_tools_beside_those_of_a_workspace(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_desk() as desk:
            tools = [*sb.workspace_tools(tmp_path), await desk.host.attach(desk.session)]
            assert watcher_of(tools, read_tools(tools)) is not None
            model = ScriptedModel([calling("mcp__raw__send", lines=[]), "Done."])
            result = await sb.agent_loop("Go", session=desk.session, model=model, tools=tools)
            assert result.status == "completed"
            assert "done" in model.requests[1].text

    asyncio.run(story())


@pytest.mark.requirement("mcp:tools:list-changes")
def test_a_change_of_the_tools_takes_effect_at_the_next_run() -> None:
    async def story() -> None:
        async with a_desk() as desk:
            tools = await desk.host.attach(desk.session)
            model = ScriptedModel([calling("mcp__raw__grow"), "Done.", "Done."])
            async with Runner(desk.session, model=model, tools=[tools]) as runner:
                first = await desk.session.prompt("Go")
                await runner.outcome(first)
                await until(lambda: "mcp__raw__grown" in {tool.name for tool in tools})
                await runner.outcome(await desk.session.prompt("Again"))
            assert ["mcp__raw__grown" in request.tools for request in model.requests] == [False, False, True]

    asyncio.run(story())


@pytest.mark.requirement("mcp:tools:list-changes")
def test_tools_that_cannot_be_read_leave_those_of_the_last_run(caplog: pytest.LogCaptureFixture) -> None:
    def one() -> str:
        """One."""
        return "1"

    async def story() -> None:
        found = [sb.tool(one)]
        async with a_desk() as desk:
            model = ScriptedModel(["Done.", "Done."])
            async with Runner(desk.session, model=model, tools=LiveTools(lambda: found)) as runner:
                await runner.outcome(await desk.session.prompt("Go"))
                found.append(sb.tool(one))
                await runner.outcome(await desk.session.prompt("Again"))
            assert model.requests[0].tools == model.requests[1].tools

    asyncio.run(story())
    assert "have the same name" in caplog.text


@pytest.mark.requirement("mcp:tools:idempotent")
def test_a_tool_is_idempotent_only_by_configuration() -> None:
    config = read_config({"mcpServers": {"a": {"command": "x", "idempotent": ["show"], "timeout": 1500}}})
    raw = a_raw_server("raw")

    async def story() -> None:
        chosen = type(raw)(name="raw", command=raw.command, idempotent=config[0].idempotent, seconds=config[0].seconds)
        async with a_desk(chosen) as desk:
            told = {tool.name: (tool.idempotent, getattr(tool, "seconds", None)) for tool in desk.tools}
            assert told["mcp__raw__show"] == (True, 1.5)
            assert told["mcp__raw__send"] == (False, 1.5)

    asyncio.run(story())


# Configuration.


@pytest.mark.requirement("mcp:config:format")
def test_the_format_of_other_hosts_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.delenv("OTHER", raising=False)
    file = tmp_path / ".mcp.json"
    config = {
        "mcpServers": {
            "local": {
                "command": "npx",
                "args": ["-y", "server", "${OTHER:-default}"],
                "env": {"A": "${TOKEN}"},
                "cwd": "sub",
                "alwaysAllow": ["x"],
                "reminders": {"trust": "seed", "grant": {"ttlTurns": 5, "role_hint": "system"}},
            },
            "remote": {
                "type": "http",
                "url": "https://example.org/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
            },
            "off": {"command": "x", "disabled": True},
            "quiet": {"command": "x", "reminders": False},
        }
    }
    file.write_text(json.dumps(config), encoding="utf-8")
    local, remote, quiet = read_config_file(file)
    assert local.command == ("npx", "-y", "server", "default")
    assert (local.env, local.cwd) == ({"A": "secret"}, tmp_path / "sub")
    assert local.reminders.trust is TrustPolicy.SEED
    assert [(grant.field, grant.value) for grant in local.reminders.grants] == [
        (GrantField.TTL_TURNS, 5),
        (GrantField.ROLE_HINT, "system"),
    ]
    assert (remote.url, remote.headers) == ("https://example.org/mcp", {"Authorization": "Bearer secret"})
    assert not quiet.reminders.enabled


@pytest.mark.requirement("mcp:config:errors")
@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param({}, "must have the servers by name", id="no-servers"),
        pytest.param({"mcpServers": {"a": 1}}, "mcpServers.a must be an object", id="no-object"),
        pytest.param({"mcpServers": {"a": {}}}, "either 'command' .* or 'url'", id="neither"),
        pytest.param({"mcpServers": {"a": {"command": "x", "url": "http://b"}}}, "either 'command'", id="both"),
        pytest.param({"mcpServers": {"a": {"type": "sse", "url": "http://b"}}}, "'sse' is not supported", id="sse"),
        pytest.param({"mcpServers": {"a": {"type": "pipe", "command": "b"}}}, "'stdio' or 'http'", id="a-type"),
        pytest.param({"mcpServers": {"a": {"url": "ftp://b"}}}, "must begin with http", id="another-scheme"),
        pytest.param({"mcpServers": {"a": {"command": "x", "args": "b"}}}, "a list of strings", id="args"),
        pytest.param({"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}, r"env\.A must be a string", id="env"),
        pytest.param({"mcpServers": {"a": {"command": "${NOT_SET}"}}}, "NOT_SET, which is not set", id="a-variable"),
        pytest.param({"mcpServers": {"a": {"command": "x", "timeout": 0}}}, "milliseconds above 0", id="timeout"),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "reminders": 1}}}, "true, false or an object", id="reminders"
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "reminders": {"grants": {}}}}}, "did you mean 'grant'", id="a-key"
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "reminders": {"trust": "all"}}}}, "'ceilings' or 'seed'", id="trust"
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "reminders": {"enabled": 1}}}}, "true or false", id="enabled"
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "reminders": {"grant": 1}}}}, "an object with role_hint", id="grant"
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "reminders": {"grant": {"ttl_turns": "x"}}}}},
            "is not a value of ttl_turns",
            id="a-granted-value",
        ),
    ],
)
def test_a_mistake_in_a_configuration_names_its_place(
    config: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(InvalidOption, match=said):
        read_config(config)


@pytest.mark.requirement("mcp:config:errors")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "cannot be read: No such file", id="missing"),
        pytest.param(b"{", "is not a JSON object", id="no-json"),
        pytest.param(b'{"mcpServers": {}, "mcpServers": {}}', "is not a JSON object", id="a-repeated-key"),
        pytest.param(b" " * 2_000_000, "more than", id="too-large"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidOption, match=said):
        read_config_file(file)


@pytest.mark.requirement("mcp:config:given")
def test_the_servers_of_a_client_are_read_as_acp_writes_them() -> None:
    given = [
        {"name": "My server!", "command": "/bin/x", "args": ["${HOME}"], "env": [{"name": "A", "value": "b"}]},
        {"type": "http", "name": "b", "url": "http://127.0.0.1/mcp", "headers": [{"name": "X", "value": "y"}]},
    ]
    local, remote = read_given(given)
    assert (local.name, local.command, local.env) == ("My_server_", ("/bin/x", "${HOME}"), {"A": "b"})
    assert (remote.name, remote.url, remote.headers) == ("b", "http://127.0.0.1/mcp", {"X": "y"})
    for wrong in ("x", [1], [{"command": "x"}], [{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]):
        with pytest.raises(InvalidOption):
            read_given(wrong)

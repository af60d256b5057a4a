"""The example servers, and the settings of hosts that the page on MCP servers shows: each starts a server that answers."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

from sideband.lint.check import check
from sideband.protocols.mcp.server.hook_tool import TOOL
from tests.acp_agents import in_time
from tests.mcp_clients import LEGACY, MODERN, a_peer, declaring
from tests.programs import ROOT

PROGRAMS: Final = sorted((ROOT / "examples" / "mcp-servers").glob("*.py"))
FENCE: Final = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS: Final[list[dict[str, Any]]] = [
    json.loads(block) for block in FENCE.findall((ROOT / "docs" / "mcp-servers.md").read_text(encoding="utf-8"))
]
SERVERS: Final = [block["mcpServers"]["watch"] for block in BLOCKS if "mcpServers" in block]
HOOKS: Final = [block["hooks"] for block in BLOCKS if "hooks" in block]


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
@in_time
async def test_an_example_server_emits(path: Path, mode: str, tmp_path: Path) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=["-W", "error", str(path)], cwd=str(tmp_path))
    async with a_peer(stdio_client(parameters), mode, declares=declaring()) as peer:
        await peer.client.call_tool("deploy", {"target": "staging"})
        assert await peer.gets(1) == ["staging now runs revision 7."]


def test_lint_has_nothing_to_say_about_the_example_servers() -> None:
    report = check(PROGRAMS)
    assert (report.findings, report.files) == ((), len(PROGRAMS))


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server["args"][1])
@in_time
async def test_a_server_in_the_settings_of_a_host_answers(server: dict[str, Any], tmp_path: Path) -> None:
    assert server["command"] == "sideband"
    arguments = ["-m", "sideband.cli", *server["args"]]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=str(tmp_path))
    async with a_peer(stdio_client(parameters), MODERN) as peer:
        tools = (await peer.client.list_tools()).tools
        assert [tool.name for tool in tools] == ([TOOL] if "--hook-tool" in server["args"] else [])


def test_the_hooks_call_the_tool_of_the_configured_server_with_their_own_event() -> None:
    (hooks,) = HOOKS
    assert set(hooks) == {"PostToolUse", "UserPromptSubmit"}
    for event, (entry,) in hooks.items():
        assert entry == {"hooks": [{"type": "mcp_tool", "server": "watch", "tool": TOOL, "input": {"event": event}}]}

"""An MCP server with reminders: two lines mount them, and a tool emits one.

A host starts it with `python examples/mcp-servers/emit.py`.
"""

from mcp.server.mcpserver import MCPServer

from sideband.protocols.mcp.server import Reminders

reminders = Reminders()
server = MCPServer("deployments", extensions=[reminders], middleware=[reminders], log_level="WARNING")


@server.tool()
async def deploy(target: str) -> str:
    """Deploy the current revision."""
    await reminders.emit(f"{target} now runs revision 7.", dedupe_key=f"deployed:{target}", ttl_turns=2)
    return "deployed"


if __name__ == "__main__":
    server.run()

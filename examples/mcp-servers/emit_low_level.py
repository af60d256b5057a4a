"""The same with a low-level server of the SDK: the middleware is all that it needs."""

import asyncio

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

from sideband.protocols.mcp.server import Reminders

reminders = Reminders()


async def list_tools(_context: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
    schema = {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}
    return ListToolsResult(tools=[Tool(name="deploy", input_schema=schema)])


async def deploy(_context: object, params: CallToolRequestParams) -> CallToolResult:
    target = (params.arguments or {})["target"]
    await reminders.emit(f"{target} now runs revision 7.", dedupe_key=f"deployed:{target}", ttl_turns=2)
    return CallToolResult(content=[TextContent(text="deployed")])


server = Server("deployments", on_list_tools=list_tools, on_call_tool=deploy)
server.middleware.append(reminders)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())

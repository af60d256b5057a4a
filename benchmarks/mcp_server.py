"""The MCP server of the benchmark, on standard input and output. Each tool sends many notifications, and returns when."""

import asyncio
from time import perf_counter_ns
from typing import Any, Final

from mcp.server.mcpserver import Context, MCPServer

from sideband.protocols.mcp.server import Reminders

# Long enough for a notification to be received before the next one is sent.
PAUSE_SECONDS: Final = 0.002


def main() -> None:
    reminders = Reminders()
    server: MCPServer[Any] = MCPServer("benchmark", extensions=[reminders], middleware=[reminders], log_level="WARNING")

    @server.tool()
    async def send_changes(count: int, ctx: Context) -> str:
        """Send the notification of the SDK that is closest to a reminder: one without content."""
        sent = []
        for _ in range(count):
            await asyncio.sleep(PAUSE_SECONDS)
            sent.append(perf_counter_ns())
            await ctx.notify_tools_changed()
        return " ".join(map(str, sent))

    @server.tool()
    async def send_reminders(count: int) -> str:
        """Send reminders, each with a key of its own."""
        sent = []
        for number in range(count):
            await asyncio.sleep(PAUSE_SECONDS)
            sent.append(perf_counter_ns())
            await reminders.emit("The build is red since the last commit.", dedupe_key=f"k{number}", ttl_turns=2)
        return " ".join(map(str, sent))

    @server.tool()
    async def flood(count: int) -> str:
        """Send reminders on one key without a pause."""
        for number in range(count):
            await reminders.emit(f"Event {number}.", dedupe_key="status", ttl_turns=1)
            await asyncio.sleep(0)
        return f"Event {count - 1}."

    server.run()


if __name__ == "__main__":
    main()

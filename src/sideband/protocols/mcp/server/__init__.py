"""The server side of MCP: reminders that any server of the official SDK can emit, and a server for watchers."""

try:
    from sideband.protocols.mcp.server.reminders import Reminders
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "reminders of an MCP server need the SDK, which is not installed: pip install 'sideband[mcp]'",
        name=missing.name,
    ) from missing

__all__ = ["Reminders"]

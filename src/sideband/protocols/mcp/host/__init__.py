"""The host side of MCP: what programs import."""

from sideband.protocols.mcp.config import RemindersConfig, ServerConfig, read_config_file, read_given
from sideband.protocols.mcp.host.reports import Admission, HostReport, ReminderReport, ServerReport, ServerState

try:
    from sideband.protocols.mcp.host.host import READY_SECONDS, McpHost
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "the MCP host needs the SDK, which is not installed: pip install 'sideband[mcp]'", name=missing.name
    ) from missing

__all__ = [
    "READY_SECONDS",
    "Admission",
    "HostReport",
    "McpHost",
    "ReminderReport",
    "RemindersConfig",
    "ServerConfig",
    "ServerReport",
    "ServerState",
    "read_config_file",
    "read_given",
]

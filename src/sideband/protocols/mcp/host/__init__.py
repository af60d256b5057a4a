"""The host side of MCP: what programs import."""

from sideband.protocols.mcp.config import RemindersConfig, ServerConfig, read_config_file, read_given
from sideband.protocols.mcp.host.host import READY_SECONDS, McpHost
from sideband.protocols.mcp.host.reports import Admission, HostReport, ReminderReport, ServerReport, ServerState

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

"""The build watcher: an MCP server in a process of its own, which runs the tests after each change."""

import os
import sys
from typing import Final

from sideband.ports import Tool
from sideband.protocols.mcp.host import McpHost, ServerConfig
from sideband.rehearsal.sample import TESTS, SampleWorkspace, environment
from sideband.runtime.session import Session

SERVER: Final = "build-watcher"
_COMMAND: Final = (sys.executable, "-P", "-m", "sideband.cli", "mcp", "watch-command", "--name", "build", "--", *TESTS)
_INHERITED: Final = ("PATH", "PYTHONDONTWRITEBYTECODE")


class BuildWatcher:
    """Starts the server and delivers its reminders to a session. `failure` says why it could not be used."""

    def __init__(self, session: Session, workspace: SampleWorkspace) -> None:
        known = {name: value for name, value in environment().items() if name in _INHERITED}
        if "PYTHONPATH" in os.environ:
            known["PYTHONPATH"] = os.environ["PYTHONPATH"]
        config = ServerConfig(name=SERVER, command=_COMMAND, env=known, cwd=workspace.root)
        self._session = session
        self._host = McpHost([config])
        self.tools: tuple[Tool, ...] = ()
        self.failure: str | None = None

    async def start(self) -> None:
        """Connect to the server; it then runs the tests for the first time."""
        self._host.start()
        self.tools = tuple(await self._host.attach(self._session))
        self.failure = self._host.connections[SERVER].failure

    async def close(self) -> None:
        await self._host.close()

"""The temporary copy of the sample workspace, and the tools with which the agent works in it.

The sample files are package data. They have the suffix `.txt`, because they are no code of this package.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from sideband.ports import Tool, ToolContext, ToolOutput, Watcher
from sideband.tools.run import SECRET_NAME, UNATTENDED
from sideband.tools.workspace import workspace_tools

SUFFIX: Final = ".txt"
PREFIX: Final = "sideband-rehearsal-"
PYTHON: Final = Path(sys.executable).name
TESTS: Final = (PYTHON, "-m", "unittest", "-q")
_WRITING_TOOLS: Final = frozenset({"write_file", "edit_file"})


def environment() -> dict[str, str]:
    """The environment of commands: that of this process without secrets, with its Python first, which writes no caches."""
    inherited = {name: value for name, value in os.environ.items() if not SECRET_NAME.search(name)}
    path = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), inherited.get("PATH", ""))))
    return {**inherited, **UNATTENDED, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


class SampleWorkspace:
    """A copy of the sample files in a temporary folder; `remove` deletes it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        self.root = self._folder / "shop"
        self.root.mkdir()
        for sample in files("sideband.rehearsal").joinpath("workspace").iterdir():
            if sample.name.endswith(SUFFIX):
                self.write(sample.name.removesuffix(SUFFIX), sample.read_text(encoding="utf-8"))
        self.own_writes = OwnWrites(self.root)
        self.tools: Sequence[Tool] = [
            _NotingTool(tool, self.own_writes) if tool.name in _WRITING_TOOLS else tool
            for tool in workspace_tools(self.root, environment=environment())
        ]

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        """Write a file as an editor of the user would."""
        (self.root / name).write_text(text, encoding="utf-8")

    @property
    def is_removed(self) -> bool:
        return not self.root.exists()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class OwnWrites:
    """What the agent itself has written last, so that it is not told of its own changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._digests: dict[str, bytes] = {}
        self._open: dict[str, asyncio.Event] = {}

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """The agent writes this file in the block."""
        over = self._open[name] = asyncio.Event()
        try:
            yield
        finally:
            self._digests[name] = self._digest(name)
            self._open.pop(name, None)
            over.set()

    async def is_own(self, name: str) -> bool:
        """Whether the file is as the agent has left it."""
        if (writing := self._open.get(name)) is not None:
            await writing.wait()
        return self._digests.get(name) == self._digest(name)

    def _digest(self, name: str) -> bytes:
        try:
            return sha256((self._root / name).read_bytes()).digest()
        except OSError:
            return b""


class _NotingTool:
    """A tool that writes files, and notes what it has written."""

    def __init__(self, tool: Tool, writes: OwnWrites) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters: Mapping[str, Any] = tool.parameters
        self.idempotent = tool.idempotent
        self.watcher: Watcher | None = getattr(tool, "watcher", None)
        self._tool = tool
        self._writes = writes

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        with self._writes.writing(str(args.get("path"))):
            return await self._tool.call(args, context)

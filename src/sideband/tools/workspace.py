"""The built-in tools for one folder, and the watch over the files that they have read or written."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, overload

from sideband.ports import FileChange, Tool
from sideband.tools.read import list_dir, read_file
from sideband.tools.root import Root
from sideband.tools.run import run
from sideband.tools.search import search
from sideband.tools.seen import Seen
from sideband.tools.text import Caps
from sideband.tools.write import edit_file, write_file

DEFAULT_CAPS: Final = Caps()


class Workspace(Sequence[Tool]):
    """A sequence of tools that also reports changes to the files they have read or written."""

    def __init__(self, root: Root, seen: Seen, tools: Sequence[Tool]) -> None:
        self._root = root
        self._seen = seen
        self._tools = tuple(tools)

    @property
    def root(self) -> Path:
        """The folder, with all links resolved."""
        return self._root.path

    def changes(self) -> tuple[FileChange, ...]:
        """Files the agent has read or written that others have changed since the last call, each change once.

        Checks the status of every such file and reads those that differ. Blocking, and safe to call from any thread.
        """
        return self._seen.changes()

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tool]: ...
    def __getitem__(self, index: int | slice) -> Tool | Sequence[Tool]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)


def workspace_tools(
    root: str | os.PathLike[str],
    *,
    caps: Caps = DEFAULT_CAPS,
    environment: Mapping[str, str] | None = None,
    now_ns: Callable[[], int] = time.time_ns,
) -> Workspace:
    """The tools for working in `root`, which must be a folder; their paths cannot leave it.

    `environment` is the environment of commands (None: that of this process, without variables that are named like
    secrets). `now_ns` is the clock that file times are compared with.
    """
    folder = Root(root)
    seen = Seen(folder, now_ns)
    tools: tuple[Tool, ...] = (
        read_file(folder, seen, caps),
        write_file(folder, seen),
        edit_file(folder, seen),
        list_dir(folder, caps),
        search(folder, caps),
        run(folder, caps, environment),
    )
    return Workspace(folder, seen, tools)

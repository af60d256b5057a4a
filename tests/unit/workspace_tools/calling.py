"""A folder of the moment, its tools, and what they answer."""

import asyncio
import os
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sideband.ports import Tool, ToolOutput
from sideband.tools.workspace import Workspace

NOBODY = 65534


class Notes:
    """A loop's side of a call: what the tool said it has done for good."""

    call_id = "c1"

    def __init__(self) -> None:
        self.applied_changes: list[str] = []

    def applied(self, what: str) -> None:
        self.applied_changes.append(what)


def filled(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """`folder` with these files in it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return folder


def tool(workspace: Workspace, name: str) -> Tool:
    (found,) = (each for each in workspace if each.name == name)
    return found


async def acall(workspace: Workspace, name: str, notes: Notes | None = None, /, **args: object) -> ToolOutput:
    return await tool(workspace, name).call(args, notes or Notes())


def call(workspace: Workspace, name: str, notes: Notes | None = None, /, **args: object) -> ToolOutput:
    return asyncio.run(acall(workspace, name, notes, **args))


def refusal(workspace: Workspace, name: str, **args: object) -> str:
    """Why the call is refused; nothing was done for good."""
    notes = Notes()
    output = call(workspace, name, notes, **args)
    assert output.is_error, output.text
    assert notes.applied_changes == []
    return output.text


def done(workspace: Workspace, name: str, **args: object) -> str:
    """What a call that must succeed says."""
    output = call(workspace, name, **args)
    assert not output.is_error, output.text
    return output.text


@contextmanager
def without_privileges() -> Iterator[None]:
    """Run without privileges for a while, because file permissions do not bind the super-user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def a_public_folder() -> Iterator[Path]:
    """A folder that a user without privileges can reach."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o777)
        yield folder


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Inside, what all threads allocate is counted; what it gives tells how many bytes that was at most."""
    tracemalloc.start()
    peaks: list[int] = []
    try:
        yield lambda: peaks[0]
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()

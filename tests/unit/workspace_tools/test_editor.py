"""The workspace tools with an editor: its text counts, and the rules for reading and writing stay the same."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.editor import MAX_EDITOR_BYTES, EditorContext
from sideband.tools.root import WorkspacePath
from sideband.tools.run import CommandEnd, ShellCommand
from sideband.tools.seen import SETTLED_NS
from sideband.tools.text import HeadTail
from sideband.tools.tool import Halt
from sideband.tools.workspace import Workspace, workspace_tools
from tests.unit.workspace_tools.calling import Notes, filled, tool


class BufferEditor:
    """An editor with open files; `save` is what it does with a text that it was given (None: it keeps it unsaved)."""

    def __init__(self, folder: Path, buffers: dict[str, str], save: Callable[[str], str] | None = str) -> None:
        self._folder = folder
        self.buffers = buffers
        self._save = save
        self.end: CommandEnd | None = None
        self.can_write = True

    def read(self, place: WorkspacePath, halt: Halt) -> str | None:
        halt.check()
        return self.buffers.get(str(place))

    def write(self, place: WorkspacePath, text: str) -> bool:
        if not self.can_write:
            return False
        self.buffers[str(place)] = text
        if self._save is not None:
            (self._folder / str(place)).write_bytes(self._save(text).encode("utf-8"))
        return True

    async def run(self, command: ShellCommand, output: HeadTail, context: ToolContext) -> CommandEnd | None:
        if self.end is not None:
            output.feed(f"{context.call_id}: {command.line}\n".encode())
        return self.end


class Desk:
    """A workspace, and an editor that has files of it open."""

    def __init__(self, workspace: Workspace, editor: BufferEditor) -> None:
        self.workspace = workspace
        self.editor = editor

    def call(self, name: str, **args: object) -> ToolOutput:
        return asyncio.run(tool(self.workspace, name).call(args, EditorContext(Notes(), self.editor)))

    def text(self, name: str, **args: object) -> str:
        return self.call(name, **args).text

    def changes(self) -> list[tuple[str, str]]:
        return [(change.path, change.kind) for change in self.workspace.changes()]


@pytest.fixture(
    params=[
        pytest.param(time.time_ns, id="just-written"),
        pytest.param(lambda: time.time_ns() + 2 * SETTLED_NS, id="settled"),
    ]
)
def now_ns(request: pytest.FixtureRequest) -> Callable[[], int]:
    clock: Callable[[], int] = request.param
    return clock


def a_desk(folder: Path, now_ns: Callable[[], int], save: Callable[[str], str] | None = str, **buffers: str) -> Desk:
    names = {f"{name}.txt": text for name, text in buffers.items()}
    return Desk(workspace_tools(folder, now_ns=now_ns), BufferEditor(folder, names, save))


def test_unsaved_text_is_read_and_saving_it_is_no_news(tmp_path: Path, now_ns: Callable[[], int]) -> None:
    desk = a_desk(filled(tmp_path, {"a.txt": "saved"}), now_ns, a="typed")
    assert desk.text("read_file", path="a.txt") == "typed"
    assert desk.changes() == []
    filled(tmp_path, {"a.txt": "typed"})
    assert desk.changes() == []
    filled(tmp_path, {"a.txt": "something else"})
    assert desk.changes() == [("a.txt", "modified")]


def test_a_file_that_only_the_editor_has_is_read_and_written(tmp_path: Path, now_ns: Callable[[], int]) -> None:
    desk = a_desk(tmp_path, now_ns, None, draft="typed")
    assert desk.text("write_file", path="draft.txt", content="new").startswith("draft.txt was not read yet")
    assert desk.text("read_file", path="draft.txt") == "typed"
    assert desk.text("edit_file", path="draft.txt", old_string="typed", new_string="edited").startswith("edited draft")
    assert (desk.editor.buffers["draft.txt"], desk.changes()) == ("edited", [])
    desk.editor.can_write = False
    assert desk.text("write_file", path="draft.txt", content="on the disk") == "wrote draft.txt, 11 bytes"
    assert (tmp_path / "draft.txt").read_text(encoding="utf-8") == "on the disk"


def test_an_empty_text_of_a_file_that_does_not_exist_is_no_file(tmp_path: Path, now_ns: Callable[[], int]) -> None:
    desk = a_desk(tmp_path, now_ns, a="")
    assert desk.call("read_file", path="a.txt").is_error
    assert desk.text("write_file", path="a.txt", content="new") == "created a.txt, 3 bytes"


@pytest.mark.parametrize(
    ("save", "changes"),
    [
        pytest.param(None, [], id="kept-unsaved"),
        pytest.param(str, [], id="saved"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), [], id="saved-with-other-line-ends"),
        pytest.param(str.upper, [("a.txt", "modified")], id="formatted"),
    ],
)
def test_only_what_the_editor_saved_differently_is_reported(
    tmp_path: Path, now_ns: Callable[[], int], save: Callable[[str], str] | None, changes: list[tuple[str, str]]
) -> None:
    desk = a_desk(filled(tmp_path, {"a.txt": "old\n"}), now_ns, save, a="old\n")
    os.utime(tmp_path / "a.txt", (1, 1))
    desk.call("read_file", path="a.txt")
    assert desk.text("write_file", path="a.txt", content="new\ntext\n") == "wrote a.txt, 9 bytes"
    assert desk.changes() == changes
    assert desk.changes() == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0binary", id="binary"),
        pytest.param(b"latin \xe9", id="not-utf-8"),
        pytest.param(b"x" * (MAX_EDITOR_BYTES + 1), id="too-long"),
    ],
)
def test_what_an_editor_cannot_hold_is_read_from_the_disk(
    tmp_path: Path, now_ns: Callable[[], int], data: bytes
) -> None:
    desk = a_desk(filled(tmp_path, {"a.txt": data}), now_ns, a="of the editor")
    assert "of the editor" not in desk.text("read_file", path="a.txt")


def test_a_text_that_is_too_long_for_the_editor_is_written_to_the_disk(
    tmp_path: Path, now_ns: Callable[[], int]
) -> None:
    desk = a_desk(tmp_path, now_ns)
    desk.call("write_file", path="a.txt", content="x" * (MAX_EDITOR_BYTES + 1))
    assert desk.editor.buffers == {}
    assert (tmp_path / "a.txt").stat().st_size == MAX_EDITOR_BYTES + 1


def test_what_the_disk_refuses_is_refused_with_an_editor_too(tmp_path: Path, now_ns: Callable[[], int]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    desk = a_desk(filled(tmp_path, {"locked.txt": "x"}), now_ns, locked="x")
    (tmp_path / "locked.txt").chmod(0o444)
    desk.call("read_file", path="locked.txt")
    desk.editor.buffers |= {"sub": "text", ".git/config": "text"}
    assert desk.text("read_file", path="sub") == "sub is a folder; list_dir shows what is in it"
    assert desk.text("write_file", path="locked.txt", content="y") == "locked.txt is read-only"
    assert desk.text("write_file", path=".git/config", content="y").startswith(".git/config belongs to git")
    assert desk.editor.buffers["locked.txt"] == "x"


def test_a_command_runs_in_the_editor_if_it_can(tmp_path: Path, now_ns: Callable[[], int]) -> None:
    desk = a_desk(tmp_path, now_ns)
    assert desk.text("run", command="echo here") == "here\n"
    desk.editor.end = CommandEnd(0)
    assert desk.text("run", command="echo here") == "c1: echo here\n"
    desk.editor.end = CommandEnd(None, kept_end=True)
    output = desk.call("run", command="x")
    assert output.text == "c1: x\n[its exit code is not known; the beginning of its output is left out]"
    assert (output.is_error, output.truncated) == (True, True)

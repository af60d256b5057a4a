"""No path leads out of the root, even if another process creates a link on the way."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from sideband.tools.read import walk
from sideband.tools.root import Root, WorkspacePath
from sideband.tools.seen import Seen
from sideband.tools.tool import Halt, Refused
from sideband.tools.workspace import Workspace, workspace_tools
from sideband.tools.write import put
from tests.unit.workspace_tools.calling import call, done, filled, refusal

HIDDEN = "the content of a file outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return filled(tmp_path / "outside", {"secret.txt": HIDDEN, "folder/secret.txt": HIDDEN})


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    """A folder with every kind of link: out of it, into it, in a circle, to nothing."""
    folder = filled(tmp_path / "root", {"inside.txt": "inside\n", "folder/inside.txt": "inside\n"})
    links = {
        "file-link": outside / "secret.txt",
        "folder-link": outside,
        "relative-link": Path("../outside/secret.txt"),
        "folder/climbing-link": Path("../../outside"),
        "dangling-link": outside / "not-there.txt",
        "chain": Path("file-link"),
        "parent": Path(".."),
        "circle": Path("circle"),
        "root-link": Path("/"),
        "process-link": Path("/proc/self/cwd"),
        "good-link": Path("folder/inside.txt"),
        "good-folder": folder / "folder",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return workspace_tools(root)


ESCAPES = [
    pytest.param("../outside/secret.txt", id="a-parent"),
    pytest.param("..", id="only-a-parent"),
    pytest.param("folder/../../outside/secret.txt", id="a-parent-in-the-middle"),
    pytest.param("folder/..", id="a-parent-that-stays-inside"),
    pytest.param("./../outside/secret.txt", id="a-parent-behind-a-dot"),
    pytest.param("{outside}/secret.txt", id="an-absolute-path"),
    pytest.param("{root}/../outside/secret.txt", id="an-absolute-path-through-the-root"),
    pytest.param("{root}-other/secret.txt", id="a-neighbour-whose-name-begins-like-the-root"),
    pytest.param("//etc/passwd", id="two-slashes"),
    pytest.param("file-link", id="a-link-to-a-file"),
    pytest.param("relative-link", id="a-relative-link"),
    pytest.param("chain", id="a-link-to-a-link"),
    pytest.param("folder-link/secret.txt", id="a-link-in-a-parent"),
    pytest.param("folder/climbing-link/secret.txt", id="a-relative-link-in-a-parent"),
    pytest.param("folder-link/folder/secret.txt", id="a-link-further-up"),
    pytest.param("dangling-link", id="a-link-to-nothing-outside"),
    pytest.param("parent/outside/secret.txt", id="a-link-to-the-parent"),
    pytest.param("root-link/etc/passwd", id="a-link-to-the-root-of-the-file-system"),
    pytest.param("process-link/pyproject.toml", id="a-link-of-the-kernel"),
    pytest.param("circle", id="a-link-to-itself"),
    pytest.param("circle/secret.txt", id="below-a-link-to-itself"),
    pytest.param("~/secret.txt", id="a-home"),
    pytest.param("~", id="only-a-home"),
    pytest.param("", id="nothing"),
    pytest.param("inside.txt\0.py", id="a-nul"),
    pytest.param("n" * 300, id="a-name-that-is-too-long"),
    pytest.param("inside.txt/deeper", id="below-a-file"),
]
CALLS = [
    pytest.param("read_file", {}, id="read_file"),
    pytest.param("write_file", {"content": "overwritten"}, id="write_file"),
    pytest.param("edit_file", {"old_string": HIDDEN, "new_string": "edited"}, id="edit_file"),
    pytest.param("list_dir", {}, id="list_dir"),
    pytest.param("search", {"pattern": "content"}, id="search"),
]


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize(("name", "args"), CALLS)
def test_a_path_that_leads_out_is_refused_and_nothing_changes(
    workspace: Workspace, root: Path, outside: Path, *, name: str, args: dict[str, Any], path: str
) -> None:
    before = tree(root), tree(outside)
    answer = refusal(workspace, name, path=path.format(root=root, outside=outside), **args)
    assert HIDDEN not in answer
    assert (tree(root), tree(outside)) == before


@pytest.mark.parametrize("path", ESCAPES)
def test_a_command_is_not_run_in_a_folder_outside(workspace: Workspace, root: Path, outside: Path, path: str) -> None:
    before = tree(root), tree(outside)
    assert refusal(workspace, "run", cwd=path.format(root=root, outside=outside), command="touch ran")
    assert (tree(root), tree(outside)) == before


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("inside.txt", id="relative"),
        pytest.param("./inside.txt", id="with-a-dot"),
        pytest.param("folder//inside.txt", id="with-two-slashes"),
        pytest.param("{root}/inside.txt", id="absolute"),
        pytest.param("good-link", id="a-link-that-stays-inside"),
        pytest.param("good-folder/inside.txt", id="a-link-to-a-folder-inside"),
    ],
)
def test_a_path_that_stays_inside_is_read(workspace: Workspace, root: Path, path: str) -> None:
    assert done(workspace, "read_file", path=path.format(root=root)) == "inside\n"


def test_a_root_that_is_a_link_is_the_folder_it_leads_to(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    workspace = workspace_tools(tmp_path / "alias")
    assert workspace.root == root
    assert done(workspace, "read_file", path=str(tmp_path / "alias" / "inside.txt")) == "inside\n"


def test_a_folder_that_is_named_like_a_home_can_be_used(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"~/notes.txt": "mine"}))
    assert done(workspace, "read_file", path="~/notes.txt") == "mine"


@pytest.mark.parametrize("path", ["missing", "file.txt"])
def test_a_root_must_be_a_folder(tmp_path: Path, path: str) -> None:
    filled(tmp_path, {"file.txt": ""})
    with pytest.raises(OSError, match="directory"):
        workspace_tools(tmp_path / path)


def test_a_write_through_a_link_that_stays_inside_keeps_the_link(workspace: Workspace, root: Path) -> None:
    done(workspace, "read_file", path="good-link")
    done(workspace, "write_file", path="good-link", content="new\n")
    assert (root / "good-link").is_symlink()
    assert (root / "folder" / "inside.txt").read_text(encoding="utf-8") == "new\n"


def test_a_write_to_a_hard_link_leaves_the_file_outside_alone(workspace: Workspace, root: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", root / "hard-link")
    done(workspace, "read_file", path="hard-link")
    done(workspace, "write_file", path="hard-link", content="new\n")
    assert (outside / "secret.txt").read_text(encoding="utf-8") == HIDDEN


# Between check and use: the path has been resolved, then another process creates a link there.


@pytest.mark.parametrize(
    "swapped",
    [pytest.param("folder", id="a-folder-above"), pytest.param("folder/inside.txt", id="the-file-itself")],
)
def test_a_link_that_appears_after_the_check_is_not_followed(root: Path, outside: Path, swapped: str) -> None:
    (outside / "inside.txt").write_text(HIDDEN, encoding="utf-8")
    confined = Root(root)
    place = confined.resolve("folder/inside.txt")
    (root / swapped).rename(root / "moved-away")
    (root / swapped).symlink_to(outside if swapped == "folder" else outside / "inside.txt")

    with pytest.raises(Refused):
        confined.read(place)
    with pytest.raises((OSError, Refused)):
        confined.digest(place)


def test_a_folder_that_becomes_a_link_is_not_written_into(root: Path, outside: Path) -> None:
    confined = Root(root)
    place = confined.resolve("new/deeper/file.txt")
    (root / "new").symlink_to(outside)
    before = tree(outside)

    with pytest.raises(Refused):
        put(confined, Seen(confined, lambda: 0), place, b"data", over=None, halt=Halt())
    assert tree(outside) == before


def test_a_folder_that_becomes_a_link_is_not_walked_into(root: Path, outside: Path) -> None:
    walking = walk(Root(root), WorkspacePath(()), Halt())
    found = [str(next(walking).place)]
    while found[-1] != "folder":
        found.append(str(next(walking).place))
    (root / "folder").rename(root / "moved-away")
    (root / "folder").symlink_to(outside)
    assert not [entry for entry in walking if entry.place.parts[0] == "folder" and len(entry.place.parts) > 1]


def test_a_link_that_appears_after_the_look_is_not_followed(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confined = Root(root)
    regular = (root / "inside.txt").stat()
    (root / "inside.txt").unlink()
    (root / "inside.txt").symlink_to(outside / "secret.txt")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda *_, **__: regular)
        with pytest.raises(Refused):
            confined.read(WorkspacePath(("inside.txt",)))


# Files that are not regular.


@pytest.mark.parametrize(("name", "args"), CALLS[:3])
@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_a_file_that_is_not_regular_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, args: dict[str, Any], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "fifo":
        os.mkfifo("special")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("special")
    assert "not a regular file" in refusal(workspace_tools(tmp_path), name, path="special", **args)


def test_a_device_is_refused() -> None:
    assert "not a regular file" in refusal(workspace_tools("/dev"), "read_file", path="null")


def test_a_pipe_that_takes_the_place_of_a_file_after_the_look_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confined = Root(root)
    regular = (root / "inside.txt").stat()
    (root / "inside.txt").unlink()
    os.mkfifo(root / "inside.txt")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda *_, **__: regular)
        with pytest.raises(Refused, match="not a regular file"):
            confined.read(WorkspacePath(("inside.txt",)))


# The repository's own data.


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(".git/config", id="a-file-that-is-there"),
        pytest.param(".git/hooks/pre-commit", id="a-new-hook"),
        pytest.param(".GIT/config", id="in-upper-case"),
        pytest.param("sub/.git/config", id="in-a-submodule"),
        pytest.param("sub/.git", id="a-new-pointer"),
        pytest.param("to-git/config", id="through-a-link"),
    ],
)
def test_the_data_of_git_cannot_be_written(tmp_path: Path, path: str) -> None:
    filled(tmp_path, {".git/config": "[core]\n", "sub/file.txt": ""})
    (tmp_path / "to-git").symlink_to(".git")
    before = tree(tmp_path)
    workspace = workspace_tools(tmp_path)
    call(workspace, "read_file", path=path)
    assert "git" in refusal(workspace, "write_file", path=path, content="[core]\n\thooksPath = /tmp\n")
    assert refusal(workspace, "edit_file", path=path, old_string="core", new_string="alias")
    assert tree(tmp_path) == before


def test_the_data_of_git_can_be_read(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {".git/HEAD": "ref: refs/heads/main\n"}))
    assert done(workspace, "read_file", path=".git/HEAD") == "ref: refs/heads/main\n"


def test_files_that_are_only_named_like_git_can_be_written(tmp_path: Path) -> None:
    workspace = workspace_tools(tmp_path)
    for name in (".gitignore", ".github/workflows/test.yml", "git/config"):
        done(workspace, "write_file", path=name, content="text")

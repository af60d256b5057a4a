"""Listing: what is there, in order, and how much of it is shown."""

import os
from pathlib import Path

import pytest

from sideband.tools.text import Caps
from sideband.tools.workspace import Workspace, workspace_tools
from tests.unit.workspace_tools.calling import a_public_folder, call, done, filled, refusal, without_privileges


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    filled(
        tmp_path,
        {
            "b.txt": "12345",
            ".hidden": "",
            "a/one.py": "1",
            "a/deep/two.py": "22",
            ".git/config": "",
            "node_modules/lib/index.js": "",
        },
    )
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    return workspace_tools(tmp_path)


def test_a_folder_is_listed_with_kinds_and_sizes(workspace: Workspace) -> None:
    output = call(workspace, "list_dir")
    assert output.text.splitlines() == [
        "dir             .git/",
        "file          0 .hidden",
        "dir             a/",
        "file          5 b.txt",
        "link            link -> a",
        "dir             node_modules/",
        "other           pipe",
    ]
    assert (output.truncated, output.data) == (False, {"path": ".", "entries": 7})


def test_deeper_levels_follow_their_folder(workspace: Workspace) -> None:
    names = [line[16:] for line in done(workspace, "list_dir", depth=8).splitlines()]
    assert names == [
        ".git/",
        ".hidden",
        "a/",
        "a/deep/",
        "a/deep/two.py",
        "a/one.py",
        "b.txt",
        "link -> a",
        "node_modules/",
        "pipe",
    ]


def test_the_depth_is_how_many_levels_are_shown(workspace: Workspace) -> None:
    names = [line[16:] for line in done(workspace, "list_dir", path="a", depth=1).splitlines()]
    assert names == ["deep/", "one.py"]


@pytest.mark.parametrize(("path", "name"), [("link", "one.py"), ("node_modules", "lib/")])
def test_a_folder_that_is_asked_for_by_name_is_listed(workspace: Workspace, path: str, name: str) -> None:
    assert name in done(workspace, "list_dir", path=path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        pytest.param(".git", "git's own data", id="git"),
        pytest.param("missing", "missing: No such file or directory", id="missing"),
        pytest.param("b.txt", "b.txt: Not a directory", id="a-file"),
    ],
)
def test_what_cannot_be_listed_is_refused(workspace: Workspace, path: str, why: str) -> None:
    assert why in refusal(workspace, "list_dir", path=path)


def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    workspace = workspace_tools(
        filled(tmp_path, {f"{number:02}": "" for number in range(10)}), caps=Caps(list_entries=3)
    )
    output = call(workspace, "list_dir")
    assert output.text.splitlines()[0] == "[truncated: 3 of 10 entries, 57 of 190 bytes]"
    assert [line[16:] for line in output.text.splitlines()[1:]] == ["00", "01", "02"]
    assert (output.original_bytes, output.data["entries"]) == (190, 10)


def test_an_entry_that_goes_while_it_is_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "", "b.txt": ""}))
    status = os.stat

    def deleting(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if path == "a.txt":
            (tmp_path / "a.txt").unlink()
        return status(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", deleting)
    assert done(workspace, "list_dir") == "file          0 b.txt\n"


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    assert done(workspace_tools(tmp_path), "list_dir") == "[the folder is empty]"


def test_a_name_cannot_pass_for_another_line(tmp_path: Path) -> None:
    (tmp_path / "a\nfile          0 forged").touch()
    assert done(workspace_tools(tmp_path), "list_dir") == "file          0 a\\nfile          0 forged\n"


def test_a_name_that_is_no_text_is_shown_as_text(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).touch()
    except OSError:
        pytest.skip("this file system has only names that are text")
    answer = done(workspace_tools(tmp_path), "list_dir")
    assert answer.encode("utf-8") == b"file          0 caf\\udce9\n"


def test_a_folder_that_may_not_be_entered_is_marked() -> None:
    with a_public_folder() as folder:
        filled(folder, {"closed/a.txt": "", "open/b.txt": ""})
        (folder / "closed").chmod(0)
        workspace = workspace_tools(folder)
        with without_privileges():
            lines = done(workspace, "list_dir", depth=2).splitlines()
        (folder / "closed").chmod(0o700)
    assert lines == [
        "dir             closed/",
        "unreadable      closed",
        "dir             open/",
        "file          0 open/b.txt",
    ]

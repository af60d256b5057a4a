"""Files: which are looked at, in which order, and what happens with those that cannot be read."""

import os
import socket
from pathlib import Path

import pytest

from sideband.lint.files import MAX_BYTES, File, NotReadable, content, files_below


def a_tree(root: Path, *names: str) -> Path:
    """A folder with these files in it."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    return root


def names_below(root: Path, *paths: str) -> list[str]:
    """The files below, as paths from the root; one that cannot be read is its complaint."""
    return [
        found.path.relative_to(root).as_posix() if isinstance(found, File) else str(found).replace(f"{root}/", "")
        for found in files_below([root / path for path in paths] or [root])
    ]


def test_a_folder_is_searched_in_the_order_of_names(tmp_path: Path) -> None:
    a_tree(tmp_path, "b.py", "a/z.toml", "a/b/c.json", "c.jsonl", "a.ndjson", "A.py", "readme.md", "script")
    assert names_below(tmp_path) == ["A.py", "a/b/c.json", "a/z.toml", "a.ndjson", "b.py", "c.jsonl"]


def test_what_is_hidden_or_made_by_machines_is_left_out(tmp_path: Path) -> None:
    folders = [".venv", ".git", "node_modules", "__pycache__", "build", "dist"]
    a_tree(tmp_path, *(f"{folder}/a.py" for folder in folders), *(f"deep/{folder}/a.py" for folder in folders), ".a.py")
    a_tree(tmp_path, "builder/a.py", "dist.py")
    assert names_below(tmp_path) == ["builder/a.py", "dist.py"]


def test_a_folder_that_is_named_is_searched_whatever_its_name(tmp_path: Path) -> None:
    a_tree(tmp_path, ".hidden/a.py", "build/b.py")
    assert names_below(tmp_path, ".hidden", "build") == [".hidden/a.py", "build/b.py"]


def test_every_file_comes_once_however_often_it_is_named(tmp_path: Path) -> None:
    a_tree(tmp_path, "a/x.py", "b.py")
    assert names_below(tmp_path, "b.py", "a", "a/x.py", "a/../b.py", "") == ["b.py", "a/x.py"]


def test_a_file_that_is_named_is_marked_as_such(tmp_path: Path) -> None:
    a_tree(tmp_path, "a.py", "b/c.py")
    assert list(files_below([tmp_path / "a.py", tmp_path / "b"])) == [
        File(tmp_path / "a.py", named=True),
        File(tmp_path / "b" / "c.py", named=False),
    ]


def test_links_are_not_followed_and_cannot_lead_in_circles(tmp_path: Path) -> None:
    a_tree(tmp_path, "real/a.py")
    (tmp_path / "real" / "circle").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "a.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere.py")
    assert names_below(tmp_path) == ["real/a.py"]
    assert names_below(tmp_path, "link.py") == ["link.py"]
    assert names_below(tmp_path, "dangling.py") == ["dangling.py: No such file or directory"]


def test_a_path_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    assert names_below(tmp_path, "missing", "a.py") == [
        "missing: No such file or directory",
        "a.py: No such file or directory",
    ]


def test_a_file_of_another_kind_is_refused_when_it_is_named(tmp_path: Path) -> None:
    a_tree(tmp_path, "readme.md")
    (complaint,) = names_below(tmp_path, "readme.md")
    assert (
        complaint
        == "readme.md: files of this kind are not checked; the suffix must be one of .py .json .jsonl .ndjson .toml"
    )


def test_what_is_not_a_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(tmp_path / "socket.json"))
        assert names_below(tmp_path, "pipe.py") == ["pipe.py: not a regular file"]
        assert names_below(tmp_path) == []


def test_a_name_that_is_not_utf_8_is_a_name(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("", encoding="utf-8")
    assert names_below(tmp_path) == [os.fsdecode(b"caf\xe9.py")]


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    a_tree(tmp_path, "a.py")
    # Permissions do not keep every user out, so the system's refusal is played.
    monkeypatch.setattr(os, "scandir", refuse)
    assert [str(found) for found in files_below([tmp_path])] == [f"{tmp_path}: Permission denied"]


def test_the_content_is_bytes_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff" * MAX_BYTES)
    assert content(path) == b"\xff" * MAX_BYTES
    path.write_bytes(b"\xff" * (MAX_BYTES + 1))
    assert content(path) is None


def test_a_file_that_is_gone_by_now_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match=r"gone\.py: No such file or directory"):
        content(tmp_path / "gone.py")

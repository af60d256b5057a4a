"""Changes by others to files that the agent knows are reported, each once."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sideband.ports import FileChange
from sideband.tools.root import MAX_FILE_BYTES, Root, WorkspacePath
from sideband.tools.seen import SETTLED_NS, Seen
from sideband.tools.tool import Halt
from sideband.tools.workspace import Workspace, workspace_tools
from sideband.tools.write import put
from tests.unit.workspace_tools.calling import a_public_folder, done, filled, refusal, without_privileges


def later() -> int:
    """A clock by which every file was written long ago."""
    return time.time_ns() + 2 * SETTLED_NS


def aged(folder: Path) -> Path:
    """`folder` with files from long ago: what happens to them now has another time, however fast this machine is."""
    for path in folder.rglob("*.txt"):
        os.utime(path, (1, 1))
    return folder


@pytest.fixture(params=[pytest.param(time.time_ns, id="just-written"), pytest.param(later, id="settled")])
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Workspace:
    """A workspace in which the agent has read a.txt and sub/b.txt, but not other.txt."""
    aged(filled(tmp_path, {"a.txt": "old", "sub/b.txt": "old", "other.txt": "old"}))
    workspace = workspace_tools(tmp_path, now_ns=request.param)
    done(workspace, "read_file", path="a.txt")
    done(workspace, "read_file", path="sub/b.txt")
    return workspace


def told(workspace: Workspace) -> list[tuple[str, str]]:
    return [(change.path, change.kind) for change in workspace.changes()]


def appended(folder: Path) -> None:
    with (folder / "a.txt").open("a", encoding="utf-8") as file:
        file.write("more")


def saved_by_an_editor(folder: Path) -> None:
    (folder / "a.txt.new").write_text("new", encoding="utf-8")
    (folder / "a.txt.new").replace(folder / "a.txt")


def with_the_old_times(folder: Path) -> None:
    status = (folder / "a.txt").stat()
    (folder / "a.txt").write_text("new", encoding="utf-8")
    # The change time cannot be set, and its clock has steps: repeat until it differs.
    while (folder / "a.txt").stat().st_ctime_ns == status.st_ctime_ns or (folder / "a.txt").stat().st_mtime != 1:
        os.utime(folder / "a.txt", (1, 1))


def replaced_by_a_folder(folder: Path) -> None:
    (folder / "a.txt").unlink()
    (folder / "a.txt").mkdir()


def replaced_by_a_link(folder: Path) -> None:
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to("other.txt")


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        pytest.param(lambda folder: filled(folder, {"a.txt": "new"}), ["modified"], id="same-size"),
        pytest.param(lambda folder: filled(folder, {"a.txt": ""}), ["modified"], id="emptied"),
        pytest.param(appended, ["modified"], id="appended"),
        pytest.param(saved_by_an_editor, ["modified"], id="replaced-by-a-rename"),
        pytest.param(with_the_old_times, ["modified"], id="with-its-old-times"),
        pytest.param(lambda folder: (folder / "a.txt").unlink(), ["deleted"], id="deleted"),
        pytest.param(replaced_by_a_folder, ["deleted"], id="now-a-folder"),
        pytest.param(replaced_by_a_link, ["deleted"], id="now-a-link"),
        pytest.param(lambda folder: filled(folder, {"a.txt": "old"}), [], id="saved-without-a-change"),
        pytest.param(lambda folder: (folder / "a.txt").touch(), [], id="touched"),
        pytest.param(lambda folder: (folder / "a.txt").chmod(0o600), [], id="other-mode"),
        pytest.param(lambda folder: filled(folder, {"other.txt": "new"}), [], id="a-file-the-agent-does-not-know"),
        pytest.param(lambda _: None, [], id="nothing"),
    ],
)
def test_a_change_by_others_is_told_once(
    workspace: Workspace, tmp_path: Path, change: Callable[[Path], object], kinds: list[str]
) -> None:
    change(tmp_path)
    assert told(workspace) == [("a.txt", kind) for kind in kinds]
    assert told(workspace) == []


def test_nothing_is_told_of_an_untouched_workspace(workspace: Workspace) -> None:
    assert workspace.changes() == ()


def test_a_folder_that_goes_takes_its_files_along(workspace: Workspace, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "sub")
    assert told(workspace) == [("sub/b.txt", "deleted")]
    filled(tmp_path, {"sub": "now a file"})
    assert told(workspace) == []


def test_a_deleted_file_that_comes_back_is_told_as_created(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a.txt").unlink()
    assert told(workspace) == [("a.txt", "deleted")]
    filled(tmp_path, {"a.txt": "back"})
    assert told(workspace) == [("a.txt", "created")]
    assert told(workspace) == []


def test_a_file_that_went_and_came_back_unchanged_between_two_looks_is_no_news(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").unlink()
    filled(tmp_path, {"a.txt": "old"})
    assert told(workspace) == []


def test_each_further_change_is_told(workspace: Workspace, tmp_path: Path) -> None:
    for content in ("first", "second", "old"):
        filled(tmp_path, {"a.txt": content})
        assert told(workspace) == [("a.txt", "modified")]


def test_a_change_that_the_agent_has_read_itself_is_no_news(workspace: Workspace, tmp_path: Path) -> None:
    filled(tmp_path, {"a.txt": "new"})
    done(workspace, "read_file", path="a.txt")
    assert told(workspace) == []


def test_the_agents_own_writes_are_no_news(workspace: Workspace) -> None:
    done(workspace, "write_file", path="a.txt", content="mine")
    done(workspace, "edit_file", path="sub/b.txt", old_string="old", new_string="mine")
    done(workspace, "write_file", path="made.txt", content="mine")
    assert told(workspace) == []


def test_a_change_after_the_agents_own_write_is_told(workspace: Workspace, tmp_path: Path) -> None:
    done(workspace, "write_file", path="a.txt", content="mine")
    filled(tmp_path, {"a.txt": "ours"})
    assert workspace.changes() == (FileChange(path="a.txt", kind="modified"),)


def test_what_a_command_changed_is_told_because_the_agent_has_not_seen_it(workspace: Workspace) -> None:
    done(workspace, "run", command="echo formatted > a.txt")
    assert told(workspace) == [("a.txt", "modified")]


def test_a_refused_read_makes_no_file_known(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.bin": b"\0"}))
    refusal(workspace, "read_file", path="a.bin")
    filled(tmp_path, {"a.bin": b"\0\0"})
    assert told(workspace) == []


def test_a_file_read_through_a_link_is_known_by_its_own_name(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("other.txt")
    done(workspace, "read_file", path="link")
    filled(tmp_path, {"other.txt": "new"})
    assert told(workspace) == [("other.txt", "modified")]


def test_what_cannot_be_read_any_more_is_not_said_to_have_changed() -> None:
    with a_public_folder() as folder:
        filled(folder, {"a.txt": "old"})
        workspace = workspace_tools(folder)
        done(workspace, "read_file", path="a.txt")
        (folder / "a.txt").chmod(0)
        with without_privileges():
            assert told(workspace) == []
        (folder / "a.txt").chmod(0o600)
        filled(folder, {"a.txt": "new"})
        assert told(workspace) == [("a.txt", "modified")]


def opened_by(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []
    with monkeypatch.context() as patch:
        open_file = os.open

        def noting(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            opened.append(str(path))
            return open_file(path, flags, mode, dir_fd=dir_fd)

        patch.setattr(os, "open", noting)
        act()
    return opened


def test_a_file_that_looks_the_same_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_tools(aged(filled(tmp_path, {"a.txt": "old"})), now_ns=later)
    done(workspace, "read_file", path="a.txt")
    assert opened_by(workspace.changes, monkeypatch) == []
    (tmp_path / "a.txt").touch()
    assert "a.txt" in opened_by(workspace.changes, monkeypatch)
    assert opened_by(workspace.changes, monkeypatch) == []


def test_a_file_that_was_written_just_now_is_read_again_because_its_times_may_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    done(workspace, "read_file", path="a.txt")
    assert "a.txt" in opened_by(workspace.changes, monkeypatch)


# In between.


def test_a_read_overtaken_by_the_agents_own_write_does_not_make_that_write_foreign(tmp_path: Path) -> None:
    root = Root(filled(tmp_path, {"a.txt": "old"}))
    seen = Seen(root, time.time_ns)
    place = WorkspacePath(("a.txt",))
    since, content = seen.writes(place), root.read(place)
    put(root, seen, place, b"new", over=content, halt=Halt())
    seen.read(place, content, since=since)
    assert seen.changes() == ()


@pytest.mark.parametrize("is_new", [True, False], ids=["a-new-file", "a-file-that-was-there"])
def test_changes_never_sees_the_agents_own_write_before_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    held: list[tuple[str, bool]] = []

    def now_ns() -> int:
        held.append(("note", seen.noting.locked()))
        return time.time_ns()

    root = Root(tmp_path if is_new else filled(tmp_path, {"a.txt": "old"}))
    seen = Seen(root, now_ns)
    place = WorkspacePath(("a.txt",))
    before = None if is_new else root.read(place)
    move_name = "link" if is_new else "rename"
    move = getattr(os, move_name)

    def moving(*args: object, **options: object) -> None:
        held.append(("move", seen.noting.locked()))
        move(*args, **options)

    monkeypatch.setattr(os, move_name, moving)
    put(root, seen, place, b"new", over=before, halt=Halt())
    assert held == [("move", True), ("note", True)]
    assert seen.changes() == ()


def test_a_write_that_comes_while_a_look_is_under_way_is_not_undone_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(filled(tmp_path, {"a.txt": "old"}))
    seen = Seen(root, time.time_ns)
    place = WorkspacePath(("a.txt",))
    content = root.read(place)
    seen.read(place, content, since=0)
    digest = Root.digest

    def digest_then_write(self: Root, looked_at: WorkspacePath) -> bytes:
        found = digest(self, looked_at)
        put(root, seen, place, b"new", over=content, halt=Halt())
        return found

    monkeypatch.setattr(Root, "digest", digest_then_write)
    assert seen.changes() == ()
    monkeypatch.undo()
    assert seen.changes() == ()
    assert (tmp_path / "a.txt").read_bytes() == b"new"


def a_large_file(path: Path, *, with_a: bytes, modified_ns: int) -> None:
    """A file that is too large to be read, with `with_a` in its middle."""
    with path.open("wb") as sparse:
        sparse.truncate(MAX_FILE_BYTES + 1)
        sparse.seek(MAX_FILE_BYTES // 2)
        sparse.write(with_a)
    os.utime(path, ns=(modified_ns, modified_ns))


def test_a_file_that_is_too_large_is_known_by_its_size_and_time_and_not_read(tmp_path: Path) -> None:
    root, names = Root(tmp_path), ("one.bin", "other.bin", "later.bin")
    for name, content, modified_ns in zip(names, (b"x", b"y", b"x"), (1, 1, 2), strict=True):
        a_large_file(tmp_path / name, with_a=content, modified_ns=modified_ns)
    one, other, later_one = (root.digest(WorkspacePath((name,))) for name in names)
    assert one == other != later_one


def test_a_file_that_has_grown_too_large_is_told_once(workspace: Workspace, tmp_path: Path) -> None:
    a_large_file(tmp_path / "a.txt", with_a=b"x", modified_ns=time.time_ns())
    assert told(workspace) == [("a.txt", "modified")]
    assert told(workspace) == []
    a_large_file(tmp_path / "a.txt", with_a=b"y", modified_ns=time.time_ns())
    assert told(workspace) == [("a.txt", "modified")]

"""Writing: in one step or not at all, and never over something the agent has not seen."""

import asyncio
import errno
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sideband.tools.workspace import Workspace, workspace_tools
from tests.unit.workspace_tools.calling import (
    Notes,
    a_public_folder,
    acall,
    call,
    done,
    filled,
    refusal,
    without_privileges,
)


def text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def test_a_new_file_is_created_with_its_folders(tmp_path: Path) -> None:
    notes = Notes()
    output = call(workspace_tools(tmp_path), "write_file", notes, path="src/new/a.py", content="print('hé')\r\n")
    assert output.text == "created src/new/a.py, 14 bytes"
    assert output.data == {"path": "src/new/a.py", "bytes": 14, "created": True}
    assert text(tmp_path / "src/new/a.py") == "print('hé')\r\n"
    assert notes.applied_changes == ["created src/new/a.py"]


def test_a_file_that_was_read_is_replaced(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    notes = Notes()
    done(workspace, "read_file", path="a.txt")
    output = call(workspace, "write_file", notes, path="a.txt", content="new")
    assert (output.text, output.data["created"]) == ("wrote a.txt, 3 bytes", False)
    assert notes.applied_changes == ["wrote a.txt"]
    assert text(tmp_path / "a.txt") == "new"


def test_what_was_written_can_be_written_again(tmp_path: Path) -> None:
    workspace = workspace_tools(tmp_path)
    done(workspace, "write_file", path="a.txt", content="first")
    done(workspace, "write_file", path="a.txt", content="second")
    assert text(tmp_path / "a.txt") == "second"


def test_a_file_that_was_not_read_is_not_replaced(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    assert "read_file it first" in refusal(workspace, "write_file", path="a.txt", content="new")
    assert text(tmp_path / "a.txt") == "old"


@pytest.mark.parametrize("changed", [pytest.param("other", id="other-size"), pytest.param("OLD", id="same-size")])
def test_a_file_that_changed_since_it_was_read_is_not_replaced(tmp_path: Path, changed: str) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    done(workspace, "read_file", path="a.txt")
    filled(tmp_path, {"a.txt": changed})
    assert "changed since it was read" in refusal(workspace, "write_file", path="a.txt", content="new")
    assert text(tmp_path / "a.txt") == changed
    done(workspace, "read_file", path="a.txt")
    done(workspace, "write_file", path="a.txt", content="new")


def test_being_told_of_a_change_is_not_the_same_as_having_read_it(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    done(workspace, "read_file", path="a.txt")
    filled(tmp_path, {"a.txt": "changed"})
    assert workspace.changes()
    assert "changed since it was read" in refusal(workspace, "write_file", path="a.txt", content="new")


def test_a_file_that_was_only_saved_again_can_be_replaced(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    done(workspace, "read_file", path="a.txt")
    filled(tmp_path, {"a.txt": "old"})
    done(workspace, "write_file", path="a.txt", content="new")


def test_a_file_that_was_deleted_meanwhile_is_created_again(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    done(workspace, "read_file", path="a.txt")
    (tmp_path / "a.txt").unlink()
    assert done(workspace, "write_file", path="a.txt", content="new").startswith("created")


def test_the_mode_is_kept_but_not_the_right_to_act_as_the_owner(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.sh": "old"}))
    (tmp_path / "a.sh").chmod(0o4751)
    done(workspace, "read_file", path="a.sh")
    done(workspace, "write_file", path="a.sh", content="new")
    assert stat.S_IMODE((tmp_path / "a.sh").stat().st_mode) == 0o751


def test_a_new_file_has_the_mode_that_any_program_would_give_it(tmp_path: Path) -> None:
    done(workspace_tools(tmp_path), "write_file", path="a.txt", content="")
    (tmp_path / "b.txt").touch()
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


def test_the_owner_is_kept_where_that_is_possible() -> None:
    with a_public_folder() as folder:
        filled(folder, {"a.txt": "old"})
        (folder / "a.txt").chmod(0o666)
        owner = (folder / "a.txt").stat().st_uid
        workspace = workspace_tools(folder)
        done(workspace, "read_file", path="a.txt")
        done(workspace, "write_file", path="a.txt", content="new")
        assert (folder / "a.txt").stat().st_uid == owner
        with without_privileges():
            done(workspace, "write_file", path="a.txt", content="newer")
        assert text(folder / "a.txt") == "newer"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        pytest.param("read-only.txt", "read-only.txt is read-only", id="marked-read-only"),
        pytest.param("image.png", "move it away", id="binary"),
        pytest.param("folder", "folder is a folder", id="a-folder"),
        pytest.param(".", ". is a folder", id="the-root"),
        pytest.param("folder/a.txt/b.txt", "Not a directory", id="below-a-file"),
    ],
)
def test_what_cannot_be_replaced_is_refused_with_the_reason(tmp_path: Path, path: str, why: str) -> None:
    filled(tmp_path, {"read-only.txt": "old", "folder/a.txt": "", "image.png": b"\0"})
    (tmp_path / "read-only.txt").chmod(0o444)
    workspace = workspace_tools(tmp_path)
    call(workspace, "read_file", path=path)
    assert why in refusal(workspace, "write_file", path=path, content="new")


def test_a_folder_that_may_not_be_written_to_is_refused() -> None:
    with a_public_folder() as folder:
        folder.chmod(0o755)
        with without_privileges():
            workspace = workspace_tools(folder)
            if os.access(folder, os.W_OK, effective_ids=True):
                folder.chmod(0o555)
            assert refusal(workspace, "write_file", path="a.txt", content="") == "a.txt: Permission denied"
        folder.chmod(0o755)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    done(workspace, "read_file", path="a.txt")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert refusal(workspace, "write_file", path="a.txt", content="new") == "a.txt: No space left on device"
    assert {path.name: text(path) for path in tmp_path.iterdir()} == {"a.txt": "old"}


def test_a_write_that_the_system_takes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    done(workspace_tools(tmp_path), "write_file", path="a.txt", content="0123456789")
    assert text(tmp_path / "a.txt") == "0123456789"


# Another process comes in between; flushing the new content is the last thing before it is moved into place.


def when_flushed(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    flush = os.fsync

    def flush_and_act(descriptor: int) -> None:
        flush(descriptor)
        act()

    monkeypatch.setattr(os, "fsync", flush_and_act)


def test_a_save_in_the_last_moment_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))
    done(workspace, "read_file", path="a.txt")
    when_flushed(monkeypatch, lambda: filled(tmp_path, {"a.txt": "saved by an editor"}))
    assert "changed by another process" in refusal(workspace, "write_file", path="a.txt", content="new")
    assert {path.name: text(path) for path in tmp_path.iterdir()} == {"a.txt": "saved by an editor"}


def test_a_file_that_appears_in_the_last_moment_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_tools(tmp_path)
    when_flushed(monkeypatch, lambda: filled(tmp_path, {"a.txt": "made by an editor"}))
    assert "created by another process" in refusal(workspace, "write_file", path="a.txt", content="new")
    assert {path.name: text(path) for path in tmp_path.iterdir()} == {"a.txt": "made by an editor"}


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    done(workspace_tools(tmp_path), "write_file", path="a.txt", content="new")
    assert {path.name: text(path) for path in tmp_path.iterdir()} == {"a.txt": "new"}


def test_a_move_that_fails_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", broken)
    assert refusal(workspace_tools(tmp_path), "write_file", path="a.txt", content="new") == "a.txt: Input/output error"
    assert list(tmp_path.iterdir()) == []


# Cancelled.


def cancelled_while(workspace: Workspace, reached: threading.Event, release: threading.Event) -> Notes:
    """Write a.txt, cancel the call when its thread has `reached` a point, and only then let the thread go on."""

    async def scenario() -> Notes:
        notes = Notes()
        task = asyncio.create_task(acall(workspace, "write_file", notes, path="a.txt", content="new"))
        await asyncio.to_thread(reached.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return notes

    return asyncio.run(scenario())


def test_a_cancelled_write_that_was_in_time_says_what_it_did(tmp_path: Path) -> None:
    reached, release = threading.Event(), threading.Event()

    def now_ns() -> int:
        reached.set()
        release.wait(30)
        return time.time_ns()

    # The clock is asked when the file has been moved into place.
    notes = cancelled_while(workspace_tools(tmp_path, now_ns=now_ns), reached, release)
    assert notes.applied_changes == ["created a.txt"]
    assert text(tmp_path / "a.txt") == "new"


def test_a_cancelled_write_that_was_not_in_time_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, release = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        release.wait(30)

    when_flushed(monkeypatch, wait)
    notes = cancelled_while(workspace_tools(tmp_path), reached, release)
    assert notes.applied_changes == []
    assert list(tmp_path.iterdir()) == []


def test_files_are_not_touched_by_the_thread_of_the_event_loop(tmp_path: Path) -> None:
    threads: list[int] = []

    def now_ns() -> int:
        threads.append(threading.get_ident())
        return time.time_ns()

    workspace = workspace_tools(tmp_path, now_ns=now_ns)
    done(workspace, "write_file", path="a.txt", content="text")
    done(workspace, "read_file", path="a.txt")
    done(workspace, "edit_file", path="a.txt", old_string="text", new_string="other")
    assert len(threads) == 3
    assert threading.get_ident() not in threads

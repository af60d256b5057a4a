"""The change that a client is shown before a call is made."""

from pathlib import Path
from typing import Any

import pytest

from sideband.core.messages import ToolCall
from sideband.protocols.acp.agent.tool_calls import Change, planned_change
from sideband.tools.tool import Halt


def planned(folder: Path, name: str, **args: Any) -> Change | None:  # noqa: ANN401 - arguments of any tool
    return planned_change(ToolCall(id="c-1", name=name, args=args), str(folder), None, Halt())


def test_a_planned_change_has_the_text_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"old\r\n")
    path = str(tmp_path / "a.txt")
    assert planned(tmp_path, "write_file", path="a.txt", content="new") == Change(path, "old\r\n", "new")
    assert planned(tmp_path, "edit_file", path="a.txt", old_string="o", new_string="n") == Change(path, "o", "n")


@pytest.mark.parametrize("data", [pytest.param(None, id="no-file"), pytest.param(b"\xff\xfe", id="no-text")])
def test_what_has_no_text_is_shown_as_new(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "a.txt").write_bytes(data)
    assert planned(tmp_path, "write_file", path="a.txt", content="new") == Change(str(tmp_path / "a.txt"), None, "new")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        pytest.param("write_file", {"path": "../a.txt", "content": "x"}, id="outside-the-folder"),
        pytest.param("write_file", {"path": 7, "content": "x"}, id="no-path"),
        pytest.param("write_file", {"path": "a.txt"}, id="no-content"),
        pytest.param("edit_file", {"path": "a.txt", "old_string": "x"}, id="half-an-edit"),
        pytest.param("run", {"command": "ls"}, id="no-file"),
    ],
)
def test_a_call_that_changes_no_file_plans_no_change(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    assert planned(tmp_path, name, **args) is None


def test_a_folder_that_is_gone_has_no_changes(tmp_path: Path) -> None:
    assert planned(tmp_path / "gone", "write_file", path="a.txt", content="x") is None

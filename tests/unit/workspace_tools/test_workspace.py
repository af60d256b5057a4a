"""The tools together: a sequence, a watcher, and enough to fix a program."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sideband.ports import FileChange, Tool, Watcher
from sideband.tools.text import Caps
from sideband.tools.workspace import workspace_tools
from tests.unit.workspace_tools.calling import call, done, filled

IDEMPOTENT = {
    "read_file": True,
    "write_file": False,
    "edit_file": False,
    "list_dir": True,
    "search": True,
    "run": False,
}


def idempotence(tools: Sequence[Tool]) -> dict[str, bool]:
    return {tool.name: tool.idempotent for tool in tools if tool.description and tool.parameters}


def news(watcher: Watcher) -> Sequence[FileChange]:
    return watcher.changes()


def test_a_workspace_is_its_tools_and_their_watcher(tmp_path: Path) -> None:
    workspace = workspace_tools(tmp_path)
    assert idempotence(workspace) == IDEMPOTENT
    assert news(workspace) == ()
    assert len(workspace) == 6
    assert [tool.name for tool in workspace[1:3]] == ["write_file", "edit_file"]
    assert workspace[-1].name == "run"
    assert workspace.root == tmp_path.resolve()


def test_the_tools_that_end_by_themselves_say_when(tmp_path: Path) -> None:
    tools: list[Any] = [*workspace_tools(tmp_path, caps=Caps(run_seconds=30, search_seconds=5))]
    assert {tool.name: tool.seconds for tool in tools if tool.seconds is not None} == {"search": 15, "run": 40}


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "path"])
def test_a_root_is_a_text_or_a_path(tmp_path: Path, *, as_text: bool) -> None:
    assert workspace_tools(str(tmp_path) if as_text else tmp_path).root == tmp_path.resolve()


def test_two_workspaces_do_not_know_each_others_reads(tmp_path: Path) -> None:
    filled(tmp_path, {"a.txt": "old"})
    done(workspace_tools(tmp_path), "read_file", path="a.txt")
    assert call(workspace_tools(tmp_path), "write_file", path="a.txt", content="new").is_error


def test_a_program_is_fixed(tmp_path: Path) -> None:
    filled(
        tmp_path,
        {
            "shop/prices.py": "def total(prices, discount=0):\n    return sum(prices) * (1 + discount)\n",
            "tests/test_prices.py": (
                "from shop.prices import total\n\n\ndef test_a_discount_lowers_the_total():\n"
                "    assert total([10, 10], discount=0.5) == 10\n"
            ),
            "conftest.py": "",
        },
    )
    workspace = workspace_tools(tmp_path)
    # Python would take its compiled copy for current: the fix has the same size and comes within the same second.
    pytest_alone = ["env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-B", "-m", "pytest", "-q"]
    tests = {"command": [*pytest_alone, "-p", "no:cacheprovider"]}

    failing = call(workspace, "run", **tests)
    assert failing.data["exit_code"] == 1
    assert "1 failed" in failing.text

    found = done(workspace, "search", pattern=r"def total\(", regex=True, glob="*.py")
    path, line, _ = found.splitlines()[1].split(":", 2)
    assert (path, line) == ("shop/prices.py", "1")

    assert "(1 + discount)" in done(workspace, "read_file", path=path)
    done(workspace, "edit_file", path=path, old_string="(1 + discount)", new_string="(1 - discount)")

    passing = call(workspace, "run", **tests)
    assert (passing.data["exit_code"], passing.is_error) == (0, False)
    assert "1 passed" in passing.text
    assert workspace.changes() == ()

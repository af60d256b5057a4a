"""Arguments: schemas that every wire takes, and errors that say what to fix."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sideband.tools.workspace import workspace_tools
from tests.unit.workspace_tools.calling import refusal, tool

EXAMPLES = {
    "read_file": {"path": "a.txt", "start": 1, "end": 2},
    "write_file": {"path": "a.txt", "content": ""},
    "edit_file": {"path": "a.txt", "old_string": "a", "new_string": "b", "replace_all": True},
    "list_dir": {"path": ".", "depth": 2},
    "search": {"pattern": "x", "regex": True, "path": ".", "glob": "*.py"},
    "run": {"command": ["ls", "-l"], "cwd": ".", "timeout": 5},
}


@pytest.mark.parametrize(("name", "example"), EXAMPLES.items())
def test_the_schema_describes_every_argument(tmp_path: Path, name: str, example: dict[str, Any]) -> None:
    schema = dict(tool(workspace_tools(tmp_path), name).parameters)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(example, schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["properties"].keys() == example.keys()
    assert all("description" in described for described in schema["properties"].values())
    assert "$ref" not in str(schema)


@pytest.mark.parametrize(
    ("name", "args", "why"),
    [
        pytest.param("read_file", {}, "read_file: missing required field path. It takes path,", id="missing"),
        pytest.param("read_file", {"path": None}, "missing required field path", id="null-is-missing"),
        pytest.param("read_file", {"path": 5}, "path: expected str, got int", id="wrong-type"),
        pytest.param("read_file", {"path": "a", "start": "1"}, "start: expected int, got str", id="number-as-text"),
        pytest.param("read_file", {"path": "a", "start": True}, "start: expected int, got bool", id="truth-as-number"),
        pytest.param(
            "read_file",
            {"path": "a", "file_path": "a"},
            "contains unknown field file_path. It takes path, start (optional), end (optional). "
            "Did you mean path instead of file_path?",
            id="unknown-with-a-near-name",
        ),
        pytest.param(
            "list_dir", {"xyz": 1}, "unknown field xyz. It takes path (optional), depth (optional).", id="unknown"
        ),
        pytest.param("list_dir", {"depth": 99}, "depth: expected int <= 8", id="too-much"),
        pytest.param("run", {"command": []}, "command: expected array of length >= 1", id="empty-list"),
        pytest.param("run", {"command": ["ls", 1]}, "command[1]: expected str, got int", id="in-a-list"),
        pytest.param("run", {"command": "ls", "timeout": 601}, "timeout: expected int <= 600", id="too-long"),
        pytest.param(
            "edit_file", {"path": "a", "old_string": "", "new_string": "b"}, "old_string: expected", id="empty"
        ),
        pytest.param(
            "write_file", {"path": "a", "content": "\ud800"}, "content has half of a surrogate", id="surrogate"
        ),
        pytest.param(
            "run", {"command": ["echo", "\udfff"]}, "command has half of a surrogate", id="surrogate-in-a-list"
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, name: str, args: dict[str, Any], why: str
) -> None:
    assert why in refusal(workspace_tools(tmp_path), name, **args)
    assert list(tmp_path.iterdir()) == []

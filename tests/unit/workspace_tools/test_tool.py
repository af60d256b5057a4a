"""What every tool shares: arguments that fit or are refused, and work in threads that ends."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sideband.tools.tool import Halt, Halted, offload
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
        pytest.param("read_file", {"path": None}, "path: expected str, got null", id="null"),
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
            "write_file", {"path": "a", "content": "\ud800"}, "content contains an unpaired surrogate", id="surrogate"
        ),
        pytest.param(
            "run", {"command": ["echo", "\udfff"]}, "command contains an unpaired surrogate", id="surrogate-in-a-list"
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, name: str, args: dict[str, Any], why: str
) -> None:
    assert why in refusal(workspace_tools(tmp_path), name, **args)
    assert list(tmp_path.iterdir()) == []


def cancelled(call: Coroutine[Any, Any, object], running: threading.Event) -> None:
    """Cancel a call, twice, when its thread is running."""

    async def scenario() -> None:
        task = asyncio.create_task(call)
        await asyncio.to_thread(running.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_result_lands_and_is_returned() -> None:
    landed: list[int] = []
    assert asyncio.run(offload(lambda _: 5, landed.append)) == 5
    assert landed == [5]


def test_a_failure_is_raised_and_does_not_land() -> None:
    landed: list[float] = []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(offload(lambda _: 1 / 0, landed.append))
    assert landed == []


def test_a_cancelled_call_halts_its_work_and_ends_after_it() -> None:
    running, order = threading.Event(), []

    def work(halt: Halt) -> None:
        stopped = threading.Event()
        with halt.stopping(stopped.set):
            running.set()
            stopped.wait(30)
        order.append("stopped")
        halt.check()
        order.append("went on")

    cancelled(offload(work), running)
    assert order == ["stopped"]


def test_what_was_done_in_spite_of_a_cancellation_lands() -> None:
    running = threading.Event()
    landed: list[str] = []

    def work(halt: Halt) -> str:
        stopped = threading.Event()
        with halt.stopping(stopped.set):
            running.set()
            stopped.wait(30)
        return "done"

    call = offload(work, landed.append)
    cancelled(call, running)
    assert landed == ["done"]


def test_a_halt_that_came_before_the_wait_is_noticed_at_its_beginning() -> None:
    halt = Halt()
    halt.set()
    with pytest.raises(Halted), halt.stopping(lambda: None):
        pytest.fail("entered although halted")


def test_a_wait_that_is_over_is_not_stopped_any_more() -> None:
    halt, stops = Halt(), []
    with halt.stopping(lambda: stops.append("stop")):
        pass
    halt.set()
    assert stops == []

"""Where a payload holds evidence, and which tools only show files."""

from typing import Any

import msgspec
import pytest

from sideband.providers.evidence import (
    MAX_DEPTH,
    MAX_VALUES,
    command_of,
    entries,
    fields_of,
    only_repeats,
    shows_files,
    tool_name,
    tool_reports,
)


class Output(msgspec.Struct):
    text: str


def texts(payload: dict[str, Any], event: str = "post_tool_use") -> list[tuple[str, str]]:
    return [found for report in tool_reports(event, payload) for found in report.texts()]


def names(payload: dict[str, Any]) -> list[str]:
    return [entry.path for entry in entries(payload)]


def test_records_and_mappings_have_fields_and_nothing_else_has() -> None:
    assert fields_of({"a": 1}) == {"a": 1}
    assert fields_of(Output("x")) == {"text": "x"}
    assert fields_of("a") == fields_of([1]) == fields_of(None) == {}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param({"result": "a"}, [("result", "a")], id="a-text"),
        pytest.param(
            {"result": {"stdout": "a", "stderr": "b"}}, [("result.stdout", "a"), ("result.stderr", "b")], id="streams"
        ),
        pytest.param({"result": Output("a")}, [("result.text", "a")], id="a-record"),
        pytest.param(
            {"content": [{"type": "text", "text": "a"}]},
            [("content[0].type", "text"), ("content[0].text", "a")],
            id="blocks",
        ),
        pytest.param(
            {"text": "a", "output": "b", "result": ""},
            [("result", ""), ("output", "b"), ("text", "a")],
            id="in-a-fixed-order",
        ),
        pytest.param({"args": "a", "message": "b", "status": "c"}, [], id="not-what-is-no-output"),
        pytest.param({"result": {"command": "x", "input": "y", "prompt": "z"}}, [], id="not-what-the-tool-was-given"),
        pytest.param({"result": {"role": "assistant", "content": "a"}}, [], id="not-what-a-model-said"),
        pytest.param(
            {"result": {"role": "tool", "content": "a"}},
            [("result.role", "tool"), ("result.content", "a")],
            id="what-a-tool-said",
        ),
        pytest.param({"tool_name": "read_file", "result": "a"}, [], id="not-of-a-tool-that-shows-files"),
        pytest.param(
            {"tool_name": "bash", "args": {"command": "cat x"}, "result": "a"}, [], id="nor-of-a-command-that-does"
        ),
        pytest.param(
            {"tool_name": "bash", "data": {"command": ["cat", "x"]}, "result": "a"},
            [],
            id="even-if-only-the-data-say-so",
        ),
        pytest.param({"tool_name": "write_file", "result": "a"}, [], id="not-of-a-tool-that-writes-files"),
        pytest.param({"tool_name": "subagent", "result": "a"}, [], id="not-of-another-agent"),
        pytest.param({"result": None, "text": 3}, [], id="not-what-is-no-text"),
    ],
)
def test_the_texts_of_a_tool(payload: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert texts(payload) == expected


@pytest.mark.parametrize("event", ["post_step", "post_agent_turn"])
def test_outside_of_a_tool_call_only_reports_of_tools_are_read(event: str) -> None:
    payload = {
        "text": "what the model said",
        "result": "what the agent answered",
        "tool_results": [{"name": "run", "output": "a"}, {"name": "grep", "output": "b"}, "c"],
        "results": ({"tool_name": "run", "text": "d"},),
    }
    assert texts(payload, event) == [("output", "a"), ("text", "d")]
    assert [(report.path, report.tool) for report in tool_reports(event, payload)] == [
        ("tool_results[0]", "run"),
        ("tool_results[1]", "grep"),
        ("tool_results[2]", ""),
        ("results[0]", "run"),
    ]


def test_results_that_are_no_list_are_no_reports() -> None:
    assert tool_reports("post_step", {"results": {"tool_name": "run"}, "tool_results": "x"}) == ()


def test_a_place_names_the_tool_and_the_way_to_it() -> None:
    (report,) = tool_reports("post_step", {"results": [{"tool_name": "run"}]})
    assert report.at("text") == "run results[0].text"
    (report,) = tool_reports("post_tool_use", {})
    assert report.at("text") == "text"


def test_a_name_of_its_own_is_not_the_name_of_a_tool() -> None:
    (report,) = tool_reports("post_tool_use", {"name": "read"})
    assert report.tool == ""
    assert tool_name({"tool": {"name": "run"}}) == "run"


class TestEntries:
    def test_everything_is_visited_but_what_is_no_evidence(self) -> None:
        payload = {"a": [{"b": 1}], "args": {"c": 1}, "messages": [{"d": 1}], "e": {"role": "user", "f": 1}, "g": None}
        assert names(payload) == ["", "a", "a[0]", "a[0].b", "e"]

    def test_the_output_of_a_tool_that_shows_files_is_left_out_and_its_data_is_not(self) -> None:
        payload = {"tool_name": "read_file", "result": {"diagnostics": []}, "data": {"diagnostics": []}, "status": "ok"}
        assert names(payload) == ["", "tool_name", "data", "data.diagnostics", "status"]

    def test_depth_is_bounded(self) -> None:
        payload: dict[str, Any] = {}
        payload["again"] = payload
        assert len(names(payload)) == MAX_DEPTH + 1

    def test_breadth_is_bounded_even_where_parts_are_shared(self) -> None:
        shared: Any = ["x"] * 30
        for _ in range(6):
            shared = [shared] * 30
        assert len(names({"a": shared})) == MAX_VALUES
        assert len(texts({"result": shared})) < MAX_VALUES


@pytest.mark.parametrize(
    "tool",
    [
        "read",
        "Read",
        "read_file",
        "ReadFile",
        "view",
        "cat",
        "grep",
        "Grep",
        "ls",
        "LS",
        "list_dir",
        "search",
        "web-search",
        "find_files",
        "Glob",
        "mcp__fs__read_text_file",
        "github.get_file_contents",
        "fetchUrl",
        "open_file",
        "HTMLView",
    ],
)
def test_a_tool_that_shows_files_is_known_by_its_name(tool: str) -> None:
    assert shows_files(tool)


@pytest.mark.parametrize(
    "tool",
    [
        "",
        "run",
        "bash",
        "Bash",
        "run_tests",
        "execute",
        "cargo",
        "get_status",
        "spreadsheet",
        "read_lints",
        "list_diagnostics",
    ],
)
def test_other_tools_do_not_show_files(tool: str) -> None:
    assert not shows_files(tool)


@pytest.mark.parametrize(
    "command",
    [
        "cat build.log",
        "/usr/bin/cat build.log",
        "cd src && grep -rn error .",
        "LANG=C sudo tail -n 50 build.log | head",
        "git diff HEAD~1",
        "git show HEAD; git log",
        "rg FAILED\nls",
    ],
)
def test_so_does_a_command_of_which_every_part_does(command: str) -> None:
    assert shows_files("bash", command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "cd src",
        "FOO=1",
        "cargo test",
        "cargo test 2>&1 | tail -20",
        "cat x && pytest",
        "git commit -m x",
        "git",
        "bash -c 'cat x'",
        "&& ||",
    ],
)
def test_other_commands_do_not(command: str) -> None:
    assert not shows_files("bash", command)


@pytest.mark.parametrize("tool", ["write_file", "edit", "apply_patch", "str_replace", "subagent", "ask_reviewer"])
def test_a_tool_may_only_repeat_what_it_wrote_or_what_a_model_said(tool: str) -> None:
    assert only_repeats(tool)


@pytest.mark.parametrize("tool", ["run", "", "compile"])
def test_most_tools_speak_for_themselves(tool: str) -> None:
    assert not only_repeats(tool)


@pytest.mark.parametrize(
    ("args", "command"),
    [
        pytest.param({"command": "cat x"}, "cat x", id="a-line"),
        pytest.param({"cmd": ["cat", "x", 3]}, "cat x", id="words"),
        pytest.param({"command": 3, "script": "ls"}, "ls", id="not-text"),
        pytest.param({"path": "x"}, "", id="none"),
    ],
)
def test_the_command_is_found_among_the_arguments(args: dict[str, Any], command: str) -> None:
    assert command_of(args) == command

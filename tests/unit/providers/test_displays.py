"""Which tools merely show files."""

from typing import Any

import pytest

from sideband.providers.displays import command_of, only_repeats, shows_files


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

"""The command line as a whole: the overview, the commands, and how the program ends."""

import importlib
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from sideband import __version__, cli
from sideband.cli import main, overview
from sideband.cli.app import app
from sideband.cli.commands import COMMANDS, GROUPS
from tests.programs import run_python

Captured = pytest.CaptureFixture[str]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The status that the command line ends with in this process."""
    monkeypatch.setattr(sys, "argv", ["sideband", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_overview_lists_exactly_the_commands() -> None:
    listing = overview().split("\n\n", 2)[2].split("\n\nOptions:")[0]
    assert [
        (group.splitlines()[0].rstrip(":"), [line.split(maxsplit=1) for line in group.splitlines()[1:]])
        for group in listing.split("\n\n")
    ] == [(title, [[name, command.about] for name, command in group.items()]) for title, group in GROUPS.items()]


def test_the_parser_knows_exactly_the_commands() -> None:
    assert {name for name in app if not name.startswith("-")} == COMMANDS.keys()


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)], ids=" ".join)
def test_the_overview_is_what_help_prints(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out == overview()


def test_the_overview_loads_no_parser() -> None:
    script = (
        "import sys, sideband.cli; sideband.cli.main(); print(sorted({'cyclopts', 'rich', 'msgspec'} & {*sys.modules}))"
    )
    assert run_python("-c", script).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_the_table_says(name: str) -> None:
    module, _, function = COMMANDS[name].target.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_help_with_its_usage_and_what_it_does(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(monkeypatch, name, "--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: sideband {name}")
    assert lines[2].strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_fit_into_a_narrow_terminal(name: str) -> None:
    # The help indents them by one column.
    assert all(len(example) < 80 for example in COMMANDS[name].examples)


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == __version__


def test_an_unknown_command_is_a_failure_with_a_hint(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "explian") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 'Unknown command "explian"' in captured.err
    assert "explain" in captured.err.replace("explian", "")


def test_an_unknown_option_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "doctor", "--deep") == 2
    assert "--deep" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["1.5", "2.0", "0x10", "1_0", "1e3", "\u0663", ""])
@pytest.mark.parametrize(
    "command", [("remind", "x", "--ttl"), ("events", "--after"), ("render", "--turn")], ids=" ".join
)
def test_an_integer_is_written_in_decimal_digits(
    command: tuple[str, ...], number: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(monkeypatch, *command, number) == 2
    assert f"Invalid value for {command[-1]}: '{number}' is not a whole number" in capsys.readouterr().err


def test_the_status_of_a_command_is_that_of_the_program(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "explain", "HARN-RMD-004") == 0
    assert run(monkeypatch, "explain", "HARN-RMD-404") == 2
    capsys.readouterr()


def test_the_package_can_be_run_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(sys, "argv", ["sideband"])
    # By its path: pytest loads the package in its own way, as it does with all that bring a plugin.
    runpy.run_path(str(Path(cli.__file__).with_name("__main__.py")), run_name="__main__")
    assert capsys.readouterr().out == overview()


def test_a_terminal_that_lacks_a_character_gets_a_question_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shown"
    with path.open("w", encoding="ascii") as poor:
        monkeypatch.setattr(sys, "stdout", poor)
        assert run(monkeypatch, "demo", "--fast") == 0
    text = path.read_text(encoding="ascii")
    # The ends of long lines are marked with an ellipsis.
    assert "list pri?" in text
    assert text.rstrip().endswith("0 lost.")


def test_output_that_is_no_text_stream_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        text = ""

        def write(self, text: str) -> None:
            self.text += text

        def flush(self) -> None:
            """Nothing is held back."""

    plain = Plain()
    monkeypatch.setattr(sys, "stdout", plain)
    assert run(monkeypatch, "--help") == 0
    assert plain.text == overview()


@pytest.mark.parametrize("arguments", [(), ("explain",)], ids=["the-overview", "a-command"])
def test_a_reader_who_leaves_early_is_not_complained_about(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert run(monkeypatch, *arguments) == 0
        pipe.write("and nothing that is written later fails\n")


def test_the_program_says_nothing_to_a_reader_who_has_left() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        # Buffered, as pipes are by default: the closed pipe is noticed only when the program ends.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        command = [sys.executable, "-m", "sideband.cli", "explain"]
        answer = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, env=environment, check=False)
    assert (answer.returncode, answer.stderr) == (0, b"")


def test_a_reader_who_leaves_early_does_not_turn_findings_into_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistaken = tmp_path / "mistaken.json"
    mistaken.write_text('{"reminder": {"body": "", "ttl_turns": 1}}', encoding="utf-8")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert run(monkeypatch, "lint", str(mistaken)) == 1


@pytest.mark.parametrize(
    ("arguments", "status"), [((), 0), (("explain",), 0), (("explain", "404"), 2)], ids=["overview", "command", "error"]
)
def test_without_a_standard_output_a_command_ends_as_ever(
    arguments: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run(monkeypatch, *arguments) == status

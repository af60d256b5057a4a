"""`sideband lint`: what it prints, and the status it ends with."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sideband.cli.lint import lint

Captured = pytest.CaptureFixture[str]

FINE = 'session.remind("x", ttl_turns=1)\n'
WARNING = 'session.remind("x")\n'
ERROR = 'session.remind("x", ttl_turns=0)\n'
ADVICE = 'session.remind("Never tell the user.", ttl_turns=1)\n'


def a_file(folder: Path, text: str, name: str = "agent.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "strict", "status"),
    [
        pytest.param(FINE, False, 0, id="nothing"),
        pytest.param(FINE, True, 0, id="nothing-strictly"),
        pytest.param(ADVICE, False, 0, id="advice"),
        pytest.param(ADVICE, True, 1, id="advice-strictly"),
        pytest.param(WARNING, False, 1, id="a-warning"),
        pytest.param(ERROR, False, 1, id="an-error"),
        pytest.param("session.remind(", False, 1, id="a-broken-file"),
    ],
)
def test_the_status_says_how_bad_it_is(tmp_path: Path, text: str, strict: bool, status: int) -> None:  # noqa: FBT001 - a column
    assert lint(a_file(tmp_path, text), strict=strict) == status


def test_what_cannot_be_read_is_a_failure_and_the_rest_is_still_reported(tmp_path: Path, capsys: Captured) -> None:
    assert lint(a_file(tmp_path, WARNING), tmp_path / "missing.py") == 2
    captured = capsys.readouterr()
    assert captured.err == f"error: {tmp_path}/missing.py: No such file or directory\n"
    assert "HARN-RMD-004" in captured.out


@pytest.mark.parametrize(("form", "documents"), [("text", 0), ("json", 1), ("sarif", 1)])
def test_when_nothing_could_be_read_only_programs_get_a_report(
    tmp_path: Path, capsys: Captured, form: str, documents: int
) -> None:
    assert lint(tmp_path / "missing.py", format=form) == 2  # type: ignore[arg-type] # a column
    assert len(capsys.readouterr().out.split("\n}\n")) - 1 == documents


def test_a_folder_without_anything_to_check_has_nothing_to_report(tmp_path: Path, capsys: Captured) -> None:
    assert lint(tmp_path) == 0
    assert capsys.readouterr().out == "No problems found in 0 files.\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param({"select": ("HARN-RMD-09",)}, "there is no diagnostic", id="an-unknown-code-to-select"),
        pytest.param({"ignore": ("nonsense",)}, "there is no diagnostic", id="an-unknown-code-to-ignore"),
        pytest.param({"model": "gpt-5.6"}, "a model is written transport:model", id="a-model-without-a-transport"),
    ],
)
def test_arguments_that_make_no_sense_are_a_failure(
    tmp_path: Path, capsys: Captured, options: dict[str, object], complaint: str
) -> None:
    assert lint(a_file(tmp_path, ERROR), **options) == 2  # type: ignore[arg-type] # a table of options
    captured = capsys.readouterr()
    assert (captured.out, captured.err.startswith(f"error: {complaint}")) == ("", True)


def test_text_ends_with_a_summary_and_where_to_read_on(tmp_path: Path, capsys: Captured) -> None:
    path = a_file(tmp_path, ERROR)
    lint(path)
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:1:21: error HARN-RMD-001 ttl_turns must be between 1 and 1,000,000, not 0",
        "",
        "1 error in 1 of 1 file.",
        "To see the cause and the remedy: sideband explain HARN-RMD-001",
    ]


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_other_formats_are_one_document(tmp_path: Path, capsys: Captured, form: str) -> None:
    assert lint(a_file(tmp_path, ERROR), tmp_path / "missing.py", format=form) == 2  # type: ignore[arg-type] # a column
    captured = capsys.readouterr()
    assert json.loads(captured.out)["version"] in {1, "2.1.0"}
    assert "missing.py" in captured.err


def test_without_a_path_the_current_folder_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    a_file(tmp_path, WARNING)
    monkeypatch.chdir(tmp_path)
    assert lint() == 1
    assert capsys.readouterr().out.startswith("agent.py:1:1: warning HARN-RMD-004 ")


def test_without_a_path_and_without_a_file_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lint() == 2
    assert capsys.readouterr().err == (
        "error: no Python, JSON or TOML file in this folder; name files or folders: sideband lint PATH\n"
    )


def test_options_narrow_the_report(tmp_path: Path, capsys: Captured) -> None:
    path = a_file(tmp_path, 'session.remind("x", role_hint="user_block")\n')
    assert lint(path, ignore=("004",)) == 0
    assert lint(path, select=("003",), model="local:llama") == 1
    assert "local:llama does not support 'user_block'" in capsys.readouterr().out


def test_names_of_files_never_reach_the_terminal_as_a_command(tmp_path: Path, capsys: Captured) -> None:
    a_file(tmp_path, ERROR, "a\x1b[31m.py")
    lint(tmp_path, tmp_path / "missing\x1b[31m.py")
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "a\\x1b[31m.py" in captured.out


def test_the_command_line_passes_the_status_on(tmp_path: Path) -> None:
    a_file(tmp_path, ADVICE)
    command = [sys.executable, "-m", "sideband.cli", "lint", "--strict", "--select", "101", "--format", "json", "."]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (answer.returncode, answer.stderr) == (1, b"")
    assert [finding["code"] for finding in json.loads(answer.stdout)["findings"]] == ["SIDEBAND-101"]

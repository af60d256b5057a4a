"""Which interpreter the set-up takes, and what it says when there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

FIND_PYTHON = Path(__file__).parents[3] / "tools" / "find_python.sh"


def find_python(folder: Path, *, python: str = "") -> subprocess.CompletedProcess[str]:
    """The script's answer on a machine that has only the commands in `folder`."""
    return subprocess.run(
        ["/bin/sh", str(FIND_PYTHON)],
        env={"PATH": str(folder), "PYTHON": python},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def a_command(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def working() -> str:
    return f'exec "{sys.executable}" "$@"'


def test_the_newest_named_version_comes_first(tmp_path: Path, working: str) -> None:
    for name in ("python3", "python3.11", "python3.13"):
        a_command(tmp_path, name, working)
    assert find_python(tmp_path).stdout == "python3.13\n"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 127", id="a-shim-without-a-version-behind-it"),
        pytest.param('case "$2" in *version_info*) exit 1;; esac', id="too-old"),
        pytest.param('case "$2" in *ensurepip*) exit 1;; esac', id="cannot-install-pip-into-an-environment"),
    ],
)
def test_an_unsuitable_interpreter_is_passed_over(tmp_path: Path, working: str, script: str) -> None:
    a_command(tmp_path, "python3.13", script)
    a_command(tmp_path, "python3", working)
    assert find_python(tmp_path).stdout == "python3\n"


def test_the_one_asked_for_is_taken(tmp_path: Path, working: str) -> None:
    a_command(tmp_path, "python3.13", working)
    assert find_python(tmp_path, python=sys.executable).stdout == f"{sys.executable}\n"


def test_no_other_is_taken_when_the_one_asked_for_is_unsuitable(tmp_path: Path, working: str) -> None:
    a_command(tmp_path, "python3.13", working)
    answer = find_python(tmp_path, python="python2")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "none of these is suitable: python2" in answer.stderr


def test_having_none_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    answer = find_python(tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    (line,) = answer.stderr.splitlines()
    assert "Python 3.11 or newer" in line
    assert "make PYTHON=" in line

"""What type checkers say of the public functions: they accept right uses and find wrong ones."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import ROOT, run_python

USES = ROOT / "tests" / "typing" / "public_api.py"
LINES = USES.read_text(encoding="utf-8").splitlines()
# The exit code of both checkers if they find errors; other codes mean that they could not run.
FOUND_ERRORS = 1
WRONG = {number for number, line in enumerate(LINES, start=1) if line.endswith("  # error")}


def mypy(_folder: Path) -> set[int]:
    # The paths in the messages are relative to the working directory.
    path = str(USES.relative_to(ROOT))
    answer = run_python("-m", "mypy", "--no-error-summary", path)
    assert answer.returncode == FOUND_ERRORS, answer.stdout + answer.stderr
    return {int(line) for line in re.findall(rf"^{re.escape(path)}:(\d+): error:", answer.stdout, re.MULTILINE)}


def pyright(folder: Path) -> set[int]:
    config = {"extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    shutil.copy(USES, folder)
    answer = run_python(
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        cwd=folder,
        # Do not ask a server for a newer version.
        env={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert answer.returncode == FOUND_ERRORS, answer.stdout + answer.stderr
    found = json.loads(answer.stdout)["generalDiagnostics"]
    return {entry["range"]["start"]["line"] + 1 for entry in found if entry["severity"] == "error"}


def shown(numbers: set[int]) -> list[str]:
    return [f"{number}: {LINES[number - 1].strip()}" for number in sorted(numbers)]


@pytest.mark.requirement("library:types:wrong-uses-are-found")
@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_type_checker_finds_exactly_the_wrong_uses(checker: Callable[[Path], set[int]], tmp_path: Path) -> None:
    found = checker(tmp_path)
    assert shown(found - WRONG) == []
    assert shown(WRONG - found) == []

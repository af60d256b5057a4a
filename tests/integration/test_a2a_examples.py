"""The example agents over A2A: each runs unchanged, and shows what it says."""

from pathlib import Path
from typing import Final

import pytest

from sideband.lint.check import check
from tests.programs import ROOT, run_python

FOLDER: Final = ROOT / "examples" / "a2a-agents"
PRINTED: Final = {
    "delegate": [
        "reached the worker: freeze",
        "the worker answered: All is ready, but the branch is frozen.",
        "the worker's last request has the reminder: True",
    ],
    "tell_a_worker": [
        "the reminder: accepted",
        "shown to the worker's model in turn 2",
        "the worker says: I have rebased, and the tests pass.",
        "the task is completed; its transcript has the reminder: False",
        "the worker's requests have the reminder: False, True",
    ],
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == PRINTED.keys()


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs_from_any_folder_and_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    answer = run_python("-W", "error", str(FOLDER / f"{name}.py"), cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines() == PRINTED[name]
    assert [*tmp_path.iterdir()] == []


def test_lint_has_nothing_to_say_about_the_examples() -> None:
    report = check([FOLDER])
    assert (report.findings, report.files) == ((), len(PRINTED))

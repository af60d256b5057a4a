"""The example programs: each runs by itself, prints something, is listed, and has nothing wrong with it."""

import re
from pathlib import Path
from typing import Final

import pytest

from sideband.lint.check import check
from tests.programs import ROOT, run_python

EXAMPLES: Final = ROOT / "examples"
PROGRAMS: Final = sorted([*EXAMPLES.glob("guide/*.py"), *EXAMPLES.glob("recipes/*.py")])


def test_there_are_programs_to_run() -> None:
    assert {path.parent.name for path in PROGRAMS} == {"guide", "recipes"}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_from_any_folder_and_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    answer = run_python("-W", "error", str(path), cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.strip()
    assert [*tmp_path.iterdir()] == []


def test_lint_has_nothing_to_say_about_the_programs() -> None:
    report = check(PROGRAMS)
    assert (report.findings, report.files) == ((), len(PROGRAMS))


def test_nor_about_the_requests() -> None:
    report = check([EXAMPLES / "render"])
    assert (report.findings, report.files) == ((), len([*(EXAMPLES / "render").iterdir()]))


def test_the_page_of_the_examples_lists_every_program_and_links_to_what_is_there() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\((.*?)\)", page)
    assert [target for target in targets if not (EXAMPLES / target).exists()] == []
    assert {target for target in targets if target.endswith(".py")} == {
        path.relative_to(EXAMPLES).as_posix() for path in PROGRAMS
    }

"""The drift check: it tells stale generated files from fresh ones and leaves the working tree alone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

DRIFT = Path(__file__).parents[3] / "tools" / "drift.sh"

GENERATORS = """\
.PHONY: gen-protocol-artifacts docs
gen-protocol-artifacts:
\t@mkdir -p spec/protocol-artifacts && echo schema > spec/protocol-artifacts/reminder.json
docs:
\t@for page in requirements divergences diagnostics; do echo $$page > docs/$$page.md; done
"""
FRESH = {
    "spec/protocol-artifacts/reminder.json": "schema\n",
    "docs/requirements.md": "requirements\n",
    "docs/divergences.md": "divergences\n",
    "docs/diagnostics.md": "diagnostics\n",
    "docs/written-by-hand.md": "prose\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose generated files are fresh."""
    for name, text in {"Makefile": GENERATORS, **FRESH}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "tools").mkdir()
    shutil.copy(DRIFT, tmp_path / "tools")
    return tmp_path


def check(repository: Path) -> subprocess.CompletedProcess[str]:
    # A make that runs these tests would otherwise hand its own flags to the one inside.
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    return subprocess.run(
        ["sh", "tools/drift.sh"],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def contents(repository: Path) -> dict[str, str]:
    return {
        path.relative_to(repository).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(repository.rglob("*"))
        if path.is_file()
    }


def test_fresh_files_pass(repository: Path) -> None:
    answer = check(repository)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("docs/requirements.md", "older requirements\n", id="a-page-with-other-content"),
        pytest.param("spec/protocol-artifacts/reminder.json", "older\n", id="an-artifact-with-other-content"),
        pytest.param("spec/protocol-artifacts/gone.json", "orphan\n", id="an-artifact-nobody-generates-any-more"),
        pytest.param("docs/divergences.md", None, id="a-page-that-is-not-checked-in"),
        pytest.param("spec/protocol-artifacts/reminder.json", None, id="an-artifact-that-is-not-checked-in"),
    ],
)
def test_a_difference_fails_and_the_tree_stays_as_it_was(repository: Path, name: str, text: str | None) -> None:
    if text is None:
        (repository / name).unlink()
    else:
        (repository / name).write_text(text, encoding="utf-8")
    before = contents(repository)

    answer = check(repository)

    assert answer.returncode == 1
    assert name in answer.stdout
    assert "make gen-protocol-artifacts docs" in answer.stderr
    assert contents(repository) == before


def test_a_failing_generator_fails_and_the_tree_stays_as_it_was(repository: Path) -> None:
    (repository / "Makefile").write_text(".PHONY: docs\ngen-protocol-artifacts:\n\t@exit 3\ndocs:\n", encoding="utf-8")
    before = contents(repository)

    assert check(repository).returncode != 0
    assert contents(repository) == before

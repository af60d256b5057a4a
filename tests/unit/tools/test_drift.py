"""The drift check: it tells stale generated files from fresh ones and changes nothing."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of what is generated, beside the real generators."""
    for generated in ("spec", "docs"):
        shutil.copytree(ROOT / generated, tmp_path / generated)
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    for linked in (".venv", "tests", "pyproject.toml"):
        (tmp_path / linked).symlink_to(ROOT / linked)
    return tmp_path


def check(repository: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "tools/drift.sh"],
        cwd=repository,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def test_fresh_files_pass(repository: Path) -> None:
    answer = check(repository)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("docs/requirements.md", "older\n", id="a-page-with-other-content"),
        pytest.param("docs/divergences.md", "older\n", id="another-page-with-other-content"),
        pytest.param("docs/diagnostics.md", None, id="a-page-that-is-not-there"),
        pytest.param("spec/protocol-artifacts/acp/types.ts", None, id="an-artifact-that-is-not-there"),
    ],
)
def test_a_difference_fails_names_the_file_and_changes_nothing(repository: Path, name: str, text: str | None) -> None:
    path = repository / name
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")

    answer = check(repository)

    assert answer.returncode == 1
    assert path.name in answer.stdout + answer.stderr
    assert "make gen-protocol-artifacts docs" in answer.stderr
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == text

"""The page of the diagnostics: it is what the table says today, and the check notices when it is not."""

from pathlib import Path

import pytest

from sideband.core.diagnostics import DIAGNOSTICS
from tools.diagnostics_page import PAGE, main, page


def test_the_page_that_is_checked_in_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert main(["--check"]) == 0


@pytest.mark.parametrize("code", DIAGNOSTICS)
def test_every_diagnostic_has_its_place_on_the_page(code: str) -> None:
    entry = DIAGNOSTICS[code]
    text = page()
    assert f"| [{code}](#{code.lower()}) | {entry.severity.value} | {entry.title} |" in text
    section = text.split(f"### {code}\n", maxsplit=1)[1].split("\n### ", maxsplit=1)[0]
    flat = " ".join(section.split())
    for part in (entry.cause, entry.remedy, entry.example.wrong, entry.example.right):
        assert " ".join(part.split()) in flat


def test_a_page_is_written_and_then_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "diagnostics.md"
    assert main([str(path)]) == 0
    assert main([str(path), "--check"]) == 0


def test_a_stale_page_fails_the_check_and_stays_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "diagnostics.md"
    assert main(["--check", str(path)]) == 1
    path.write_text("older\n", encoding="utf-8")
    assert main(["--check", str(path)]) == 1
    assert path.read_text(encoding="utf-8") == "older\n"
    assert "run: python tools/diagnostics_page.py" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--what"], ["a.md", "b.md"]])
def test_other_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: ")

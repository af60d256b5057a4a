"""The examples: one mistake of each kind in `examples/lint`, and the snippets of the catalogue."""

from pathlib import Path

import pytest

from sideband.core.diagnostics import ADVICE, FAMILY
from sideband.core.explanation import Diagnostic, Severity
from sideband.lint.check import check
from tests.unit.lint.checking import check_text

EXAMPLES = Path(__file__).parents[3] / "examples" / "lint"
NAMES = {"python": "snippet.py", "json": "snippet.json", "toml": "snippet.toml"}


def test_the_example_folder_has_each_mistake_once() -> None:
    found = [(finding.code, Path(finding.path).name, finding.line) for finding in check([EXAMPLES]).findings]
    assert sorted(found) == [
        ("HARN-RMD-001", "pipeline.py", 10),
        ("HARN-RMD-002", "frames.json", 9),
        ("HARN-RMD-003", "route.py", 10),
        ("HARN-RMD-004", "pipeline.py", 27),
        ("HARN-RMD-005", "pipeline.py", 21),
        ("HARN-RMD-006", "hooks.py", 15),
        ("HARN-RMD-007", "loop.toml", 4),
        ("HARN-RMD-008", "hooks.py", 9),
    ]


def test_each_mistake_is_explained_beside_it() -> None:
    for finding in check([EXAMPLES]).findings:
        lines = Path(finding.path).read_text(encoding="utf-8").splitlines()
        # JSON has no comments, so there the next line explains.
        assert finding.code in "\n".join(lines[finding.line - 1 : finding.line + 1])


@pytest.mark.parametrize("entry", [*FAMILY, *ADVICE], ids=lambda entry: entry.code)
def test_a_wrong_snippet_shows_its_own_mistake_and_no_other(entry: Diagnostic) -> None:
    found = check_text(entry.example.wrong, NAMES[entry.example.language])
    assert {finding.code for finding in found} == {entry.code}
    assert {finding.severity for finding in found} <= set(Severity)


@pytest.mark.parametrize("entry", [*FAMILY, *ADVICE], ids=lambda entry: entry.code)
def test_a_mended_snippet_has_nothing_wrong_with_it(entry: Diagnostic) -> None:
    assert check_text(entry.example.right, NAMES[entry.example.language]) == ()

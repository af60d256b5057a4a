"""The table of known faults of other agents: every test that it names exists, and the documentation shows it."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.faults.schedules.play import LAWS
from tests.faults.schedules.regressions import REGRESSIONS, Regression
from tests.faults.schedules.scenarios import SCENARIOS

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "reliability.md"

each: Final = pytest.mark.parametrize("name", REGRESSIONS)


@cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@each
def test_what_plays_it_is_there(name: str) -> None:
    found = REGRESSIONS[name]
    assert set(found.scenarios) <= SCENARIOS.keys()
    assert set(found.laws) <= {law.__name__ for law in LAWS}
    for file, test in found.tests:
        assert test.startswith("test_")
        assert test in functions_in(file)
    assert found.scenarios or found.tests


def row(name: str, found: Regression) -> str:
    """How the page shows it."""
    played = [f"`{scenario}`" for scenario in found.scenarios]
    tested = [f"`{test}`" for _, test in found.tests]
    return f"| {name} | {found.failure} | {', '.join(played)} | {', '.join(tested)} |"


@each
def test_the_page_shows_it(name: str) -> None:
    assert row(name, REGRESSIONS[name]) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_shows_no_other() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| R")]
    assert len(shown) == len(REGRESSIONS)

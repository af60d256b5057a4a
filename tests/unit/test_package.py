"""`import sideband`: which names it has, and that each is loaded when it is first used."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import sideband
from tests.programs import run_python


def declared() -> dict[str, str]:
    """Each name that type checkers are told of, with the module it is said to come from."""
    tree = ast.parse(Path(sideband.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {
        alias.asname or alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("name", sideband.__all__)
def test_every_public_name_resolves_to_what_its_home_has(name: str) -> None:
    assert getattr(sideband, name) is getattr(import_module(declared()[name]), name)


def test_type_checkers_and_programs_know_the_same_names() -> None:
    assert declared().keys() == {*sideband.__all__}


def test_dir_lists_every_public_name_before_any_is_loaded() -> None:
    listed = run_python("-c", "import sideband; print(*dir(sideband))").stdout.split()
    assert {*sideband.__all__, "__version__"} <= {*listed}


def test_dir_lists_a_name_that_is_loaded_only_once() -> None:
    assert sideband.Reminder.__name__ == "Reminder"
    assert dir(sideband).count("Reminder") == 1


def test_an_unknown_name_is_an_attribute_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'sideband' has no attribute 'inject_remainder'"):
        _ = sideband.inject_remainder


def test_a_name_is_loaded_when_it_is_first_used_and_kept() -> None:
    script = """
import sys, sideband
print("sideband.core.reminder" in sys.modules, "Reminder" in vars(sideband))
first = sideband.Reminder
print("sideband.core.reminder" in sys.modules, vars(sideband)["Reminder"] is first)
"""
    assert run_python("-c", script).stdout.split() == ["False", "False", "True", "True"]


def test_a_star_import_brings_exactly_the_public_names() -> None:
    script = "from sideband import *; print(*sorted(name for name in dir() if not name.startswith('__')))"
    assert run_python("-c", script).stdout.split() == sorted(sideband.__all__)

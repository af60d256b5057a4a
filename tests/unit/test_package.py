"""`import sideband`, and `sideband.testing`: which names they have, and that each is loaded when it is first used."""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import sideband
import sideband.testing
from tests.programs import run_python

LAZY = [sideband, sideband.testing]
NAMES = [pytest.param(package, name, id=name) for package in LAZY for name in package.__all__]
packages = pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)


def declared(package: ModuleType) -> dict[str, str]:
    """Each name that type checkers are told of, with the module it is said to come from."""
    tree = ast.parse(Path(package.__file__ or "").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {
        alias.asname or alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_public_name_resolves_to_what_its_home_has(package: ModuleType, name: str) -> None:
    assert getattr(package, name) is getattr(import_module(declared(package)[name]), name)


@packages
def test_type_checkers_and_programs_know_the_same_names(package: ModuleType) -> None:
    assert declared(package).keys() == {*package.__all__}


@packages
def test_dir_lists_every_public_name_before_any_is_loaded(package: ModuleType) -> None:
    listed = run_python("-c", f"import {package.__name__}; print(*dir({package.__name__}))").stdout.split()
    assert {*package.__all__} <= {*listed}


def test_dir_lists_the_version() -> None:
    assert "__version__" in dir(sideband)


def test_dir_lists_a_name_that_is_loaded_only_once() -> None:
    assert sideband.Reminder.__name__ == "Reminder"
    assert dir(sideband).count("Reminder") == 1


@packages
def test_an_unknown_name_is_an_attribute_error_that_says_so(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'inject_remainder'"):
        _ = package.inject_remainder


def test_a_name_is_loaded_when_it_is_first_used_and_kept() -> None:
    script = """
import sys, sideband
print("sideband.core.reminder" in sys.modules, "Reminder" in vars(sideband))
first = sideband.Reminder
print("sideband.core.reminder" in sys.modules, vars(sideband)["Reminder"] is first)
"""
    assert run_python("-c", script).stdout.split() == ["False", "False", "True", "True"]


@packages
def test_a_star_import_brings_exactly_the_public_names(package: ModuleType) -> None:
    script = f"from {package.__name__} import *; print(*sorted(name for name in dir() if not name.startswith('__')))"
    assert run_python("-c", script).stdout.split() == sorted(package.__all__)

"""Which conformance test proves which requirement, read from the text of the tests.

The tests are not imported or collected for this, so that the answer is the same when one file runs alone and when
several workers share the run.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

HERE: Final = Path(__file__).parent
# Tests in a real browser prove rules of the page; `make test-studio` runs them.
STUDIO: Final = HERE.parent / "studio"
MARKER: Final = "pytest.mark.requirement"
# Tests of the manifest itself prove no behaviour of the system.
META_TESTS: Final = frozenset({"test_manifest.py"})


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """One test and the ids it says it proves; no ids means that it carries no marker."""

    test: str
    ids: tuple[str, ...]


def proofs() -> tuple[Proof, ...]:
    """What every conformance test proves."""
    files = sorted(path for path in HERE.rglob("test_*.py") if path.name not in META_TESTS)
    return tuple(
        proof
        for path in (*files, *sorted(STUDIO.glob("test_*.py")))
        for proof in scan(path.read_text(encoding="utf-8"), path.relative_to(HERE.parent).as_posix())
    )


def scan(text: str, name: str) -> Iterator[Proof]:
    """What each test in one file proves: markers on the test, on its class, and on the rows of its tables."""
    yield from _scan(ast.parse(text, filename=name).body, name, ())


def _scan(body: list[ast.stmt], name: str, inherited: tuple[str, ...]) -> Iterator[Proof]:
    for node in body:
        match node:
            case ast.ClassDef():
                yield from _scan(node.body, f"{name}::{node.name}", (*inherited, *_marked(node.decorator_list)))
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test_"):
                yield Proof(test=f"{name}::{node.name}", ids=(*inherited, *_marked(node.decorator_list)))


def _marked(decorators: list[ast.expr]) -> Iterator[str]:
    calls = (
        node
        for decorator in decorators
        for node in ast.walk(decorator)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == MARKER
    )
    for call in calls:
        for argument in call.args:
            # What is not a literal is reported as its source text, which is no known id.
            literal = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            yield ast.literal_eval(argument) if literal else ast.unparse(argument)

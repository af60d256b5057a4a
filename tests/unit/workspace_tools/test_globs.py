"""Globs: what they match, and that no glob is slow."""

import pytest

from sideband.tools.globs import MAX_ALTERNATIVES, Glob
from sideband.tools.refusal import Refused


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        pytest.param("*.py", ["a.py", "src/deep/a.py", ".py"], ["a.pyc", "a.py/b"], id="a-name-anywhere"),
        pytest.param("src/*.py", ["src/a.py"], ["src/deep/a.py", "a.py", "lib/src/a.py"], id="a-path-from-the-root"),
        pytest.param("./src/*.py", ["src/a.py"], ["src/deep/a.py"], id="with-a-dot"),
        pytest.param("/src/*.py", ["src/a.py"], ["src/deep/a.py"], id="with-a-slash"),
        pytest.param("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "src/a.js"], id="any-folders"),
        pytest.param("**/test_*", ["test_a", "x/y/test_a"], ["x/a"], id="any-folders-first"),
        pytest.param("src/**", ["src/a", "src/x/a"], ["lib/a"], id="everything-below"),
        pytest.param("**", ["a", "x/a"], [], id="everything"),
        pytest.param("**/**/a", ["a", "x/y/a"], ["b"], id="any-folders-twice"),
        pytest.param("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.js", "a.{ts,tsx}"], id="either"),
        pytest.param("{src,lib}/{a,b}.py", ["src/a.py", "lib/b.py"], ["src/c.py"], id="either-twice"),
        pytest.param("a.{p{y,l},c}", ["a.py", "a.pl", "a.c"], ["a.p"], id="either-inside-either"),
        pytest.param("?.[ch]", ["a.c", "b.h"], ["ab.c", "a.o"], id="one-character"),
        pytest.param("[!a].c", ["b.c"], ["a.c"], id="not-this-character"),
        pytest.param("*.PY", ["a.PY"], ["a.py"], id="upper-and-lower-case-differ"),
        pytest.param("a{b", ["a{b"], ["ab"], id="a-brace-that-is-not-closed"),
    ],
)
def test_a_glob_matches(glob: str, matching: list[str], others: list[str]) -> None:
    compiled = Glob(glob)
    assert [path for path in matching + others if compiled.matches(path.split("/"))] == matching


def test_a_glob_that_stands_for_too_many_is_refused() -> None:
    with pytest.raises(Refused, match=str(MAX_ALTERNATIVES)):
        Glob("{a,b}" * 10)


def test_a_glob_with_many_stars_is_answered() -> None:
    # Tried choice by choice, either of these would take longer than anybody waits.
    assert not Glob("*a" * 30 + "b").matches(["a" * 200])
    assert not Glob("**/a/" * 20 + "b").matches(["a"] * 60)

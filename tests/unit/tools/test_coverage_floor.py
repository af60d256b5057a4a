"""The coverage floors: which package each file counts for, and what the check says when a floor is missed."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tools.coverage_floor import FLOOR_ELSEWHERE, PURE_FLOORS, MeasuredFile, main, package_of, ranges

PURE_FILES = tuple(f"src/{package.replace('.', '/')}/__init__.py" for package in PURE_FLOORS)


def a_file(
    *,
    lines: tuple[int, int] = (10, 10),
    branches: tuple[int, int] = (0, 0),
    missing_lines: tuple[int, ...] = (),
    missing_branches: tuple[tuple[int, int], ...] = (),
) -> dict[str, object]:
    """A file as coverage reports it; each pair is what is covered, and of how many."""
    return {
        "summary": {
            "covered_lines": lines[0],
            "num_statements": lines[1],
            "covered_branches": branches[0],
            "num_branches": branches[1],
        },
        "missing_lines": missing_lines,
        "missing_branches": missing_branches,
    }


def a_report(folder: Path, files: Mapping[str, object]) -> str:
    """A report in which the pure packages are covered, unless `files` says otherwise."""
    path = folder / "coverage.json"
    path.write_bytes(msgspec.json.encode({"files": {name: a_file() for name in PURE_FILES} | dict(files)}))
    return str(path)


@pytest.mark.parametrize(
    ("path", "package"),
    [
        pytest.param("src/sideband/__init__.py", "sideband", id="the-package-itself"),
        pytest.param("src/sideband/ports.py", "sideband.ports", id="a-module-below-it"),
        pytest.param("src/sideband/core/__init__.py", "sideband.core", id="a-package-below-it"),
        pytest.param("src/sideband/core/reminder.py", "sideband.core", id="a-module-of-that-package"),
        pytest.param("src/sideband/render/wires/gemini.py", "sideband.render", id="a-module-deeper-down"),
    ],
)
def test_a_file_counts_for_the_package_below_sideband(path: str, package: str) -> None:
    assert package_of(path) == package


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param([], [], id="none"),
        pytest.param([7], ["7"], id="one"),
        pytest.param([3, 4, 5, 9, 11, 12], ["3-5", "9", "11-12"], id="runs-and-single-lines"),
    ],
)
def test_neighbouring_lines_are_one_range(lines: list[int], text: list[str]) -> None:
    assert list(ranges(lines)) == text


@pytest.mark.parametrize(
    ("path", "covered", "verdict"),
    [
        pytest.param("src/sideband/core/seams.py", (1000, 1000), 0, id="core-complete"),
        pytest.param("src/sideband/core/seams.py", (999, 1000), 1, id="core-short-by-one-line"),
        pytest.param("src/sideband/recall/bm25.py", (999, 1000), 1, id="recall-short-by-one-line"),
        pytest.param("src/sideband/render/shapes.py", (999, 1000), 1, id="render-short-by-one-line"),
        pytest.param("src/sideband/cli/show.py", (900, 1000), 0, id="elsewhere-exactly-at-the-floor"),
        pytest.param("src/sideband/cli/show.py", (899, 1000), 1, id="elsewhere-below-the-floor"),
        pytest.param("src/sideband/cli/__init__.py", (0, 0), 0, id="a-package-without-statements"),
    ],
)
def test_each_package_has_its_floor(tmp_path: Path, path: str, covered: tuple[int, int], verdict: int) -> None:
    assert main([a_report(tmp_path, {path: a_file(lines=covered)})]) == verdict


def test_a_well_covered_package_does_not_hide_another(tmp_path: Path) -> None:
    report = a_report(
        tmp_path,
        {"src/sideband/cli/show.py": a_file(lines=(9000, 9000)), "src/sideband/lint/rules.py": a_file(lines=(8, 10))},
    )
    assert main([report]) == 1


def test_branches_count_as_lines_do(tmp_path: Path) -> None:
    assert main([a_report(tmp_path, {"src/sideband/core/seams.py": a_file(branches=(3, 4))})]) == 1


def test_a_missed_floor_is_explained_down_to_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missed = a_file(lines=(6, 10), branches=(2, 4), missing_lines=(3, 4, 5, 9), missing_branches=((8, 9), (12, -10)))
    main(
        [a_report(tmp_path, {"src/sideband/lint/rules.py": missed, "src/sideband/lint/full.py": a_file(lines=(3, 3))})]
    )
    assert capsys.readouterr().out.splitlines() == [
        f"sideband.lint is covered to 64.70 %, its floor is {FLOOR_ELSEWHERE} %",
        "  src/sideband/lint/rules.py: lines 3-5, 9; branches 8->9, 12->exit",
    ]


def test_almost_everything_is_not_shown_as_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([a_report(tmp_path, {"src/sideband/core/seams.py": a_file(lines=(99_999, 100_000))})])
    assert "sideband.core is covered to 99.99 %, its floor is 100 %" in capsys.readouterr().out


def test_a_pure_package_that_was_not_measured_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "coverage.json"
    path.write_bytes(msgspec.json.encode({"files": {name: a_file() for name in PURE_FILES[1:]}}))
    assert main([str(path)]) == 1
    assert "sideband.core has a floor of 100 % and is not in the report" in capsys.readouterr().out


def test_a_report_without_branches_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines_only = {"summary": {"covered_lines": 1, "num_statements": 1}, "missing_lines": []}
    assert main([a_report(tmp_path, {"src/sideband/ports.py": lines_only})]) == 2
    assert "no report with branch coverage" in capsys.readouterr().err


def test_a_missing_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "absent.json")]) == 2
    assert "absent.json" in capsys.readouterr().err


def test_a_call_without_a_report_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage:")


def test_reached_floors_are_one_closing_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([a_report(tmp_path, {})]) == 0
    assert capsys.readouterr().out == f"coverage: all {len(PURE_FLOORS)} packages reach their floors\n"


def test_the_report_is_read_into_typed_records() -> None:
    measured = msgspec.convert(a_file(lines=(1, 2), missing_branches=((4, -1),)), MeasuredFile)
    assert measured.missing_branches == ((4, -1),)

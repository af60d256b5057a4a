"""Test suites: how commands and reports are read, how two runs are compared, and the bounds of what is told."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sideband.watch.junit import BrokenReport, ReportedCase, read_junit
from sideband.watch.results import COLLECTION, CaseId, FileDelta, deltas, results_of
from sideband.watch.suites import SuiteWatcher, pytest_position
from sideband.watch.text import MAX_BODY_BYTES
from tests.watching import filled


@pytest.mark.parametrize(
    ("command", "position"),
    [
        ("pytest -q", 0),
        ("/venv/bin/pytest", 0),
        ("python -m pytest tests", 2),
        ("python -X dev -m pytest", 4),
        ("uv run pytest -x", 2),
        ("poetry run py.test", 2),
        ("coverage run -m pytest", 3),
        ("tox -e pytest", None),
        ("cargo test", None),
        ("make pytest", None),
    ],
)
def test_pytest_is_recognised(command: str, position: int | None) -> None:
    assert pytest_position(command.split()) == position


@pytest.mark.parametrize(
    ("xml", "cases"),
    [
        pytest.param(
            "<testsuite><testcase classname='a.b' name='t'/></testsuite>", [("", "a.b", "t", None)], id="one-suite"
        ),
        pytest.param(
            "<testsuites><testsuite file='x.js'><testcase name='t'><error>\n boom \nmore</error></testcase></testsuite></testsuites>",
            [("x.js", "", "t", "boom")],
            id="the-file-of-the-suite-and-the-text-of-an-error",
        ),
        pytest.param(
            "<testsuite><testcase name='t'><skipped/></testcase><testcase name='u'><failure/></testcase></testsuite>",
            [("", "", "t", None), ("", "", "u", "")],
            id="skipped-is-not-failed",
        ),
        pytest.param(
            "<testsuite><testcase name='t'><failure message='one'/><error message='two'/></testcase></testsuite>",
            [("", "", "t", "one")],
            id="the-first-failure-counts",
        ),
        pytest.param("<testsuites/>", [], id="no-tests"),
    ],
)
def test_a_report_is_read(xml: str, cases: list[tuple[str, str, str, str | None]]) -> None:
    assert read_junit(xml.encode()) == tuple(ReportedCase(*case) for case in cases)


@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    try:
        read_junit(data)
    except BrokenReport as error:
        assert str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    ("case", "identity"),
    [
        pytest.param(("tests/x.py", "any", "t"), ("tests/x.py", "t"), id="the-file-of-the-report"),
        pytest.param(("{root}/tests/test_api.py", "", "t"), ("tests/test_api.py", "t"), id="an-absolute-file"),
        pytest.param(("", "tests.test_api", "t[1-a.b]"), ("tests/test_api.py", "t[1-a.b]"), id="a-module"),
        pytest.param(("", "tests.test_api.TestX", "t"), ("tests/test_api.py", "TestX.t"), id="a-class"),
        pytest.param(("tests/test_api.py", "tests.test_api.TestX", "t"), ("tests/test_api.py", "TestX.t"), id="both"),
        pytest.param(("", "", "tests.test_api"), ("tests/test_api.py", COLLECTION), id="a-collection-error"),
        pytest.param(("", "com.acme.BarTest", "t"), ("com.acme.BarTest", "t"), id="a-class-of-another-language"),
        pytest.param(("", "", "t"), ("t", "t"), id="only-a-name"),
    ],
)
def test_a_test_is_found_by_its_file_or_its_class(
    tmp_path: Path, case: tuple[str, str, str], identity: tuple[str, str]
) -> None:
    filled(tmp_path, {"tests/test_api.py": ""})
    file, classname, name = case
    reported = ReportedCase(file.format(root=tmp_path), classname, name, None)
    assert [*results_of([reported], tmp_path)] == [CaseId(*identity)]


def test_a_test_that_is_reported_twice_fails_if_one_report_does(tmp_path: Path) -> None:
    cases = [ReportedCase("f", "", "t", failure) for failure in (None, "boom", None)]
    assert results_of(cases, tmp_path) == {CaseId("f", "t"): "boom"}


A, B, OTHER = CaseId("f", "a"), CaseId("f", "b"), CaseId("g", "a")


@pytest.mark.parametrize(
    ("runs", "last"),
    [
        pytest.param([{A: None}, {A: "x"}], [FileDelta("f", {"a": "x"}, [])], id="starts-failing"),
        pytest.param([{A: "x"}, {A: None}], [FileDelta("f", {}, ["a"])], id="stops-failing"),
        pytest.param([{A: "x"}, {A: "y"}], [], id="still-fails"),
        pytest.param([{A: "x"}, {B: None}], [], id="a-test-that-did-not-run-keeps-its-state"),
        pytest.param([{A: "x"}, {}, {A: None}], [FileDelta("f", {}, ["a"])], id="and-is-told-when-it-passes"),
        pytest.param(
            [{OTHER: "x", A: None}, {OTHER: None, A: "x"}],
            [FileDelta("f", {"a": "x"}, []), FileDelta("g", {}, ["a"])],
            id="by-file",
        ),
        pytest.param(
            [{CaseId("f", COLLECTION): "x"}, {A: None}],
            [FileDelta("f", {}, [COLLECTION])],
            id="a-file-can-be-collected-again",
        ),
    ],
)
def test_two_runs_are_compared(runs: Sequence[Mapping[CaseId, str | None]], last: list[FileDelta]) -> None:
    known: dict[CaseId, bool] = {}
    told = [deltas(known, results) for results in runs]
    assert told[-1] == last


NAME = st.text(min_size=1, max_size=300)
RESULTS = st.dictionaries(st.builds(CaseId, NAME, NAME), st.none() | NAME, max_size=30)


@settings(deadline=None)
@given(first=RESULTS, second=RESULTS)
def test_notices_are_bounded_and_printable(first: dict[CaseId, str | None], second: dict[CaseId, str | None]) -> None:
    watcher = SuiteWatcher(["pytest"])
    known: dict[CaseId, bool] = {}
    for results in (first, second):
        for notice in watcher._reported(deltas(known, results)):
            assert len(notice.body.encode()) <= MAX_BODY_BYTES
            assert notice.body.replace("\n", "").isprintable()

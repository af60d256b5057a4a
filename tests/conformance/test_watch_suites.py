"""Test suites: which tests start and stop failing, from reports that may be missing, broken or hostile."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.watch import junit as junit_module
from sideband.watch import suites
from sideband.watch.junit import BrokenReport, read_junit
from sideband.watch.suites import SuiteWatcher
from tests.waiting import until
from tests.watching import filled, run, watching

FAST = 0.03
FAILED = '<failure message="assert 1 == 2&#10;more">trace</failure>'


def a_report(*cases: str) -> str:
    return f"<testsuites><testsuite name='s'>{''.join(cases)}</testsuite></testsuites>"


def a_case(name: str, *, fails: bool = False, file: str = "tests/test_api.py") -> str:
    return f'<testcase file="{file}" classname="tests.test_api" name="{name}">{FAILED * fails}</testcase>'


def a_suite(root: Path, report: str, code: int = 0, **options: Any) -> SuiteWatcher:  # noqa: ANN401 - options of the watcher
    """A suite whose report is the file `results`, and whose exit status is `code`."""
    filled(root, {"results": report, "code": str(code)})
    script = "[ -s results ] && cp results junit.xml; echo said; exit $(cat code)"
    return SuiteWatcher(
        ["sh", "-c", script], junit=Path("junit.xml"), name="suite", watch=root, debounce_seconds=FAST, **options
    )


# What is told.


@pytest.mark.requirement("watch:tests:changes-by-file")
def test_tests_that_start_and_stop_failing_are_told_by_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = a_report(a_case("test_a"), a_case("test_b"), a_case("test_c", fails=True))
        watcher = a_suite(tmp_path, first, code=1)
        async with watching(watcher) as seen:
            assert await seen.bodies(1) == ["tests/test_api.py: test_c fails now.\ntest_c: assert 1 == 2"]
            filled(
                tmp_path,
                {"results": a_report(a_case("test_a", fails=True), a_case("test_b", fails=True), a_case("test_c"))},
            )
            notice = await seen.next()
            assert notice.body == (
                "tests/test_api.py: test_a, test_b fail now; test_c passes now.\n"
                "test_a: assert 1 == 2\ntest_b: assert 1 == 2"
            )
            assert notice.dedupe_key == "test:tests/test_api.py"
            assert notice.ttl_turns == 2
            assert notice.tags == ("tests",)
            assert notice.uris == (watcher.uri,) == ("watch://suite",)
            assert watcher.latest.startswith(
                "sh -c '[ -s results ] && cp results junit.xml; echo said; exit $(cat code)': 3 tests, 2 fail."
            )
            filled(tmp_path, {"results": a_report(*map(a_case, ("test_a", "test_b", "test_c"))), "code": "0"})
            assert await seen.bodies(1) == ["tests/test_api.py: test_a, test_b pass now."]

    run(scenario())


@pytest.mark.requirement("watch:tests:green-is-silent")
def test_a_green_start_and_a_change_that_breaks_nothing_are_silent(tmp_path: Path) -> None:
    async def scenario() -> None:
        watcher = a_suite(tmp_path, a_report(a_case("test_a")))
        async with watching(watcher) as seen:
            await until(lambda: "1 test, 0 fail" in watcher.latest)
            filled(tmp_path, {"results": a_report(a_case("test_a"), a_case("test_b"))})
            await until(lambda: "2 tests, 0 fail" in watcher.latest)
            assert seen.told.empty()

    run(scenario())


@pytest.mark.requirement("watch:tests:no-results")
@pytest.mark.parametrize(
    ("report", "code", "said"),
    [
        pytest.param("", 2, "failed (exit status 2) and wrote no test report:\nsaid", id="no-report"),
        pytest.param("", 0, "passed and wrote no test report:\nsaid", id="no-report-of-a-success"),
        pytest.param(
            "<testsuites>",
            1,
            "its test report cannot be read: it is not valid XML (line 1, column 12: no element",
            id="broken",
        ),
        pytest.param("<html/>", 1, "its root is <html>, not <testsuites>", id="another-format"),
        pytest.param(
            a_report(a_case("test_a")), 5, "(exit status 5), but its report has no failing test", id="no-failure"
        ),
    ],
)
def test_a_run_without_results_is_told_and_so_is_its_end(tmp_path: Path, report: str, code: int, said: str) -> None:
    async def scenario() -> None:
        async with watching(a_suite(tmp_path, report, code)) as seen:
            notice = await seen.next()
            assert said in notice.body
            assert notice.dedupe_key == "test:suite"
            filled(tmp_path, {"results": a_report(a_case("test_b")), "code": "0"})
            assert (await seen.next()).body.endswith("has results again: 1 test, 0 fail.")

    run(scenario())


@pytest.mark.requirement("watch:tests:no-results")
def test_an_old_report_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    filled(tmp_path, {"junit.xml": a_report(a_case("test_a", fails=True))})

    async def scenario() -> None:
        async with watching(a_suite(tmp_path, "", 1)) as seen:
            assert "wrote no test report" in (await seen.next()).body

    run(scenario())


@pytest.mark.requirement("watch:command:cannot-start")
def test_a_runner_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        watcher = SuiteWatcher(["./missing"], junit=Path("x.xml"), watch=tmp_path, debounce_seconds=FAST)
        async with watching(watcher) as seen:
            assert await seen.bodies(1) == ["./missing cannot be started: No such file or directory"]

    run(scenario())


@pytest.mark.requirement("watch:tests:many-files-collapse")
def test_changes_in_many_files_are_one_notice(tmp_path: Path) -> None:
    cases = [a_case(f"test_{number}", fails=True, file=f"tests/test_{number}.py") for number in range(40)]

    async def scenario() -> None:
        async with watching(a_suite(tmp_path, a_report(*cases), 1)) as seen:
            notice = await seen.next()
            assert notice.body.startswith("In 40 files, 40 tests started and 0 stopped failing: tests/test_0.py,")
            assert notice.dedupe_key == "test:suite"
            assert seen.told.empty()

    run(scenario())


@pytest.mark.requirement("watch:tests:pytest-needs-no-junit")
def test_the_tests_of_pytest_need_no_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The plugins of this environment would take most of the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    tests = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_a(n):\n    assert n != {}\n"
    filled(
        tmp_path,
        {"pytest.ini": "[pytest]", "tests/test_a.py": tests.format(2), "tests/test_b.py": "def test_b(): pass"},
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]

    async def scenario() -> None:
        async with watching(SuiteWatcher(command, watch=tmp_path, debounce_seconds=FAST)) as seen:
            assert await seen.bodies(1) == ["tests/test_a.py: test_a[2] fails now.\ntest_a[2]: assert 2 != 2"]
            # pytest runs no test if it cannot collect one of the files.
            filled(tmp_path, {"tests/test_a.py": tests.format(3), "tests/test_b.py": "import missing_module"})
            assert await seen.bodies(1) == ["tests/test_b.py: collection fails now.\ncollection: collection failure"]
            filled(tmp_path, {"tests/test_b.py": "class TestB:\n    def test_c(self): pass"})
            assert await seen.bodies(2) == [
                "tests/test_a.py: test_a[2] passes now.",
                "tests/test_b.py: collection passes now.",
            ]

    run(scenario())
    assert not [*tmp_path.rglob("*.xml")]


# Options.


@pytest.mark.requirement("watch:tests:junit-required")
def test_another_runner_needs_the_file_of_its_report() -> None:
    with pytest.raises(InvalidOption, match="--junit FILE"):
        SuiteWatcher(["npx", "jest"])


@pytest.mark.requirement("watch:tests:pytest-needs-no-junit")
@pytest.mark.parametrize(
    ("command", "junit", "written"),
    [
        pytest.param("fake/pytest --junitxml=mine.xml", None, "mine.xml", id="named-by-the-command"),
        pytest.param("fake/pytest --junit-xml mine.xml", None, "mine.xml", id="named-by-the-command-in-two-words"),
        pytest.param("fake/pytest -q", Path("mine.xml"), "mine.xml", id="named-by-the-option"),
    ],
)
def test_the_report_of_pytest_is_where_it_was_asked_for(
    tmp_path: Path, command: str, junit: Path | None, written: str
) -> None:
    report = a_report(a_case("test_a", fails=True))
    fake = (
        '#!/bin/sh\nfor word in "$@"; do case "$word" in --junit*=*) file="${word#*=}";; *.xml) file="$word";; esac; done\n'
        'cat "$0.report" > "$file"; exit 1\n'
    )
    program = filled(tmp_path, {"fake/pytest": fake, "fake/pytest.report": report}) / "fake" / "pytest"
    program.chmod(0o700)

    async def scenario() -> None:
        words = command.split()
        watcher = SuiteWatcher(
            [str(tmp_path / words[0]), *words[1:]], junit=junit, watch=tmp_path, debounce_seconds=FAST
        )
        async with watching(watcher) as seen:
            assert (await seen.next()).body.startswith("tests/test_api.py: test_a fails now.")

    run(scenario())
    assert (tmp_path / written).exists()


# Reports.


ENTITY = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b SYSTEM "file:///etc/passwd">]><testsuites>&a;&b;</testsuites>'


@pytest.mark.requirement("watch:tests:hostile-xml")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(ENTITY.encode(), "a document type declaration", id="entities"),
        pytest.param(ENTITY.encode("utf-16"), "a document type declaration", id="entities-in-another-encoding"),
        pytest.param(b"<testsuites>&x;</testsuites>", "not valid XML", id="an-unknown-entity"),
        pytest.param(b"", "not valid XML", id="nothing"),
        pytest.param(b"<testsuites></testsuite>", "not valid XML", id="wrong-nesting"),
        pytest.param(b"<?xml version='1.0' encoding='x'?><testsuites/>", "not valid XML", id="an-unknown-encoding"),
        pytest.param(b"<testsuites>\0</testsuites>", "not valid XML", id="a-nul"),
    ],
)
def test_a_broken_or_hostile_report_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BrokenReport, match=said):
        read_junit(data)


@pytest.mark.requirement("watch:tests:hostile-xml")
def test_a_report_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "MAX_REPORT_BYTES", 10)
    assert junit_module.MAX_REPORT_BYTES > 10

    async def scenario() -> None:
        async with watching(a_suite(tmp_path, a_report(a_case("test_a")))) as seen:
            assert "it has more than 10 bytes" in (await seen.next()).body

    run(scenario())


@pytest.mark.requirement("watch:command:close-ends-everything")
def test_closing_removes_the_temporary_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(reports))
    root = tmp_path / "root"
    root.mkdir()

    async def scenario() -> None:
        watcher = SuiteWatcher(["pytest", "--version"], watch=root, debounce_seconds=FAST)
        async with watching(watcher):
            assert len(os.listdir(reports)) == 1  # noqa: PTH208 - a count
        await asyncio.sleep(0)
        assert os.listdir(reports) == []  # noqa: PTH208 - a count

    run(scenario())


@pytest.mark.requirement("watch:tests:hostile-xml")
@pytest.mark.parametrize("encoding", ["utf-7", "idna", "shift_jis", "utf-32", "hex", "undefined", "cp037"])
def test_an_odd_encoding_is_refused_or_read(encoding: str) -> None:
    data = f"<?xml version='1.0' encoding='{encoding}'?><testsuites/>".encode()
    try:
        assert read_junit(data) == ()
    except BrokenReport as error:
        assert "not valid XML" in str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.requirement("watch:tests:hostile-xml")
def test_the_place_of_an_error_is_not_taken_for_a_secret(tmp_path: Path) -> None:
    async def scenario() -> str:
        async with watching(a_suite(tmp_path, "<testsuites", 1)) as seen:
            return (await seen.next()).body

    assert "it is not valid XML (line 1, column 0: unclosed token)" in run(scenario())


@pytest.mark.requirement("watch:tests:hostile-xml")
def test_a_name_that_is_too_long_for_a_file_does_not_end_the_watch(tmp_path: Path) -> None:
    case = f'<testcase classname="{"x" * 5000}" name="t">{FAILED}</testcase>'

    async def scenario() -> str:
        async with watching(a_suite(tmp_path, a_report(case), 1)) as seen:
            return (await seen.next()).body

    assert ": t fails now." in run(scenario())


@pytest.mark.requirement("watch:command:changed-during-run")
def test_results_of_tests_say_that_files_changed_during_the_run(tmp_path: Path) -> None:
    root = filled(tmp_path / "root", {"results": a_report(a_case("test_a", fails=True))})
    script = "echo x > out.$$; sleep 0.3; cp results ../junit.xml; exit 1"

    async def scenario() -> str:
        watcher = SuiteWatcher(["sh", "-c", script], junit=Path("../junit.xml"), watch=root, debounce_seconds=FAST)
        async with watching(watcher) as seen:
            return (await seen.next()).body

    fact, note, _ = run(scenario()).split("\n")
    assert fact == "tests/test_api.py: test_a fails now."
    assert note.startswith("(The tests run again, because of changes during this run: out.")

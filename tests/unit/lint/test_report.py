"""Reports: for people on a terminal, and for programs as JSON."""

import json

import pytest

from sideband.core.catalogue import Severity
from sideband.lint.check import Finding, Report
from sideband.lint.report import Format, printable, render


def a_finding(
    *, path: str = "a.py", line: int = 3, code: str = "HARN-RMD-004", severity: Severity = Severity.WARNING
) -> Finding:
    return Finding(
        path=path, line=line, column=5, code=code, severity=severity, message="it never ends", key="ttl_turns"
    )


def test_every_finding_is_a_line_that_an_editor_can_follow() -> None:
    text = render(Report(findings=(a_finding(), a_finding(line=9)), files=4), Format.TEXT)
    assert text.splitlines() == [
        "a.py:3:5: warning HARN-RMD-004 it never ends",
        "a.py:9:5: warning HARN-RMD-004 it never ends",
        "",
        "2 warnings in 1 of 4 files.",
        "For cause and remedy: sideband explain HARN-RMD-004",
    ]


@pytest.mark.parametrize(
    ("severities", "files", "summary"),
    [
        pytest.param([], 1, "Nothing to report in 1 file.", id="nothing"),
        pytest.param([], 0, "Nothing to report in 0 files.", id="no-files"),
        pytest.param([Severity.ERROR], 1, "1 error in 1 of 1 file.", id="one"),
        pytest.param([Severity.ADVICE], 2, "1 piece of advice in 1 of 2 files.", id="one-advice"),
        pytest.param([*Severity, *Severity], 2, "2 errors, 2 warnings, 2 pieces of advice in 2 of 2 files.", id="all"),
    ],
)
def test_the_summary_counts(severities: list[Severity], files: int, summary: str) -> None:
    paths = ("a.py", "b.py")
    findings = [a_finding(path=paths[place % 2], severity=severity) for place, severity in enumerate(severities)]
    lines = render(Report(findings=tuple(findings), files=files), Format.TEXT).splitlines()
    assert summary in lines


def test_files_that_were_passed_over_are_named() -> None:
    text = render(Report(findings=(), files=1, too_large=("big.json",)), Format.TEXT)
    assert text.splitlines() == [
        "big.json: passed over, too large to be checked",
        "",
        "Nothing to report in 1 file.",
    ]


@pytest.mark.parametrize("form", Format)
def test_nothing_of_a_file_reaches_the_terminal_as_a_command(form: Format) -> None:
    hostile = "\x1b]0;owned\x07\x9b31m\u202e\udcff\n\ud800"
    finding = Finding(
        path=hostile.replace("\ud800", ".py"),
        line=1,
        column=1,
        code="HARN-RMD-001",
        severity=Severity.ERROR,
        message=hostile,
        key=hostile,
    )
    text = render(Report(findings=(finding,), too_large=(hostile,), unreadable=(hostile,)), form)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.encode()


def test_a_printable_text_stays_as_it_is() -> None:
    assert printable("größer 🙂 'x'") == "größer 🙂 'x'"
    assert printable("a\tb\x1b") == "a\\tb\\x1b"


def test_json_has_everything_a_program_could_want() -> None:
    report = Report(findings=(a_finding(),), files=2, too_large=("big.json",), unreadable=("gone.py: missing",))
    assert json.loads(render(report, Format.JSON)) == {
        "version": 1,
        "findings": [
            {
                "path": "a.py",
                "line": 3,
                "column": 5,
                "code": "HARN-RMD-004",
                "severity": "warning",
                "message": "it never ends",
                "key": "ttl_turns",
            }
        ],
        "summary": {"files": 2, "error": 0, "warning": 1, "advice": 0},
        "too_large": ["big.json"],
        "unreadable": ["gone.py: missing"],
    }

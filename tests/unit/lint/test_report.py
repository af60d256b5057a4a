"""Reports as text, JSON and SARIF."""

import json
import os
from typing import Any, Final

import jsonschema
import pytest

from sideband.core.diagnostics import DIAGNOSTICS
from sideband.core.explanation import Severity
from sideband.lint.check import LintFinding, Report
from sideband.lint.report import Format, render


def a_finding(
    *, path: str = "a.py", line: int = 3, code: str = "HARN-RMD-004", severity: Severity = Severity.WARNING
) -> LintFinding:
    return LintFinding(
        path=path, line=line, column=5, code=code, severity=severity, message="it never ends", key="ttl_turns"
    )


def test_every_finding_is_a_line_that_an_editor_can_follow() -> None:
    text = render(Report(findings=(a_finding(), a_finding(line=9)), files=4), Format.TEXT)
    assert text.splitlines() == [
        "a.py:3:5: warning HARN-RMD-004 it never ends",
        "a.py:9:5: warning HARN-RMD-004 it never ends",
        "",
        "2 warnings in 1 of 4 files.",
        "To see the cause and the remedy: sideband explain HARN-RMD-004",
    ]


@pytest.mark.parametrize(
    ("severities", "files", "summary"),
    [
        pytest.param([], 1, "No problems found in 1 file.", id="nothing"),
        pytest.param([], 0, "No problems found in 0 files.", id="no-files"),
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
        "big.json: not checked, because it is too large",
        "",
        "No problems found in 1 file.",
    ]


@pytest.mark.parametrize("form", Format)
def test_nothing_of_a_file_reaches_the_terminal_as_a_command(form: Format) -> None:
    hostile = "\x1b]0;owned\x07\x9b31m\u202e\udcff\n\ud800"
    finding = LintFinding(
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


# SARIF.


TEXT: Final = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL: Final = {"enum": ["none", "note", "warning", "error"]}
LOCATION: Final = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "additionalProperties": False,
                    "properties": {"uri": {"type": "string", "pattern": r"^[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*$"}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "additionalProperties": False,
                    "properties": {
                        "startLine": {"type": "integer", "minimum": 1},
                        "startColumn": {"type": "integer", "minimum": 1},
                    },
                },
            },
        }
    },
}
RESULT: Final = {
    "type": "object",
    "required": ["message", "ruleId", "level"],
    "additionalProperties": False,
    "properties": {
        "ruleId": {"enum": [*DIAGNOSTICS]},
        "ruleIndex": {"type": "integer", "minimum": 0, "exclusiveMaximum": len(DIAGNOSTICS)},
        "level": LEVEL,
        "message": TEXT,
        "locations": {"type": "array", "minItems": 1, "items": LOCATION},
    },
}
RULE: Final = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "help": TEXT,
        "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}},
    },
}
INVOCATION: Final = {
    "type": "object",
    "required": ["executionSuccessful"],
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {
            "type": "array",
            "items": {"type": "object", "required": ["message"], "properties": {"message": TEXT, "level": LEVEL}},
        },
    },
}
LOG: Final = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {"type": "array", "uniqueItems": True, "items": RULE},
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "invocations": {"type": "array", "items": INVOCATION},
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}


def a_run(report: Report) -> dict[str, Any]:
    """The one run of a report, after the whole log has been held against the format."""
    log = json.loads(render(report, Format.SARIF))
    jsonschema.validate(log, LOG)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def an_error(*, path: str = "a.py", severity: Severity = Severity.ERROR, code: str = "HARN-RMD-005") -> LintFinding:
    return LintFinding(path=path, line=3, column=5, code=code, severity=severity, message="not a word for it")


def test_a_result_says_what_the_finding_says() -> None:
    (result,) = a_run(Report(findings=(an_error(),)))["results"]
    assert result == {
        "ruleId": "HARN-RMD-005",
        "ruleIndex": 4,
        "level": "error",
        "message": {"text": "not a word for it"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "a.py"},
                    "region": {"startLine": 3, "startColumn": 5},
                }
            }
        ],
    }


@pytest.mark.parametrize("code", DIAGNOSTICS)
def test_a_result_points_at_its_rule(code: str) -> None:
    run = a_run(Report(findings=(an_error(code=code),)))
    rule = run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]
    assert (rule["id"], rule["shortDescription"]["text"]) == (code, DIAGNOSTICS[code].title)


@pytest.mark.parametrize(
    ("severity", "level"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.ADVICE, "note")],
)
def test_severities_have_a_level(severity: Severity, level: str) -> None:
    assert a_run(Report(findings=(an_error(severity=severity),)))["results"][0]["level"] == level


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        pytest.param("src/a b.py", "src/a%20b.py", id="a-space"),
        pytest.param("ü#?.py", "%C3%BC%23%3F.py", id="signs"),
        pytest.param("/srv/a.py", "file:///srv/a.py", id="from-the-root"),
        pytest.param(os.fsdecode(b"caf\xe9.py"), "caf%E9.py", id="not-utf-8"),
    ],
)
def test_a_path_becomes_a_uri(path: str, uri: str) -> None:
    (result,) = a_run(Report(findings=(an_error(path=path),)))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_report_without_findings_is_a_run_without_results() -> None:
    run = a_run(Report(findings=()))
    assert (run["results"], run["invocations"][0]["executionSuccessful"]) == ([], True)


def test_what_could_not_be_read_makes_the_run_a_failure() -> None:
    (invocation,) = a_run(Report(findings=(), unreadable=("gone.py: missing",)))["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [notice["message"]["text"] for notice in invocation["toolExecutionNotifications"]] == ["gone.py: missing"]

"""SARIF: the required part of version 2.1.0 of the format, and that it says the same as the report."""

import json
import os
from typing import Any, Final

import jsonschema
import pytest

from sideband.core.catalogue import Severity
from sideband.core.diagnostics import DIAGNOSTICS
from sideband.lint.check import Finding, Report
from sideband.lint.report import Format, render

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


def a_finding(*, path: str = "a.py", severity: Severity = Severity.ERROR, code: str = "HARN-RMD-005") -> Finding:
    return Finding(path=path, line=3, column=5, code=code, severity=severity, message="not a word for it")


def test_a_result_says_what_the_finding_says() -> None:
    (result,) = a_run(Report(findings=(a_finding(),)))["results"]
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
    run = a_run(Report(findings=(a_finding(code=code),)))
    rule = run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]
    assert (rule["id"], rule["shortDescription"]["text"]) == (code, DIAGNOSTICS[code].title)


@pytest.mark.parametrize(
    ("severity", "level"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.ADVICE, "note")],
)
def test_severities_have_a_level(severity: Severity, level: str) -> None:
    assert a_run(Report(findings=(a_finding(severity=severity),)))["results"][0]["level"] == level


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
    (result,) = a_run(Report(findings=(a_finding(path=path),)))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_report_without_findings_is_a_run_without_results() -> None:
    run = a_run(Report(findings=()))
    assert (run["results"], run["invocations"][0]["executionSuccessful"]) == ([], True)


def test_what_could_not_be_read_makes_the_run_a_failure() -> None:
    (invocation,) = a_run(Report(findings=(), unreadable=("gone.py: missing",)))["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [notice["message"]["text"] for notice in invocation["toolExecutionNotifications"]] == ["gone.py: missing"]

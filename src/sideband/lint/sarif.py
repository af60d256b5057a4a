"""A report in SARIF 2.1.0, the interchange format of static analysis."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from sideband import __version__
from sideband.core.catalogue import Diagnostic, Severity
from sideband.core.diagnostics import DIAGNOSTICS
from sideband.lint.check import Finding, Report

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final[Mapping[Severity, str]] = MappingProxyType(
    {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
)
_INDEX: Final[Mapping[str, int]] = MappingProxyType({code: index for index, code in enumerate(DIAGNOSTICS)})


def as_sarif(report: Report) -> dict[str, object]:
    """The report as one run of one tool that knows all diagnostics."""
    driver = {
        "name": "sideband",
        "version": __version__,
        "rules": [_rule(entry) for entry in DIAGNOSTICS.values()],
    }
    notifications = [{"level": "error", "message": {"text": text}} for text in report.unreadable]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": not report.unreadable, "toolExecutionNotifications": notifications},
        ],
        "results": [_result(finding) for finding in report.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(entry: Diagnostic) -> dict[str, object]:
    return {
        "id": entry.code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.cause},
        "help": {"text": entry.remedy},
        "defaultConfiguration": {"level": LEVELS[entry.severity]},
    }


def _result(finding: Finding) -> dict[str, object]:
    return {
        "ruleId": finding.code,
        "ruleIndex": _INDEX[finding.code],
        "level": LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(finding.path)},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                }
            }
        ],
    }


def _uri(path: str) -> str:
    # What could not be decoded from the file system comes back as the bytes it was.
    escaped = quote(path.encode(errors="surrogateescape"))
    return f"file://{escaped}" if PurePosixPath(path).is_absolute() else escaped

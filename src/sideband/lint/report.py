"""A report as text, JSON or SARIF."""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import msgspec

from sideband import __version__
from sideband.core.diagnostics import DIAGNOSTICS
from sideband.core.explanation import Diagnostic, Severity
from sideband.inspect.report import printable
from sideband.lint.check import LintFinding, Report

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final[Mapping[Severity, str]] = MappingProxyType(
    {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
)
_INDEX: Final[Mapping[str, int]] = MappingProxyType({code: index for index, code in enumerate(DIAGNOSTICS)})


class Format(StrEnum):
    """`sarif` is read by code hosts and editors."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def render(report: Report, form: Format) -> str:
    """The report as text, without a trailing line break."""
    if form is Format.TEXT:
        return "\n".join(_lines(report))
    return _dumped(as_sarif(report) if form is Format.SARIF else _as_json(report))


def _lines(report: Report) -> Iterator[str]:
    for found in report.findings:
        place = f"{found.path}:{found.line}:{found.column}"
        yield printable(f"{place}: {found.severity.value} {found.code} {found.message}")
    for path in report.too_large:
        yield printable(f"{path}: not checked, because it is too large")
    if report.findings or report.too_large:
        yield ""
    yield _summary(report)
    if report.findings:
        yield f"To see the cause and the remedy: sideband explain {report.findings[0].code}"


def _summary(report: Report) -> str:
    files = _counted(report.files, "file")
    if not report.findings:
        return f"No problems found in {files}."
    counts = [
        _counted(number, word)
        for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"))
        if (number := report.count(severity))
    ]
    if advice := report.count(Severity.ADVICE):
        counts.append(_counted(advice, "piece") + " of advice")
    touched = len({found.path for found in report.findings})
    return f"{', '.join(counts)} in {touched} of {files}."


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _as_json(report: Report) -> dict[str, object]:
    return {
        "version": 1,
        "findings": msgspec.to_builtins(report.findings),
        "summary": {
            "files": report.files,
            **{severity.value: report.count(severity) for severity in Severity},
        },
        "too_large": list(report.too_large),
        "unreadable": list(report.unreadable),
    }


def _dumped(document: dict[str, object]) -> str:
    # ASCII only, so that control characters of a file cannot reach the terminal.
    return json.dumps(document, indent=2, ensure_ascii=True)


def as_sarif(report: Report) -> dict[str, object]:
    """The report in SARIF 2.1.0, the interchange format of static analysis, as one run that lists all diagnostics."""
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


def _result(finding: LintFinding) -> dict[str, object]:
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
    # A file name that is not valid UTF-8 is quoted byte by byte.
    escaped = quote(path.encode(errors="surrogateescape"))
    return f"file://{escaped}" if PurePosixPath(path).is_absolute() else escaped

"""A report as people and programs read it."""

import json
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from sideband.core.catalogue import Severity
from sideband.lint.check import Report
from sideband.lint.sarif import as_sarif


class Format(StrEnum):
    """`sarif` is what code hosts and editors show beside the code."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def render(report: Report, form: Format) -> str:
    """The whole report, without a line break at its end."""
    if form is Format.TEXT:
        return "\n".join(_lines(report))
    return _dumped(as_sarif(report) if form is Format.SARIF else _as_json(report))


def printable(text: str) -> str:
    """The text on one line, with everything spelled out that a terminal would act on instead of showing."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _lines(report: Report) -> Iterator[str]:
    for found in report.findings:
        place = f"{found.path}:{found.line}:{found.column}"
        yield printable(f"{place}: {found.severity.value} {found.code} {found.message}")
    for path in report.too_large:
        yield printable(f"{path}: passed over, too large to be checked")
    if report.findings or report.too_large:
        yield ""
    yield _summary(report)
    if report.findings:
        yield f"For cause and remedy: sideband explain {report.findings[0].code}"


def _summary(report: Report) -> str:
    files = _counted(report.files, "file")
    if not report.findings:
        return f"Nothing to report in {files}."
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
    # Only ASCII, so that no character of a file reaches the terminal or depends on its encoding.
    return json.dumps(document, indent=2, ensure_ascii=True)

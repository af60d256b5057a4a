"""`sideband lint`: find mistakes in reminders in Python, JSON and TOML files."""

import sys
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from sideband.core.diagnostics import UnknownDiagnostic
from sideband.core.explanation import Severity
from sideband.inspect.report import printable
from sideband.lint.check import Report, check
from sideband.lint.report import Format, render
from sideband.lint.rules import UnknownRoute

OK: Final = 0
FOUND: Final = 1
FAILED: Final = 2


def lint(
    *paths: Path,
    format: Literal["text", "json", "sarif"] = "text",
    model: str | None = None,
    strict: Annotated[bool, Parameter(negative=())] = False,
    select: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    ignore: Annotated[tuple[str, ...], Parameter(negative=())] = (),
) -> int:
    """Find mistakes in reminders in Python, JSON and TOML files, before they run.

    Exits with 0 if there is no problem, 1 if there is an error or a warning, 2 if a file cannot be read. In Python,
    the comment `# sideband: ignore[HARN-RMD-004]` silences a code on its line; alone on a line, also on the next.

    Parameters
    ----------
    paths
        Files, or folders to search; by default the current folder. The search skips hidden folders, `build`, `dist`,
        `node_modules` and symbolic links.
    format
        The format of the report: `text`, `json`, or `sarif` for code hosts and editors.
    model
        Check role hints for this model, written `transport:model`, instead of the models that the files name.
    strict
        Exit with 1 also if there is only advice.
    select
        Report only this code; may be given several times.
    ignore
        Do not report this code; may be given several times.
    """
    try:
        report = check(paths or (Path(),), model=model, select=select, ignore=ignore)
    except (UnknownDiagnostic, UnknownRoute) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    for line in report.unreadable:
        print(f"error: {printable(line)}", file=sys.stderr)
    if not paths and not report.files:
        print(
            "error: no Python, JSON or TOML file in this folder; name files or folders: sideband lint PATH",
            file=sys.stderr,
        )
        return FAILED
    # If no file could be read, the errors above are the whole text report; JSON and SARIF are printed in any case.
    if report.files or not report.unreadable or format != "text":
        print(render(report, Format(format)))
    return _status(report, strict=strict)


def _status(report: Report, *, strict: bool) -> int:
    if report.unreadable:
        return FAILED
    counts = Severity if strict else (Severity.ERROR, Severity.WARNING)
    return FOUND if any(finding.severity in counts for finding in report.findings) else OK

"""`sideband lint`: mistaken reminders in Python, JSON and TOML files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from sideband.lint.check import Report

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
    """Find mistaken reminders in Python, JSON and TOML files, before they run.

    Exits with 0 when there is nothing wrong, 1 after an error or a warning, 2 when something could not be read. In
    Python a comment silences a code on its line, or alone on a line for the next: `# sideband: ignore[HARN-RMD-004]`.

    Parameters
    ----------
    paths
        Files, or folders to search; without any, the current folder. Hidden folders, `build`, `dist`, `node_modules`
        and links are left out of the search.
    format
        How to report: `text` for people, `json` for programs, `sarif` for code hosts and editors.
    model
        Judge role hints for this model, written `transport:model`, instead of for those that the files name.
    strict
        Let advice count, too: exit with 1 after it.
    select
        Report only these codes; may be given several times.
    ignore
        Do not report these codes; may be given several times.
    """
    from sideband.core.diagnostics import UnknownDiagnostic  # noqa: PLC0415 - commands import what they need
    from sideband.lint.check import check  # noqa: PLC0415 - the same
    from sideband.lint.report import Format, printable, render  # noqa: PLC0415 - the same
    from sideband.lint.routes import UnknownRoute  # noqa: PLC0415 - the same

    try:
        report = check(paths or (Path(),), model=model, select=select, ignore=ignore)
    except (UnknownDiagnostic, UnknownRoute) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    for line in report.unreadable:
        print(f"error: {printable(line)}", file=sys.stderr)
    if not paths and not report.files:
        print("error: no Python, JSON or TOML file here; name files or folders: sideband lint PATH", file=sys.stderr)
        return FAILED
    # A program wants its document in any case; people have just been told that there was nothing to look at.
    if report.files or not report.unreadable or format != "text":
        print(render(report, Format(format)))
    return _status(report, strict=strict)


def _status(report: "Report", *, strict: bool) -> int:
    from sideband.core.catalogue import Severity  # noqa: PLC0415 - the same

    if report.unreadable:
        return FAILED
    counts = Severity if strict else (Severity.ERROR, Severity.WARNING)
    return FOUND if any(finding.severity in counts for finding in report.findings) else OK

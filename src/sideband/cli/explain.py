"""`sideband explain`: the cause and the remedy of a diagnostic."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sideband.core.explanation import Diagnostic


def explain(code: str | None = None) -> int:
    """Explain a diagnostic: its cause, its remedy, and an example.

    Without a code, list all diagnostics.

    Parameters
    ----------
    code
        The code as it was printed, `HARN-RMD-004`, or a short form: `rmd-004`, `004` or `4`; or the name or the
        `reason` of an error: `SessionBusy` or `session_busy`.
    """
    from sideband.core.diagnostics import UnknownDiagnostic, diagnostic  # noqa: PLC0415 - commands import what they need

    if code is None:
        print("\n".join(_catalogue()))
        return 0
    try:
        entry = diagnostic(code)
    except UnknownDiagnostic as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(_explained(entry)))
    return 0


def _catalogue() -> Iterator[str]:
    from sideband.core.diagnostics import DIAGNOSTICS  # noqa: PLC0415 - commands import what they need

    width = max(map(len, DIAGNOSTICS))
    for entry in DIAGNOSTICS.values():
        yield f"{entry.code:<{width}}  {entry.severity.value:<7}  {entry.title}"
    yield ""
    yield "To explain one of them: sideband explain CODE; or, for an error, its name or reason"


def _wrapped(text: str) -> Iterator[str]:
    from textwrap import wrap  # noqa: PLC0415 - the same

    for line in wrap(text, width=86, break_long_words=False, break_on_hyphens=False):
        yield f"  {line}"


def _explained(entry: "Diagnostic") -> Iterator[str]:
    from textwrap import indent  # noqa: PLC0415 - the same

    yield f"{entry.code} ({entry.severity.value}): {entry.title}"
    if entry.names:
        yield f"  {', '.join(entry.names)}"
    for heading, text in (("Cause", entry.cause), ("Remedy", entry.remedy)):
        yield from ("", heading, *_wrapped(text))
    for heading, snippet in (("Instead of", entry.example.wrong), ("write", entry.example.right)):
        yield from ("", heading, indent(snippet, "  "))

"""`sideband explain`: what a diagnostic means."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sideband.core.catalogue import Diagnostic


def explain(code: str | None = None) -> int:
    """Explain a diagnostic: what it means, why it is one, and how to be rid of it.

    Without a code, list them all.

    Parameters
    ----------
    code
        The code as it was printed, `HARN-RMD-004`; `rmd-004`, `004` and `4` will do.
    """
    from sideband.core.diagnostics import UnknownDiagnostic, diagnostic  # noqa: PLC0415 - help must not load it

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
    from sideband.core.diagnostics import DIAGNOSTICS  # noqa: PLC0415 - the same

    width = max(map(len, DIAGNOSTICS))
    for entry in DIAGNOSTICS.values():
        yield f"{entry.code:<{width}}  {entry.severity.value:<7}  {entry.title}"
    yield ""
    yield "More about one of them: sideband explain CODE"


def _explained(entry: "Diagnostic") -> Iterator[str]:
    from textwrap import indent, wrap  # noqa: PLC0415 - the same

    yield f"{entry.code} ({entry.severity.value}): {entry.title}"
    for heading, text in (("Cause", entry.cause), ("Remedy", entry.remedy)):
        lines = wrap(text, width=86, break_long_words=False, break_on_hyphens=False)
        yield from ("", heading, *(f"  {line}" for line in lines))
    for heading, snippet in (("Instead of", entry.example.wrong), ("write", entry.example.right)):
        yield from ("", heading, indent(snippet, "  "))

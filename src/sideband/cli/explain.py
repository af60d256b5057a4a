"""`sideband explain`: what a diagnostic means."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sideband.core.catalogue import Diagnostic
    from sideband.core.reasons import Reason


def explain(code: str | None = None) -> int:
    """Explain a diagnostic: what it means, why it is one, and how to be rid of it.

    Without a code, list them all.

    Parameters
    ----------
    code
        The code as it was printed, `HARN-RMD-004`; `rmd-004`, `004` and `4` will do. Or the word that an error goes by,
        its `reason`: `too_many_pending`.
    """
    from sideband.core.diagnostics import UnknownDiagnostic, diagnostic  # noqa: PLC0415 - help must not load it
    from sideband.core.reasons import CODES, REASONS  # noqa: PLC0415 - the same

    if code is None:
        print("\n".join(_catalogue()))
        return 0
    word = code.strip().lower()
    if word in REASONS:
        print("\n".join(_reason(REASONS[word])))
        return 0
    try:
        entry = diagnostic(CODES.get(word, code))
    except UnknownDiagnostic as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(_explained(entry)))
    return 0


def _catalogue() -> Iterator[str]:
    from sideband.core.diagnostics import DIAGNOSTICS  # noqa: PLC0415 - the same
    from sideband.core.reasons import REASONS  # noqa: PLC0415 - the same

    width = max(map(len, DIAGNOSTICS))
    for entry in DIAGNOSTICS.values():
        yield f"{entry.code:<{width}}  {entry.severity.value:<7}  {entry.title}"
    yield ""
    yield "Errors without a code go by a word, their `reason`"
    yield from _wrapped(", ".join(REASONS))
    yield ""
    yield "More about one of them: sideband explain CODE"


def _reason(reason: "Reason") -> Iterator[str]:
    yield reason.word
    yield from ("", "Cause", *_wrapped(reason.cause), "", "Remedy", *_wrapped(reason.remedy))


def _wrapped(text: str) -> Iterator[str]:
    from textwrap import wrap  # noqa: PLC0415 - the same

    for line in wrap(text, width=86, break_long_words=False, break_on_hyphens=False):
        yield f"  {line}"


def _explained(entry: "Diagnostic") -> Iterator[str]:
    from textwrap import indent  # noqa: PLC0415 - the same

    yield f"{entry.code} ({entry.severity.value}): {entry.title}"
    for heading, text in (("Cause", entry.cause), ("Remedy", entry.remedy)):
        yield from ("", heading, *_wrapped(text))
    for heading, snippet in (("Instead of", entry.example.wrong), ("write", entry.example.right)):
        yield from ("", heading, indent(snippet, "  "))

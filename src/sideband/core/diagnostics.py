"""The diagnostics of the reminder lifecycle: one table for errors, `explain`, `lint` and the documentation."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from sideband.core.advisories import ADVICE, AT_RUN_TIME
from sideband.core.catalogue import FAMILY, Diagnostic

DIAGNOSTICS: Final[Mapping[str, Diagnostic]] = MappingProxyType(
    {entry.code: entry for entry in (*FAMILY, *ADVICE, *AT_RUN_TIME)}
)


class UnknownDiagnostic(LookupError):
    """No diagnostic has this code; `near` are the codes that were perhaps meant, and may be empty."""

    def __init__(self, code: str, near: tuple[str, ...]) -> None:
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(DIAGNOSTICS)}"
        super().__init__(f"there is no diagnostic {code!a}; {hint}")
        self.code = code
        self.near = near


def diagnostic(code: str) -> Diagnostic:
    """The entry for a code, in any case and also without the name of its family: `rmd-004`, `004` and `4` will do."""
    wanted = code.strip().upper()
    wanted = wanted.zfill(3) if wanted.isdecimal() else wanted
    for known, entry in DIAGNOSTICS.items():
        if known == wanted or known.endswith(f"-{wanted}"):
            return entry
    raise UnknownDiagnostic(code, _near(wanted))


def _near(wanted: str) -> tuple[str, ...]:
    titled = tuple(known for known, entry in DIAGNOSTICS.items() if wanted and wanted in entry.title.upper())
    return titled or tuple(get_close_matches(wanted, DIAGNOSTICS, n=3, cutoff=0.75))

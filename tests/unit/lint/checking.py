"""A file of the moment, and what the check says of it."""

import textwrap
from pathlib import PurePath

from sideband.lint.check import LintFinding, check_source


def check_text(text: str, name: str = "agent.py", *, model: str | None = None) -> tuple[LintFinding, ...]:
    """What is wrong with a file of this name that holds `text`, without its indentation."""
    return check_source(textwrap.dedent(text).encode(), PurePath(name), model=model)


def codes(text: str, name: str = "agent.py", *, model: str | None = None) -> list[str]:
    """The short codes of what is wrong, sorted: `004`, and our own with an `S` in front."""
    return sorted(_short(finding.code) for finding in check_text(text, name, model=model))


def places(text: str, name: str = "agent.py", *, model: str | None = None) -> list[tuple[str, int, int, str]]:
    """Code, line, column and key of everything that is wrong."""
    found = check_text(text, name, model=model)
    return [(_short(finding.code), finding.line, finding.column, finding.key) for finding in found]


def _short(code: str) -> str:
    return code.replace("HARN-RMD-", "").replace("SIDEBAND-", "S")

"""Secrets in what is shown, kept or passed on to observers; what a model is told is never masked."""

import re
from collections.abc import Mapping
from typing import Any, Final

MASK: Final = "[masked]"
MAX_DEPTH: Final = 16

# Keys of well-known makers, tokens, private keys, and whatever is plainly called a secret.
_SECRET: Final = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[^-]*(?:-----END\ [A-Z ]*PRIVATE\ KEY-----)?
    | \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{20,}
    | \bgithub_pat_\w{20,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
    | \bAIza[0-9A-Za-z_-]{30,}
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+
    | (?<=[Bb]earer\ )[A-Za-z0-9._~+/=-]{12,}
    """,
    re.VERBOSE,
)
_NAMED: Final = re.compile(
    r"((?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?)([^\s\"',;&]{4,})",
    re.IGNORECASE,
)
_SECRET_NAME: Final = re.compile(r"password|passwd|secret|token|api_?key|access_?key|authorization", re.IGNORECASE)


def mask_text(text: str) -> str:
    """The text with every secret in it masked."""
    return _NAMED.sub(lambda found: found[1] + MASK, _SECRET.sub(MASK, text))


def mask(value: Any, *, depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401 - whatever a payload holds
    """A copy in which every text is masked, and every text that stands under the name of a secret altogether."""
    match value:
        case str():
            return mask_text(value)
        case _ if depth == 0:
            return MASK if isinstance(value, Mapping | list | tuple) else value
        case Mapping():
            return {key: _masked_entry(key, entry, depth - 1) for key, entry in value.items()}
        case list() | tuple():
            return [mask(entry, depth=depth - 1) for entry in value]
        case _:
            return value


def _masked_entry(key: object, entry: object, depth: int) -> object:
    if isinstance(key, str) and isinstance(entry, str) and entry and _SECRET_NAME.search(key):
        return MASK
    return mask(entry, depth=depth)

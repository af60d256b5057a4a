"""Masking of secrets in logs, exports and the topic. Text that a model reads is never masked."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

MASK: Final = "[masked]"
MAX_DEPTH: Final = 16

# API keys and tokens of well-known services, and private keys. Where a key shares its prefix with ordinary names
# (npm_config_cache), the pattern also requires a minimum length and a mix of capitals, small letters or digits near the
# start. Look-aheads are bounded and the long repeats are possessive, so that matching takes linear time even on a text
# that repeats the start of a key.
_KEYS: Final = r"""(?x)
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[^-]*(?:-----END\ [A-Z ]*PRIVATE\ KEY-----)?
    | (?<=[Bb]earer\ )[A-Za-z0-9._~+/=-]{12,}
    | \b(?:
        (?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}
        | gh[pousr]_[A-Za-z0-9]{20,}
        | github_pat_\w{20,}
        | gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-(?=[a-z_-]{0,19}[A-Z0-9])[\w-]{20,}
        | xox[abeoprs]-[A-Za-z0-9-]{10,}
        | (?:AKIA|ASIA)[0-9A-Z]{16}\b
        | AIza[0-9A-Za-z_-]{30,}
        | (?:(?<![\w-])eyJ[\w-]{8,}+|eyJ[\w-]{8,500}+)\.[\w-]{8,}+\.[\w-]+
        | dckr_[op]at_(?=[a-z_-]{0,19}[A-Z0-9])[\w-]{20,}
        | pypi-[\w-]{50,}
        | (?:hf_|npm_|gsk_|xai-|pplx-|r8_|lin_api_)(?=[a-z]{0,29}[A-Z0-9])(?=[A-Z0-9]{0,29}[a-z])[A-Za-z0-9]{30,}
        | (?:dop_v1_|shp(?:at|ca|pa|ss)_|dapi)[0-9a-f]{32,}
        | SG\.[\w-]{16,}+\.[\w-]{16,}
    )
"""
_NAMED: Final = (
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?)([^\s\"',;&]{4,})"
)
# The password of a URL: between the colon after the user name and the @ before the host. Stops at the path, the query
# and the fragment, which hold no password.
_IN_ADDRESS: Final = r"(://[^\s/?#:@\"'`<>]*:)[^\s/?#\"'`<>]+(?=@)"
_NAMES: Final = r"(?i)password|passwd|secret|token|api_?key|access_?key|authorization"


# Compiled on first use, because compiling them would delay every import of the library.
@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def mask_text(text: str) -> str:
    """The text with every secret replaced by `MASK`."""
    without_keys = _compiled(_KEYS).sub(MASK, _compiled(_IN_ADDRESS).sub(_keep_name, text))
    return _compiled(_NAMED).sub(_keep_name, without_keys)


def _keep_name(found: re.Match[str]) -> str:
    return found[1] + MASK


def mask(value: Any, *, depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401 - any JSON value
    """A copy with secrets masked in every string; a string under a key like `password` is masked as a whole.

    Below `depth` levels, objects and arrays are masked as a whole.
    """
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
    if isinstance(key, str) and isinstance(entry, str) and entry and _compiled(_NAMES).search(key):
        return MASK
    return mask(entry, depth=depth)

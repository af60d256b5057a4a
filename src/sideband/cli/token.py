"""The token that a command sends to a server."""

import os
from typing import Final
from urllib.parse import urlsplit

from sideband.protocols.http import is_loopback
from sideband.runtime.home import read_operator_token

TOKEN_VARIABLE: Final = "SIDEBAND_TOKEN"  # noqa: S105 - the name of a variable


def token_for(url: str) -> str | None:
    """The token of the environment; for a server on this machine the operator's own, which no other machine may get."""
    if has_given_token():
        return os.environ[TOKEN_VARIABLE].strip()
    return read_operator_token() if is_loopback(urlsplit(url).hostname or "") else None


def has_given_token() -> bool:
    """Whether the environment has a token."""
    return bool(os.environ.get(TOKEN_VARIABLE, "").strip())

"""The user's own directory: the store that the command line uses by default, and the operator's token for servers."""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from sideband.core.errors import StoreRefused

USER_STORE: Final = "user:"
"""The address of the user's store."""

VARIABLE: Final = "SIDEBAND_STORE"
"""The environment variable with the URL of the store to use instead of the default file."""

_OWNER_ONLY: Final = 0o700
_PRIVATE: Final = 0o600
_OTHERS: Final = 0o077
# A token is sent in a header, so it consists of visible ASCII characters.
_FIRST_VISIBLE: Final = ord("!")
_LAST_VISIBLE: Final = ord("~")


def user_store_url() -> str:
    """The URL that `user:` stands for: the value of `$SIDEBAND_STORE`, or a file in the data directory of the user."""
    named = os.environ.get(VARIABLE, "").strip()
    return named if named not in ("", USER_STORE) else f"sqlite:///{user_file()}"


def user_file() -> Path:
    """The file of the user's store if the environment names no other store."""
    return _data_directory() / "sideband" / "sideband.db"


def make_user_directory(path: str) -> None:
    """Make the directory of the user's store, readable by the user only; other paths must have theirs."""
    with suppress(StoreRefused):
        # A user without a home directory has no such file.
        if Path(path) == user_file():
            Path(path).parent.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)


def token_file() -> Path:
    """The file with the token by which servers on this machine recognise their operator."""
    return _data_directory() / "sideband" / "token"


def operator_token() -> str:
    """The operator's token; it is made, in a file that only the user can read, if there is none."""
    file = token_file()
    token = read_operator_token()
    if token is not None:
        return token
    file.parent.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
    draft = file.with_name(f".token.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as writer:
            writer.write(secrets.token_urlsafe(32))
        # Of several processes that start at the same time, the first one decides.
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
    token = read_operator_token()
    if token is None:
        raise StoreRefused(f"{file} holds no token, or cannot be read; delete it, so that a new one is made")
    return token


def read_operator_token() -> str | None:
    """The operator's token; None if none was made yet, or if this user cannot read it.

    `StoreRefused` if other users can read it, or if the file holds something else.
    """
    try:
        file = token_file()
        mode = file.stat().st_mode
        token = file.read_bytes().strip()
    except (OSError, StoreRefused):
        return None
    if os.name == "posix" and mode & _OTHERS:
        raise StoreRefused(f"other users can read the token in {file}; delete the file, so that a new one is made")
    if not all(_FIRST_VISIBLE <= byte <= _LAST_VISIBLE for byte in token):
        raise StoreRefused(f"{file} holds no token; delete it, so that a new one is made")
    return token.decode("ascii") or None


def _data_directory() -> Path:
    if sys.platform == "win32":
        return _given("LOCALAPPDATA") or _home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support"
    return _given("XDG_DATA_HOME") or _home() / ".local" / "share"


def _given(variable: str) -> Path | None:
    """The directory that the variable names; a relative one is ignored, as the XDG specification demands."""
    path = Path(os.environ.get(variable, ""))
    return path if path.is_absolute() else None


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise StoreRefused(f"this user has no home directory; name a store in ${VARIABLE}") from None

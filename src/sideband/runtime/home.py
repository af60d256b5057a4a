"""The user's store: the one that the command line uses by default, and that `open_store("user:")` opens."""

import os
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

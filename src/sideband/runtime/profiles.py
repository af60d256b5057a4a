"""The profile table of the package, and the user's rows that override it."""

import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from sideband.render.profiles import ProfileError, ProfileRow, Profiles, parse_profiles

# The origin of the rows that come with the package, as explanations show it.
BUILTIN: Final = "built-in"
VARIABLE: Final = "SIDEBAND_PROFILES"
# The model of `local:` without a name.
BUNDLED: Final = "smollm2"
_LOCAL: Final = "local:"


def full_name(model: str) -> str:
    """The model string with which profile rows are looked up; `local:` gets the name of its default model."""
    return f"{_LOCAL}{BUNDLED}" if model == _LOCAL else model


def load_profiles(file: str | os.PathLike[str] | None = None) -> Profiles:
    """The built-in rows, overridden by those of `file` (None: the file that `$SIDEBAND_PROFILES` names, if it is set).

    `ProfileError` if the file cannot be read or is invalid.
    """
    chosen = os.environ.get(VARIABLE) if file is None else os.fspath(file)
    return Profiles(builtin=_builtin(), overrides=_overrides(chosen) if chosen else ())


@cache
def _builtin() -> tuple[ProfileRow, ...]:
    text = files("sideband.render").joinpath("profiles.toml").read_text(encoding="utf-8")
    return parse_profiles(text, origin=BUILTIN)


def _overrides(name: str) -> tuple[ProfileRow, ...]:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{name} cannot be read: {error.strerror}") from None
    except RuntimeError:
        raise ProfileError(f"{name} cannot be read: the home directory is unknown") from None
    except UnicodeDecodeError:
        raise ProfileError(f"{name} cannot be read: it is not UTF-8") from None
    return parse_profiles(text, origin=name)

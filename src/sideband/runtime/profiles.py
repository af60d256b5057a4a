"""The profile table that comes with the package, and the user's own rows over it."""

import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from sideband.render.profiles import ProfileError, Profiles, Row, parse_profiles

# What explanations call the rows that come with the package.
BUILTIN: Final = "built-in"
VARIABLE: Final = "SIDEBAND_PROFILES"
# The model that `local:` alone stands for.
BUNDLED: Final = "smollm2"
_LOCAL: Final = "local:"


def full_name(model: str) -> str:
    """The string of a model as rows are looked up for it: with its name, where that may be left out."""
    return f"{_LOCAL}{BUNDLED}" if model == _LOCAL else model


def load_profiles(file: str | os.PathLike[str] | None = None) -> Profiles:
    """What models honour: the built-in rows, and over them those of `file`.

    Without a file, of the one that `$SIDEBAND_PROFILES` names; without either there are none. A file that cannot be
    read or holds a mistake raises `ProfileError`.
    """
    chosen = os.environ.get(VARIABLE) if file is None else os.fspath(file)
    return Profiles(builtin=_builtin(), overrides=_own(chosen) if chosen else ())


@cache
def _builtin() -> tuple[Row, ...]:
    text = files("sideband.render").joinpath("profiles.toml").read_text(encoding="utf-8")
    return parse_profiles(text, origin=BUILTIN)


def _own(name: str) -> tuple[Row, ...]:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{name} cannot be read: {error.strerror}") from None
    except RuntimeError:
        raise ProfileError(f"{name} cannot be read: there is no such home folder") from None
    except UnicodeDecodeError:
        raise ProfileError(f"{name} cannot be read: it is not UTF-8") from None
    return parse_profiles(text, origin=name)

"""The parser of the command line, which loads each command when it is called, and how commands report errors."""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cyclopts import App

from sideband import __version__
from sideband.cli import overview
from sideband.cli.commands import COMMANDS
from sideband.core.errors import (
    BodyTooLarge,
    CursorExpired,
    InvalidOption,
    InvalidReminder,
    ReminderError,
    StoreError,
    UnknownOption,
    UnknownPropagate,
    UnsupportedMode,
)
from sideband.inspect.report import CommandError, printable

app: Final = App(name="sideband", version=__version__, help=overview().splitlines()[2])
for _name, _command in COMMANDS.items():
    # A parser that is imported has an epilogue of its own.
    _options = {} if _command.has_subcommands else {"help_epilogue": _command.epilogue}
    app.command(_command.target, name=_name, **_options)

OK: Final = 0
REFUSED: Final = 1
FAILED: Final = 2
REFUSALS: Final = (ReminderError, StoreError, CommandError, OSError)
"""Errors that a command reports on one line; all others are bugs and show a traceback."""

# The session does not accept these whatever its state: the command was written wrongly.
_MISTAKES: Final = (InvalidOption, UnknownOption, InvalidReminder, UnknownPropagate, UnsupportedMode, BodyTooLarge)
# Fields of a reminder whose options have another name.
_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "body": "BODY",
        "content": "BODY",
        "tags": "--tag",
        "dedupe_key": "--key",
        "ttl_turns": "--ttl",
        "preserve_on_compact": "--preserve",
        "propagate": "--propagate",
        "role_hint": "--hint",
        "mode": "--mode",
        "id": "--id",
    }
)


def refuse(error: Exception | str, *, option: str | None = None) -> int:
    """Print the error on a line of standard error, with its code or the possible targets below it; return the status.

    `option` is what the error is about, as it is written on the command line (None: no single one).
    """
    if isinstance(error, BrokenPipeError):
        # Standard output is closed; `main` handles it.
        raise error
    code: str | None = getattr(error, "code", None)
    text = str(error).removeprefix(f"{code}: ")
    if isinstance(error, CursorExpired):
        text = f"some events up to {error.oldest} have been pruned; continue with --after {error.oldest}"
    _complain(f"error: {printable(text if option is None else f'{option}: {text}')}")
    if code is not None:
        _complain(f"code: {code}; for the cause and the remedy: sideband explain {code}")
    for candidate in error.candidates if isinstance(error, CommandError) else ():
        _complain(f"  {candidate}")
    return FAILED


def refuse_request(error: Exception) -> int:
    """Print the error of a request to a session, with the option that it is about; return the exit status.

    The status is `REFUSED` if the session refuses a request that is correct in itself.
    """
    field = getattr(error, "field", None) or ""
    refuse(error, option=_OPTIONS.get(field.partition("[")[0]))
    return REFUSED if isinstance(error, ReminderError) and not isinstance(error, _MISTAKES) else FAILED


def refuse_address(command: str) -> int:
    """Print how a store is named; for the address of a store in a place where there can be none."""
    return refuse(f"a store is named with --store: sideband {command} --store STORE_URL")


def _complain(line: str) -> None:
    print(line, file=sys.stderr)

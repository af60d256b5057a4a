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
_MISTAKES: Final = (InvalidOption, UnknownOption, UnknownPropagate, UnsupportedMode, BodyTooLarge)
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


def refuse(error: Exception | str) -> int:
    """Print the error on one line of standard error, and possible targets below it; return the exit status."""
    match error:
        case BrokenPipeError():
            # Standard output is closed; `main` handles it.
            raise error
        case CursorExpired(oldest=oldest):
            text = f"some events up to {oldest} have been pruned; continue with --after {oldest}"
        case ReminderError(code=str(code)):
            # Diagnostic codes are about reminders, not about commands.
            text = str(error).removeprefix(f"{code}: ")
        case _:
            text = str(error)
    _complain(f"error: {printable(text)}")
    for candidate in error.candidates if isinstance(error, CommandError) else ():
        _complain(f"  {candidate}")
    return FAILED


def refuse_request(error: Exception) -> int:
    """Print the error of a request to a session, with its code and how to have it explained; return the exit status.

    The status is `REFUSED` if the session refuses a request that is correct in itself.
    """
    if not isinstance(error, ReminderError | StoreError):
        return refuse(error)
    field = getattr(error, "field", None)
    option = _OPTIONS.get((field or "").partition("[")[0])
    refuse_coded(str(error), error.code, option=option)
    return REFUSED if isinstance(error, ReminderError) and not isinstance(error, _MISTAKES) else FAILED


def refuse_coded(message: str, code: str, *, option: str | None = None) -> int:
    """Print an error with its code, after the option that it is about (None: about no single one)."""
    text = message.removeprefix(f"{code}: ")
    _complain(f"error: {printable(text if option is None else f'{option}: {text}')}")
    _complain(f"code: {code}; for the cause and the remedy: sideband explain {code}")
    return FAILED


def refuse_address(command: str) -> int:
    """Print how a store is named; for the address of a store in a place where there can be none."""
    return refuse(f"a store is named with --store: sideband {command} --store STORE_URL")


def _complain(line: str) -> None:
    print(line, file=sys.stderr)

"""The parser of the command line, which loads each command when it is called, and how commands report errors."""

import sys
from typing import Final

from cyclopts import App

from sideband import __version__
from sideband.cli import overview
from sideband.cli.commands import COMMANDS
from sideband.core.errors import CursorExpired, ReminderError, StoreError
from sideband.inspect.report import printable

app: Final = App(name="sideband", version=__version__, help=overview().splitlines()[2])
for _name, (_target, _about) in COMMANDS.items():
    app.command(_target, name=_name)

FAILED: Final = 2
REFUSALS: Final = (ReminderError, StoreError, OSError)
"""Errors that a command reports on one line; all others are bugs and show a traceback."""


def refuse(error: Exception | str) -> int:
    """Print the error on one line of standard error; return the exit status."""
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
    print(f"error: {printable(text)}", file=sys.stderr)
    return FAILED

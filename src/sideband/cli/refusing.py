"""How a command says that a store cannot be read."""

import sys
from typing import Final

from sideband.core.errors import ReminderError
from sideband.core.failures import CursorExpired, StoreError
from sideband.lint.report import printable

FAILED: Final = 2
REFUSALS: Final = (ReminderError, StoreError, OSError)
"""What is somebody else's doing: the caller's, the store's, the disk's."""


def refuse(error: Exception | str) -> int:
    """Tell it on one line; the status to exit with."""
    match error:
        case BrokenPipeError():
            # Nobody is left to be told.
            raise error
        case CursorExpired(oldest=oldest):
            text = f"events up to {oldest} are no longer all kept; go on with --after {oldest}"
        case ReminderError(code=str(code)):
            # Codes are for reminders; this is about a command.
            text = str(error).removeprefix(f"{code}: ")
        case _:
            text = str(error)
    print(f"error: {printable(text)}", file=sys.stderr)
    return FAILED

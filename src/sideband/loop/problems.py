"""What failed without stopping the run, and how it is told."""

from typing import Final, NamedTuple

MAX_CHARACTERS: Final = 10_000


class Problem(NamedTuple):
    """Something of the user's own that failed without stopping the run."""

    where: str
    message: str


def describe(error: BaseException) -> str:
    """An exception in words, whatever its own are worth."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot even be printed
        words = "(its message cannot be read)"
    return f"{type(error).__name__}: {words}"[:MAX_CHARACTERS]

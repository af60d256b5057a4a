"""What failed without stopping the run, and how it is told."""

from typing import Final, NamedTuple

MAX_CHARACTERS: Final = 10_000
# So many different ones are kept; of more it is only said how many there were.
MAX_PROBLEMS: Final = 100


class Problem(NamedTuple):
    """Something of the user's own that failed without stopping the run; `times` is how often, in the same words."""

    where: str
    message: str
    times: int = 1


class Problems:
    """The problems of one run. What fails in every turn is one problem, however long the run is."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], int] = {}
        self._not_kept = 0

    def report(self, problem: Problem) -> None:
        where, message, times = problem
        known = self._counted.get((where, message), 0)
        if known or len(self._counted) < MAX_PROBLEMS:
            self._counted[where, message] = known + times
        else:
            self._not_kept += times

    def told(self) -> tuple[Problem, ...]:
        """All of them, each where it first came up."""
        kept = tuple(Problem(where, message, times) for (where, message), times in self._counted.items())
        if not self._not_kept:
            return kept
        return (*kept, Problem("problems", f"only the first {MAX_PROBLEMS} different ones are kept", self._not_kept))


class Forsaken(Exception):
    """Somebody else's code raised what would have ended the run or the program, and that was not its to decide.

    A cancellation that nobody asked for is one case, an exit of the program another. The cause is what it raised.
    """


def describe(error: BaseException) -> str:
    """An exception in words, whatever its own are worth."""
    if isinstance(error, Forsaken) and error.__cause__ is not None:
        error = error.__cause__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot even be printed
        words = "(its message cannot be read)"
    return f"{type(error).__name__}: {words}"[:MAX_CHARACTERS]

"""How much work a run puts into its figures, and the line that shows how far it has come."""

from typing import Final, TextIO

import msgspec

CLEAR_LINE: Final = "\x1b[K"


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured.

    `sizes` are the numbers of pending reminders, ascending. Where calls are timed one by one, every variant has its
    turn in each of `rounds`, for at most `calls` or `seconds`. Where they are timed in loops, it has `loops` of them,
    each `loop_seconds` long: short ones, many of which find the machine to themselves. Each command is started as
    often as `processes` says. An agent loop runs `runs` times; `turns` are a few, many and most of its turns, which are
    looked at.
    """

    sizes: tuple[int, ...]
    rounds: int
    calls: int
    seconds: float
    loops: int
    loop_seconds: float
    processes: int
    runs: int
    turns: tuple[int, int, int]


FULL: Final = Effort(
    sizes=(10, 1_000, 100_000),
    rounds=5,
    calls=1_000,
    seconds=0.05,
    loops=200,
    loop_seconds=0.001,
    processes=21,
    runs=9,
    turns=(10, 200, 1_000),
)
# Small enough for a test; what it prints is complete, and its figures mean nothing.
QUICK: Final = Effort(
    sizes=(10, 20, 50),
    rounds=1,
    calls=3,
    seconds=0.001,
    loops=1,
    loop_seconds=0.00001,
    processes=1,
    runs=1,
    turns=(2, 3, 4),
)


class Progress:
    """One line that is overwritten on a terminal; elsewhere a new one for every tenth of a part."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rewrites = stream.isatty()
        self._last = ""

    def step(self, part: str, done: int, total: int) -> None:
        percent = done * 100 // total
        line = f"{part}: {percent if self._rewrites else percent // 10 * 10} %"
        if line != self._last:
            self._last = line
            self._stream.write(f"\r{CLEAR_LINE}{line}" if self._rewrites else f"{line}\n")
            self._stream.flush()

    def finish(self) -> None:
        """Clear the line."""
        if self._rewrites:
            self._stream.write(f"\r{CLEAR_LINE}")
            self._stream.flush()

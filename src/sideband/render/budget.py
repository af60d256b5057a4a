"""How much of a request its reminders may take, and which of them go first when there is not enough for all."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sideband.core.live import LiveItem

MOST_TOKENS: Final = 2_000
WINDOW_SHARE: Final = 50
"""The budget is at most one part in so many of the window."""
LARGEST_SHARE: Final = 10
"""One reminder is at most one part in so many of it."""
PATIENCE: Final = 3
"""Left out so many times in a row, a reminder goes first."""

_BYTES_PER_TOKEN: Final = 4


class Allowance(NamedTuple):
    """What a window of that size leaves to reminders, in tokens; `largest` None: no single one is too large."""

    tokens: int
    largest: int | None


class Asking(NamedTuple):
    """A reminder that would add text to the request, and how many tokens of it."""

    item: LiveItem
    tokens: int


def allowance(context_window: int | None) -> Allowance:
    """The smaller of a fixed amount and a share of the window; where that is unknown, the fixed amount."""
    if context_window is None:
        return Allowance(MOST_TOKENS, None)
    return Allowance(min(MOST_TOKENS, context_window // WINDOW_SHARE), context_window // LARGEST_SHARE)


def estimate(text: str) -> int:
    """About how many tokens a text has, never fewer than one for every four bytes."""
    size = len(text) if text.isascii() else len(text.encode())
    return -(-size // _BYTES_PER_TOKEN)


def admitted(asking: Sequence[Asking], tokens: int) -> frozenset[str]:
    """The ids of those that fit, asked in transcript order.

    Who has waited long enough goes first, then the more trusted, then the older. The first fits whatever its size, so
    that one larger than the whole budget is shown in the end: alone.
    """
    taken: list[str] = []
    spent = 0
    for item, size in sorted(asking, key=_turn_of):
        if not taken or spent + size <= tokens:
            taken.append(item.id)
            spent += size
    return frozenset(taken)


def _turn_of(asking: Asking) -> tuple[bool, int, int]:
    return (asking.item.left_out < PATIENCE, asking.item.provenance.trust, asking.item.place)

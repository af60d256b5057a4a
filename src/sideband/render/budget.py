"""The token budget for the reminders of a request, and which of them come first when not all fit."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sideband.core.live import LiveItem

MOST_TOKENS: Final = 2_000
WINDOW_SHARE: Final = 50
"""The budget is at most this fraction (one in n) of the context window."""
LARGEST_SHARE: Final = 10
"""One reminder may take at most this fraction (one in n) of the context window."""
PATIENCE: Final = 3
"""A reminder that was left out this many times in a row comes first."""


class Allowance(NamedTuple):
    """The budget in tokens for all reminders, and for the `largest` single one (None: unlimited)."""

    tokens: int
    largest: int | None


class Candidate(NamedTuple):
    """A reminder that would add text to the request, and the size of that text in tokens."""

    item: LiveItem
    tokens: int


def allowance(context_window: int | None) -> Allowance:
    """The smaller of a fixed amount and a fraction of the window, if the window is known."""
    if context_window is None:
        return Allowance(MOST_TOKENS, None)
    return Allowance(min(MOST_TOKENS, context_window // WINDOW_SHARE), context_window // LARGEST_SHARE)


def admitted(candidates: Sequence[Candidate], tokens: int) -> frozenset[str]:
    """The ids of the reminders that fit into the budget.

    Reminders that were left out too often come first, then the more trusted, then the older. The first one is always
    admitted, so that a reminder larger than the whole budget is eventually shown alone.
    """
    taken: list[str] = []
    spent = 0
    for item, size in sorted(candidates, key=_priority):
        if not taken or spent + size <= tokens:
            taken.append(item.id)
            spent += size
    return frozenset(taken)


def _priority(candidate: Candidate) -> tuple[bool, int, int]:
    item = candidate.item
    return (item.left_out < PATIENCE, item.provenance.trust, item.place)

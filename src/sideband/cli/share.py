"""How much of a request a prompt cache would give back, and what it costs: an estimate, from its bytes."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from sideband.render.layout import Kind, Part
from sideband.render.profile import Cache, Profile

READ: Final = 0.1
WRITE: Final = 1.25
_BYTES_PER_TOKEN: Final = 4
_PASSING: Final = (Kind.VOLATILE, Kind.CLEARING, Kind.CLOSING)


class Break(StrEnum):
    """What keeps the conversation so far out of the cache, as people are told."""

    ROUTE = "the requests before it were made for another model, placement, tools or system text"
    """Then nothing of it was ever sent like this."""
    COMPACTION = "the conversation was compacted since the last request"
    """Then only the head was."""


class Share(NamedTuple):
    """Tokens read from the cache, written to it, and neither; `why_none` says why nothing is read (None: something is)."""

    read: float
    written: float
    plain: float
    why_none: str | None = None

    @property
    def tokens(self) -> float:
        return self.read + self.written + self.plain

    @property
    def cost(self) -> float:
        """In plain tokens of input."""
        return READ * self.read + WRITE * self.written + self.plain


def share(
    profile: Profile, parts: Iterable[Part], *, unchanged: int | None = None, broken: Break | None = None
) -> Share:
    """What the cache does with a request whose last answered one is still in it.

    `unchanged` is how many bytes at its beginning are as they were (None: as many as have been answered); a `broken`
    one is the first of its window.
    """
    sizes: Counter[Kind] = Counter()
    head = 0
    for part in parts:
        sizes[part.kind] += part.end - part.start
        head = part.end if part.kind is Kind.HEAD else head
    total = (sizes.total() - sizes[Kind.MARKER]) / _BYTES_PER_TOKEN
    covered = total - sum(sizes[kind] for kind in _PASSING) / _BYTES_PER_TOKEN
    before = (sizes[Kind.HEAD] + sizes[Kind.STABLE]) / _BYTES_PER_TOKEN if sizes[Kind.STABLE] else 0.0
    if before and unchanged is not None:
        # Where breakpoints are ours, the first is at the end of the head: what is cached ends there, or not at all.
        whole = sizes[Kind.HEAD] if unchanged >= head else 0
        before = (whole if profile.cache is Cache.EXPLICIT else unchanged) / _BYTES_PER_TOKEN
    if broken is not None:
        before = sizes[Kind.HEAD] / _BYTES_PER_TOKEN if broken is Break.COMPACTION else 0.0
    least = profile.cache_minimum_tokens
    if profile.cache is Cache.NONE and not profile.kv_prefix:
        return Share(0.0, 0.0, total, "this route has no prompt cache")
    read = before if before >= least else 0.0
    writes = profile.cache is Cache.EXPLICIT and covered >= least
    written = covered - read if writes else 0.0
    return Share(read, written, total - read - written, None if read else _why(sizes, before, least, broken))


def _why(sizes: Counter[Kind], before: float, least: int, broken: Break | None) -> str:
    if broken is not None and not before:
        return broken.value
    if not (sizes[Kind.STABLE] or broken):
        return "no request was answered before this one"
    if before:
        return f"what is old is shorter than the {least:,} tokens from which on this model caches"
    return "it changes before the first place that is cached"

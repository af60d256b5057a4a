"""How much of anything is accepted; all of it configurable, each overflow an explicit error."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.bounds import Bound
from sideband.core.errors import InvalidOption, RateLimited, shown
from sideband.core.trust import Trust

KIB: Final = 1024
EXACT: Final = 1e-9
# Nobody spends more; beyond it a float no longer notices that one is gone.
_LARGEST_BURST: Final = 2**53

_PER_SECOND: Final = Bound(0, whole=False, above=True)
_BURST: Final = Bound(1)
# What each number has to be: one that could be met by nothing at all is a mistake.
_NUMBERS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "tags": Bound(0),
        "tag_bytes": Bound(1),
        "dedupe_key_bytes": Bound(1),
        "meta_bytes": Bound(0),
        "meta_depth": Bound(0),
        "pending_per_session": Bound(1),
        "reserved_for_interrupts": Bound(0),
        "hops": Bound(0),
        "frame_bytes": Bound(1),
        "subscriber_events": Bound(1),
    }
)
# None: an entry is a rate.
_BY_LEVEL: Final[Mapping[str, Bound | None]] = MappingProxyType(
    {"body_bytes": Bound(1), "pending_per_source": Bound(0), "accept_rate": None}
)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A sustained rate with a burst that may be spent at once."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        _PER_SECOND.check("per_second", self.per_second)
        _BURST.check("burst", self.burst)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one session accepts; a source without an entry in a mapping is bounded by the session alone.

    How many may be pending holds for user messages, for reminders, and for what is only recorded, each for itself;
    interrupts have `reserved_for_interrupts` on top. `subscriber_events` is how far a subscriber of the store may fall
    behind before it is cut off.
    """

    body_bytes: Mapping[Trust, int] = MappingProxyType(
        {Trust.OPERATOR: 8 * KIB, Trust.CONTROLLER: 8 * KIB, Trust.PEER: KIB, Trust.SERVER: KIB}
    )
    tags: int = 16
    tag_bytes: int = 64
    dedupe_key_bytes: int = 256
    meta_bytes: int = 4 * KIB
    meta_depth: int = 8
    pending_per_session: int = 256
    pending_per_source: Mapping[Trust, int] = MappingProxyType({Trust.CONTROLLER: 64, Trust.PEER: 8, Trust.SERVER: 4})
    reserved_for_interrupts: int = 16
    accept_rate: Mapping[Trust, Rate] = MappingProxyType(
        {
            Trust.CONTROLLER: Rate(per_second=20, burst=50),
            Trust.PEER: Rate(per_second=0.1, burst=4),
            Trust.SERVER: Rate(per_second=0.1, burst=4),
        }
    )
    hops: int = 8
    frame_bytes: int = 1024 * KIB
    subscriber_events: int = 1_000

    def __post_init__(self) -> None:
        for name, bound in _NUMBERS.items():
            bound.check(name, getattr(self, name))
        for name, entry in _BY_LEVEL.items():
            _check_levels(name, getattr(self, name), entry)


def _check_levels(name: str, entries: object, bound: Bound | None) -> None:
    """A key that is no level mostly bounds nothing, and nobody would notice."""
    if not isinstance(entries, Mapping):
        wanted = "a Rate" if bound is None else bound
        raise InvalidOption(
            f"{name} must give levels of Trust each {wanted}, not be {shown(entries)}", field=name, value=entries
        )
    for level, entry in entries.items():
        if not isinstance(level, Trust):
            raise InvalidOption(
                f"a key of {name} must be a level, like Trust.PEER, not {shown(level)}", field=name, value=level
            )
        place = f"{name}[Trust.{level.name}]"
        if bound is not None:
            bound.check(place, entry, field=name)
        elif not isinstance(entry, Rate):
            raise InvalidOption(f"{place} must be a Rate, not {shown(entry)}", field=name, value=entry)


DEFAULT_LIMITS: Final = Limits()


class Bucket(NamedTuple):
    """What one source has left to spend, as of a moment; times are seconds of any one monotonic clock."""

    tokens: float
    at: float


def take(bucket: Bucket | None, rate: Rate, *, now: float) -> Bucket:
    """Spend one token; None is a source never seen, which starts with a full burst."""
    burst = float(min(rate.burst, _LARGEST_BURST))
    bucket = bucket or Bucket(burst, now)
    tokens = min(burst, bucket.tokens + max(0.0, now - bucket.at) * rate.per_second)
    # A source that waited as long as it was told is served, though sums of times are not exact.
    if tokens < 1 - EXACT:
        raise RateLimited(retry_after_ms=int((1 - tokens) / rate.per_second * 1000) + 1)
    return Bucket(max(0.0, tokens - 1), max(now, bucket.at))

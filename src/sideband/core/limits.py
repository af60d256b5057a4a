"""Limits: how much a session accepts, and how fast. All are configurable; exceeding one is always an error."""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.errors import InvalidOption, RateLimited, shown
from sideband.core.trust import Provenance, Trust

KIB: Final = 1024


# Numbers in options.


class Bound(NamedTuple):
    """The range of a numeric option: at least `least`, or above it if `above`; an integer if `whole`."""

    least: int
    whole: bool = True
    above: bool = False
    optional: bool = False

    def check(self, name: str, value: object, *, field: str | None = None) -> None:
        """Raise `InvalidOption` if the value is out of range; `field` is the option if `name` is a part of it."""
        if not self.admits(value):
            raise InvalidOption(f"{name} must be {self}, not {shown(value)}", field=field or name, value=value)

    def admits(self, value: object) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        # Refuses NaN, infinity, and integers that are too large to calculate with as floats.
        if not self.whole and not abs(value) <= sys.float_info.max:
            return False
        return value > self.least if self.above else value >= self.least

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        bound = f"above {self.least}" if self.above else f"of at least {self.least}"
        return f"{kind} {bound}{' or None' if self.optional else ''}"


# Limits.

_PER_SECOND: Final = Bound(0, whole=False, above=True)
_BURST: Final = Bound(1)

_BOUNDS: Final[Mapping[str, Bound]] = MappingProxyType(
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
        "content_bytes": Bound(1),
        "subscriber_events": Bound(1),
        "facts": Bound(1),
    }
)

# The limits that have a value per trust level; None means that the value is a `Rate`.
_BOUNDS_BY_LEVEL: Final[Mapping[str, Bound | None]] = MappingProxyType(
    {"body_bytes": Bound(1), "pending_per_source": Bound(0), "accept_rate": None}
)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A sustained rate, and the number of requests that may come at once."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        _PER_SECOND.check("per_second", self.per_second)
        _BURST.check("burst", self.burst)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one session accepts. A trust level without an entry in a mapping has no limit of that kind.

    The pending limits count user messages, reminders and audit records separately; interrupts have
    `reserved_for_interrupts` on top. `content_bytes` is the size of a user message with its images and documents.
    `subscriber_events` is the number of events that a subscriber of the store may fall behind before it is cut off.
    `facts` is the number of facts that a store keeps.
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
    content_bytes: int = 8 * 1024 * KIB
    subscriber_events: int = 1_000
    facts: int = 10_000

    def __post_init__(self) -> None:
        for name, bound in _BOUNDS.items():
            bound.check(name, getattr(self, name))
        for name, entry in _BOUNDS_BY_LEVEL.items():
            _check_by_level(name, getattr(self, name), entry)


def _check_by_level(name: str, entries: object, bound: Bound | None) -> None:
    """Check values and keys; a key that is not a trust level would silently limit nothing."""
    if not isinstance(entries, Mapping):
        wanted = "a Rate" if bound is None else bound
        raise InvalidOption(
            f"{name} must be a mapping from Trust to {wanted}, not {shown(entries)}", field=name, value=entries
        )
    for level, entry in entries.items():
        if not isinstance(level, Trust):
            raise InvalidOption(
                f"a key of {name} must be a trust level like Trust.PEER, not {shown(level)}", field=name, value=level
            )
        place = f"{name}[Trust.{level.name}]"
        if bound is not None:
            bound.check(place, entry, field=name)
        elif not isinstance(entry, Rate):
            raise InvalidOption(f"{place} must be a Rate, not {shown(entry)}", field=name, value=entry)


DEFAULT_LIMITS: Final = Limits()


# The token bucket of one sender.

# Above 2**53 a float cannot represent the subtraction of one token.
_LARGEST_BURST: Final = 2**53
_ROUNDING_ERROR: Final = 1e-9


class Bucket(NamedTuple):
    """The tokens that a sender has left at a time; times are seconds of a monotonic clock."""

    tokens: float
    at: float


def _full(rate: Rate, *, now: float) -> Bucket:
    return Bucket(float(min(rate.burst, _LARGEST_BURST)), now)


def take(bucket: Bucket | None, rate: Rate, *, now: float) -> Bucket:
    """Take one token, or raise `RateLimited`; None is a new sender, which starts with a full burst."""
    full = _full(rate, now=now)
    bucket = bucket or full
    tokens = min(full.tokens, bucket.tokens + max(0.0, now - bucket.at) * rate.per_second)
    # A sender that waited for `retry_after_ms` must be admitted in spite of rounding errors.
    if tokens < 1 - _ROUNDING_ERROR:
        raise RateLimited(retry_after_ms=int((1 - tokens) / rate.per_second * 1000) + 1)
    return Bucket(max(0.0, tokens - 1), max(now, bucket.at))


# The throttle.

# The number of senders that a throttle remembers; beyond it, the one that has been silent longest is forgotten.
MOST_SENDERS: Final = 1_024


class Throttle:
    """Limits the rate of every sender in every session; times are seconds of a monotonic clock."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, most_senders: int = MOST_SENDERS) -> None:
        self._rates = limits.accept_rate
        self._most_senders = most_senders
        # Ordered by last use: the sender that has been silent longest is first.
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def reserve(self, session_id: str, provenance: Provenance, *, now: float) -> RateLimited | None:
        """Take one of the sender's tokens; return the refusal if there is none left.

        A trust level without a rate is not limited.
        """
        rate = self._rates.get(provenance.trust)
        if rate is None:
            return None
        key = provenance.sender, session_id
        bucket = self._buckets.pop(key, None) or _full(rate, now=now)
        refusal = None
        try:
            bucket = take(bucket, rate, now=now)
        except RateLimited as error:
            refusal = error
        self._buckets[key] = bucket
        if len(self._buckets) > self._most_senders:
            del self._buckets[next(iter(self._buckets))]
        return refusal

    def give_back(self, session_id: str, provenance: Provenance) -> None:
        """Return a reserved token, because the request turned out to need none."""
        key = provenance.sender, session_id
        bucket = self._buckets.get(key)
        if bucket is not None:
            self._buckets[key] = bucket._replace(tokens=bucket.tokens + 1)

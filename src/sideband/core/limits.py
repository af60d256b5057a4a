"""How much of anything is accepted; all of it configurable, each overflow an explicit error."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.errors import RateLimited
from sideband.core.trust import Trust

KIB: Final = 1024
EXACT: Final = 1e-9


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A sustained rate with a burst that may be spent at once."""

    per_second: float
    burst: int


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


DEFAULT_LIMITS: Final = Limits()


class Bucket(NamedTuple):
    """What one source has left to spend, as of a moment; times are seconds of any one monotonic clock."""

    tokens: float
    at: float


def take(bucket: Bucket | None, rate: Rate, *, now: float) -> Bucket:
    """Spend one token; None is a source never seen, which starts with a full burst."""
    bucket = bucket or Bucket(rate.burst, now)
    tokens = min(float(rate.burst), bucket.tokens + max(0.0, now - bucket.at) * rate.per_second)
    # A source that waited as long as it was told is served, though sums of times are not exact.
    if tokens < 1 - EXACT:
        raise RateLimited(retry_after_ms=int((1 - tokens) / rate.per_second * 1000) + 1)
    return Bucket(max(0.0, tokens - 1), max(now, bucket.at))

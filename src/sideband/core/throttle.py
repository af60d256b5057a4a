"""How fast each source may send. What is beyond its rate is refused, and told in one event however much it was."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from sideband.core.errors import RateLimited
from sideband.core.events import Dropped, DropReason
from sideband.core.limits import DEFAULT_LIMITS, Bucket, Limits, take
from sideband.core.trust import Provenance

# So many sources are remembered. The one that has been silent for longest begins anew if it comes back.
MOST_SOURCES: Final = 1_024


class _Source(NamedTuple):
    """What a source has left, and how many it was refused since somebody was told."""

    provenance: Provenance
    bucket: Bucket
    refused: int = 0


class Throttle:
    """Counts for as long as somebody keeps it; times are seconds of one clock that only goes forward."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, most_sources: int = MOST_SOURCES) -> None:
        self._limits = limits
        self._most_sources = most_sources
        self._sources: dict[str, _Source] = {}

    def admit(self, provenance: Provenance, *, now: float) -> None:
        """Spend one of what the source may send; `RateLimited`, with when to try again, where it has none left.

        A level that has no rate is not limited.
        """
        rate = self._limits.accept_rate.get(provenance.trust)
        if rate is None:
            return
        # Put behind all others: those in front have been silent for longest.
        known = self._sources.pop(provenance.sender, None)
        source = known or _Source(provenance, Bucket(rate.burst, now))
        try:
            self._sources[provenance.sender] = source._replace(bucket=take(source.bucket, rate, now=now))
        except RateLimited:
            self._sources[provenance.sender] = source._replace(refused=source.refused + 1)
            raise
        finally:
            while len(self._sources) > self._most_sources:
                del self._sources[next(iter(self._sources))]

    def told(self, new_id: Callable[[], str]) -> tuple[Dropped, ...]:
        """One event for each source that was refused something since this was last asked, for the next commit."""
        refused = [source for source in self._sources.values() if source.refused]
        for source in refused:
            self._sources[source.provenance.sender] = source._replace(refused=0)
        return tuple(
            Dropped(
                reminder_id=new_id(),
                reason=DropReason.RATE_LIMITED,
                at_the_door=True,
                count=source.refused,
                provenance=Provenance(
                    trust=source.provenance.trust, principal=source.provenance.principal, via=source.provenance.via
                ),
            )
            for source in refused
        )

    def untell(self, events: Iterable[Dropped]) -> None:
        """Count them again: the commit they were for was refused."""
        for event in events:
            source = None if event.provenance is None else self._sources.get(event.provenance.sender)
            if source is not None:
                self._sources[source.provenance.sender] = source._replace(refused=source.refused + event.count)

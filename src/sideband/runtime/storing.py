"""How a store behaves: the options that every kind of store takes, and what each kind calls them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypedDict

from sideband.core.bounds import Bound


class StoreOptions(TypedDict, total=False):
    """How a store behaves, wherever it is.

    After `snapshot_events` (1,000) a session gets a snapshot, so that opening it takes no longer the older it is; behind
    that its journal keeps the last `kept_events` (100,000; None: all of them). A run has its session on lease, which
    lapses after `lease_seconds` (30) without a renewal; in memory it never does, unless this is given.

    What other processes have written is looked for every `poll_seconds` (0.25 for a file, 2 for a server), though they
    mostly tell before. Whoever finds the file taken, or the server gone, gives up after `patience_seconds` (10 and 30).
    Beside the sessions that the program holds on to, `sessions_at_hand` (256) stay in memory. A store that has no other
    processes, no server or nothing but memory has no use for these.
    """

    snapshot_events: int
    kept_events: int | None
    lease_seconds: float
    poll_seconds: float
    patience_seconds: float
    sessions_at_hand: int


_NUMBERS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "snapshot_events": Bound(1),
        "kept_events": Bound(0, optional=True),
        "lease_seconds": Bound(0, whole=False, above=True),
        "poll_seconds": Bound(0, whole=False, above=True),
        "patience_seconds": Bound(0, whole=False),
        "sessions_at_hand": Bound(1),
    }
)

# What each kind takes of them, and under which name; how far a subscriber may fall behind is one of the limits.
_COMMON: Final = ("snapshot_events", "kept_events", "lease_seconds", "subscriber_events")
MEMORY: Final[Mapping[str, str]] = MappingProxyType({name: name for name in _COMMON})
_SHARED: Final = (*_COMMON, "poll_seconds", "sessions_at_hand")
SQLITE: Final[Mapping[str, str]] = MappingProxyType(
    {name: name for name in _SHARED} | {"patience_seconds": "busy_seconds"}
)
POSTGRES: Final[Mapping[str, str]] = MappingProxyType({name: name for name in (*_SHARED, "patience_seconds")})


def read_options(options: StoreOptions) -> Mapping[str, Any]:
    """Those that were given; one that is not known or makes no sense is refused before anything is opened."""
    for name, value in options.items():
        bound = _NUMBERS.get(name)
        if bound is None:
            raise TypeError(f"a store has no option {name!r}; there is {', '.join(_NUMBERS)}")
        bound.check(name, value)
    return options


def named(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What a kind of store takes of these, as it calls it."""
    return {names[name]: value for name, value in options.items() if name in names}

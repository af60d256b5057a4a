"""How a store behaves: the options that every kind of store takes, and what each kind calls them."""

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypedDict

from sideband.core.errors import InvalidOption, shown


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


class _Number(NamedTuple):
    """What a value has to be: a whole number or any, at least or above something, None where that is allowed."""

    least: int
    whole: bool = True
    above: bool = False
    optional: bool = False

    def admits(self, value: object) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return isfinite(value) and (value > self.least if self.above else value >= self.least)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        bound = f"above {self.least}" if self.above else f"of at least {self.least}"
        return f"{kind} {bound}{' or None' if self.optional else ''}"


_NUMBERS: Final[Mapping[str, _Number]] = MappingProxyType(
    {
        "snapshot_events": _Number(1),
        "kept_events": _Number(0, optional=True),
        "lease_seconds": _Number(0, whole=False, above=True),
        "poll_seconds": _Number(0, whole=False, above=True),
        "patience_seconds": _Number(0, whole=False),
        "sessions_at_hand": _Number(1),
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
        number = _NUMBERS.get(name)
        if number is None:
            raise TypeError(f"a store has no option {name!r}; there is {', '.join(_NUMBERS)}")
        if not number.admits(value):
            raise InvalidOption(f"{name} must be {number}, not {shown(value)}", field=name, value=value)
    return options


def named(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What a kind of store takes of these, as it calls it."""
    return {names[name]: value for name, value in options.items() if name in names}

"""What can be chosen for a store on a file."""

import msgspec

from sideband.store.feed import SUBSCRIBER_EVENTS
from sideband.store.roster import AT_HAND


class SqliteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store on a file behaves.

    A session has a new snapshot after `snapshot_events`, and its journal keeps `kept_events` behind it (None: all of
    them). A subscriber that is `subscriber_events` behind is cut off. Other processes are looked after every
    `poll_seconds`, though they mostly ring before. Whoever finds the file taken gives up after `busy_seconds`. Beside the
    sessions that somebody holds on to, `sessions_at_hand` stay in memory. `vfs` is the name of another file system
    layer, for tests of what may fail.
    """

    snapshot_events: int = 1_000
    kept_events: int | None = 100_000
    subscriber_events: int = SUBSCRIBER_EVENTS
    lease_seconds: float = 30.0
    poll_seconds: float = 0.25
    busy_seconds: float = 10.0
    sessions_at_hand: int = AT_HAND
    vfs: str = ""

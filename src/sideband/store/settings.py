"""The settings of a store: one record for all kinds, of which each kind has its own defaults; and the clock."""

import time

import msgspec

from sideband.store.cache import AT_HAND
from sideband.store.feed import SUBSCRIBER_EVENTS


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a store; the defaults are those of SQLite.

    A session gets a new snapshot after `snapshot_events`, and its journal keeps the last `kept_events` (None: all). A
    subscriber with more than `subscriber_events` unread events gets `CursorLost`. A lease lapses after `lease_seconds`
    without a renewal. Events of other processes are polled every `poll_seconds`, although those processes usually notify
    this one before. A call waits up to `patience_seconds` for a locked file or an unreachable server. `sessions_at_hand`
    sessions stay in memory in addition to those that are referenced.
    """

    snapshot_events: int = 1_000
    kept_events: int | None = 100_000
    subscriber_events: int = SUBSCRIBER_EVENTS
    lease_seconds: float = 30.0
    poll_seconds: float = 0.25
    patience_seconds: float = 10.0
    sessions_at_hand: int = AT_HAND


class SqliteSettings(StoreSettings, frozen=True, kw_only=True):
    """`vfs` is the name of an SQLite file system layer, for tests of disk failures."""

    vfs: str = ""


class PostgresSettings(StoreSettings, frozen=True, kw_only=True):
    """A server notifies reliably, so it is polled less often; it may take longer to come back than a locked file."""

    poll_seconds: float = 2.0
    patience_seconds: float = 30.0

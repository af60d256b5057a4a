"""What a session has to tell and has not yet finished telling: the inbox, then the live reminders."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from sideband.core.items import InboxItem, QueuedReminder
from sideband.core.live import LiveIndex
from sideband.core.reminder import Reminder
from sideband.core.trust import Provenance


class PendingState(StrEnum):
    QUEUED = "queued"
    LIVE = "live"


class Waiting(NamedTuple):
    """An item of the inbox and its place in it, counted from 0."""

    position: int
    kind: str
    item: InboxItem


class Pending(NamedTuple):
    """A reminder that is not over, as it stands now; `place` counts within its state."""

    state: PendingState
    place: int
    reminder: Reminder
    provenance: Provenance


def waiting(items: Iterable[InboxItem]) -> tuple[Waiting, ...]:
    """The inbox in acceptance order."""
    return tuple(
        Waiting(position, "reminder" if isinstance(item, QueuedReminder) else "user", item)
        for position, item in enumerate(items)
    )


def pending(items: Iterable[InboxItem], live: LiveIndex) -> tuple[Pending, ...]:
    """Every reminder that is queued or live."""
    queued = [item for item in items if isinstance(item, QueuedReminder)]
    return (
        *(Pending(PendingState.QUEUED, place, item.reminder, item.provenance) for place, item in enumerate(queued)),
        *(Pending(PendingState.LIVE, place, live.current(item), item.provenance) for place, item in enumerate(live)),
    )


def live_beside(live: LiveIndex, provenance: Provenance, dedupe_key: str | None) -> int:
    """How many are live besides the one that a new reminder of this key will replace."""
    if dedupe_key is None:
        return len(live)
    return len(live) - any(item.provenance.namespace == provenance.namespace for item in live.with_key(dedupe_key))

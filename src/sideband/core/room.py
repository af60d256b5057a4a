"""Room: how much may be pending, kept apart so that one kind of item never keeps out another."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from sideband.core.errors import TooManyPending
from sideband.core.items import InboxItem, QueuedReminder
from sideband.core.limits import Limits
from sideband.core.seams import Mode


class Room(StrEnum):
    """What shares a bound.

    However much somebody was reminded of, a user's message is taken. What is for the record alone may wait as long as a
    daemon runs, so it takes no space from what is to be read.
    """

    MESSAGES = "messages"
    REMINDERS = "reminders"
    RECORD = "record"


class Counted(Protocol):
    """How much waits; every store says so inside its transaction."""

    def count_in(self, room: Room) -> int:
        """How many items wait in a room."""

    def count_from(self, sender: str, room: Room) -> int:
        """How many of them one sender has sent."""


def room_of(item: InboxItem) -> Room:
    """The room an item waits in."""
    if isinstance(item, QueuedReminder):
        return Room.RECORD if item.mode is Mode.AUDIT_ONLY else Room.REMINDERS
    return Room.RECORD if item.waits_in is Mode.AUDIT_ONLY else Room.MESSAGES


# What makes room where a drain does.
_DRAINED: Final[Mapping[Room, str]] = MappingProxyType(
    {
        Room.MESSAGES: "wait for a turn or revoke some",
        Room.REMINDERS: "wait for a turn or revoke some",
        Room.RECORD: "wait for the end of the run, which puts them on record, or revoke some",
    }
)


def _remedy(room: Room, pending: int, live: int) -> str:
    """What makes room in a session, by what fills it: a reminder that a turn has shown is live, and counts on."""
    if room is not Room.REMINDERS:
        return _DRAINED[room]
    if live * 2 < pending:
        return "revoke some, or wait until turns have shown them and their ttl_turns have passed"
    return f"clear some of the {live} that are live, or wait for those with ttl_turns to expire"


def check_room(
    view: Counted, item: InboxItem, limits: Limits, *, live: int = 0, freed: InboxItem | None = None
) -> None:
    """Refuse what there is no room for. `freed` is what the item displaces; live reminders count as reminders.

    Interrupts have some room in reserve: nothing else wakes an idle daemon that is full of what waits for a turn.
    """
    room = room_of(item)
    reserve = limits.reserved_for_interrupts if item.waits_in is Mode.INTERRUPT_IMMEDIATE else 0
    most = limits.pending_per_session + reserve
    pending = view.count_in(room) - (freed is not None) + (live if room is Room.REMINDERS else 0)
    if pending >= most:
        raise TooManyPending(pending, most, scope="session", remedy=_remedy(room, pending, live))
    share = limits.pending_per_source.get(item.provenance.trust)
    if share is None:
        return
    sender = item.provenance.sender
    own = view.count_from(sender, room) - (freed is not None and freed.provenance.sender == sender)
    if own >= share + reserve:
        raise TooManyPending(own, share + reserve, scope="source", remedy=_DRAINED[room])

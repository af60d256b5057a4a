"""Taking items from the inbox at a seam, and what each of them becomes."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from sideband.core.events import (
    AuditRecorded,
    Checkpoint,
    Closed,
    Dropped,
    DropReason,
    Event,
    Expired,
    ExpiryReason,
    Idled,
    InjectDelivered,
    InjectRevoked,
    Started,
)
from sideband.core.inbox import InboxView
from sideband.core.items import InboxItem, QueuedMessage, QueuedReminder
from sideband.core.lifecycle import OpenRequest, inject, void_turn
from sideband.core.live import LiveIndex
from sideband.core.seams import DRAINS, MAX_SKIPPED_BATCHES, Mode, Seam


class Drain(NamedTuple):
    """What a seam took, in the order in which the model reads it."""

    taken: tuple[InboxItem, ...]
    dispatch_skipped: bool
    events: tuple[Event, ...]


def drain(
    inbox: InboxView,
    live: LiveIndex,
    seam: Seam,
    *,
    next_turn: int,
    skipped_batches: int = 0,
    permission_open: bool = False,
    closing: bool = False,
) -> Drain:
    """Take what this seam takes. The closing drain of a run that takes nothing makes the session idle."""
    taken = _take(inbox, seam, skipped_batches=skipped_batches, permission_open=permission_open)
    skipped = bool(taken) and seam is Seam.PRE_TOOL_DISPATCH
    events: list[Event] = []
    for item in taken:
        events.extend(_deliver(item, live, seam, next_turn))
    if taken:
        ids = tuple(item.id for item in taken)
        events.append(Checkpoint(turn=live.turn, seam=seam, ids=ids, dispatch_skipped=skipped))
    elif closing:
        events.append(Idled())
    return Drain(taken, skipped, tuple(events))


def _take(inbox: InboxView, seam: Seam, *, skipped_batches: int, permission_open: bool) -> tuple[InboxItem, ...]:
    if not inbox.count() or (seam is Seam.PRE_TOOL_DISPATCH and skipped_batches >= MAX_SKIPPED_BATCHES):
        return ()
    found = [item for mode in DRAINS[seam] for item in inbox.waiting(mode)]
    if permission_open:
        found = [item for item in found if not _held_while_asking(item)]
    # What a person wrote stands after what the session was told, so that it is read last.
    return (
        *(item for item in found if isinstance(item, QueuedReminder)),
        *(item for item in found if isinstance(item, QueuedMessage)),
    )


def _held_while_asking(item: InboxItem) -> bool:
    steers = isinstance(item, QueuedMessage) and item.waits_in is Mode.FINISH_STEP
    return steers or item.waits_in is Mode.INTERRUPT_IMMEDIATE


def _deliver(item: InboxItem, live: LiveIndex, seam: Seam, next_turn: int) -> Iterable[Event]:
    audit_only = item.waits_in is Mode.AUDIT_ONLY
    if isinstance(item, QueuedMessage):
        return (InjectDelivered(message_id=item.message_id, content=item.content, audit_only=audit_only),)
    reminder = msgspec.structs.replace(item.reminder, fired_at_turn=next_turn)
    if audit_only:
        return (AuditRecorded(reminder=item.reminder, provenance=item.provenance, turn=live.turn),)
    return inject(live, reminder, item.provenance, seam=seam)


def start(inbox: InboxView, *, running: bool, queue_held: bool) -> tuple[Event, ...]:
    """The next queued message starts a turn once the session is idle, unless a cancel holds the queue."""
    if running or queue_held:
        return ()
    queued = inbox.waiting(None)
    if not queued:
        return ()
    first = queued[0]
    assert isinstance(first, QueuedMessage)  # noqa: S101 - no reminder is of that class
    return (Started(), InjectDelivered(message_id=first.message_id, content=first.content))


def close(
    inbox: InboxView,
    live: LiveIndex,
    *,
    request: OpenRequest | None = None,
    reason: DropReason = DropReason.SESSION_CLOSED,
) -> tuple[Event, ...]:
    """The session ends, and with it all that it still has; a request that is still open came to nothing."""
    events: list[Event] = [] if request is None else [*void_turn(request)]
    for item in (item for mode in (*Mode, None) for item in inbox.waiting(mode)):
        if isinstance(item, QueuedMessage):
            events.append(InjectRevoked(message_id=item.message_id, reason=reason))
        else:
            events.append(Dropped(reminder_id=item.id, reason=reason))
    events.extend(Expired(reminder_id=item.id, reason=ExpiryReason.CLEARED, turn=live.turn) for item in live)
    return (*events, Closed())


def wakes_daemon(item: InboxItem) -> bool:
    """Of all that may be accepted while a daemon idles, only an interrupt wakes it."""
    return item.waits_in is Mode.INTERRUPT_IMMEDIATE

"""What a sub-agent is told of what its parent was told."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import msgspec

from sideband.core.events import Event
from sideband.core.inbox import InboxView
from sideband.core.lifecycle import inherit
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.live import LiveIndex
from sideband.core.reminder import Propagate, Reminder, Source
from sideband.core.trust import Provenance, Trust


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a handoff's `reminder_propagation`: the record as it stands now, and what is known of it."""

    reminder: Reminder
    provenance: Provenance


class Handoff(NamedTuple):
    """What goes to the child, in transcript order, and the ids withheld because they have travelled far enough."""

    reminder_propagation: tuple[Handed, ...]
    at_hop_limit: tuple[str, ...]


def propagate(live: LiveIndex, *, agent_id: str, limits: Limits = DEFAULT_LIMITS) -> Handoff:
    """`all` always travels, `session` only from where it began, `none` never."""
    handed: list[Handed] = []
    at_limit: list[str] = []
    for item in live:
        if not _travels(item.reminder):
            continue
        if item.provenance.hops >= limits.hops:
            at_limit.append(item.id)
            continue
        current = live.current(item)
        first = current.originating_agent_id or agent_id
        handed.append(
            Handed(
                reminder=msgspec.structs.replace(current, originating_agent_id=first),
                provenance=item.provenance,
            )
        )
    return Handoff(tuple(handed), tuple(at_limit))


def _travels(reminder: Reminder) -> bool:
    if reminder.propagate is Propagate.SESSION:
        return reminder.source is not Source.INHERITED
    return reminder.propagate is Propagate.ALL


def seed_child(
    live: LiveIndex,
    handed: Iterable[Handed],
    *,
    sub_agent_id: str,
    next_turn: int = 1,
    hop: Trust = Trust.OPERATOR,
    inbox: InboxView | None = None,
) -> tuple[Event, ...]:
    """The child's copies, before its first turn: same id, body and flags, never on a higher level than before.

    `hop` is the level of the connection the handoff came over; in process it lowers nothing. `inbox` is that of a
    child that was told something before (None: of a new one), and knows what has ended there.
    """
    arrivals: dict[Hashable, tuple[Reminder, Provenance]] = {}
    seen: set[str] = set()
    for entry in handed:
        # A handoff that arrives again, or twice in one, brings nothing new.
        if entry.reminder.id in seen or _is_known(entry.reminder.id, live, inbox):
            continue
        seen.add(entry.reminder.id)
        copy = msgspec.structs.replace(entry.reminder, source=Source.INHERITED, fired_at_turn=next_turn)
        provenance = msgspec.structs.replace(
            entry.provenance,
            trust=max(entry.provenance.trust, hop),
            hops=entry.provenance.hops + 1,
        )
        # A transcript put together by hand may hold a key twice; a session never does, and the newest wins.
        slot = copy.id if copy.dedupe_key is None else (provenance.namespace, copy.dedupe_key)
        arrivals.pop(slot, None)
        arrivals[slot] = copy, provenance
    return tuple(
        event
        for copy, provenance in arrivals.values()
        for event in inherit(live, copy, provenance, sub_agent_id=sub_agent_id)
    )


def _is_known(reminder_id: str, live: LiveIndex, inbox: InboxView | None) -> bool:
    if reminder_id in live:
        return True
    return inbox is not None and (inbox.get(reminder_id) is not None or inbox.tombstone(reminder_id) is not None)

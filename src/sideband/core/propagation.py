"""Propagation: which reminders a sub-agent gets from its parent."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeGuard

import msgspec

from sideband.core.accept import refuse_closed
from sideband.core.events import InboxItem, QueuedReminder
from sideband.core.lifecycle import inherit
from sideband.core.limits import Limits
from sideband.core.reminder import Propagate, Reminder, Source
from sideband.core.seams import Mode
from sideband.core.state import Decided, SessionState
from sideband.core.trust import Provenance, Trust


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a handoff's `reminder_propagation`: the record as it stands now, and its provenance."""

    reminder: Reminder
    provenance: Provenance


class Handoff(NamedTuple):
    """What goes to the child, live reminders before queued ones, and the ids that reached the hop limit."""

    reminder_propagation: tuple[Handed, ...]
    at_hop_limit: tuple[str, ...]


def propagate(state: SessionState, *, agent_id: str, limits: Limits) -> Handoff:
    """What a handoff carries: `all` always travels, `session` only from the agent it began in, `none` never.

    Live reminders come first, in transcript order, then queued ones in acceptance order. An `audit_only` reminder never
    travels. The parent keeps its own.
    """
    live = state.live
    handed: list[Handed] = []
    at_limit: list[str] = []
    for reminder, provenance in (
        *((live.current(item), item.provenance) for item in live),
        *((item.reminder, item.provenance) for item in state.inbox.items() if _is_for_models(item)),
    ):
        if not _travels(reminder):
            continue
        if provenance.hops >= limits.hops:
            at_limit.append(reminder.id)
            continue
        first = reminder.originating_agent_id or agent_id
        named = msgspec.structs.replace(reminder, originating_agent_id=first)
        handed.append(Handed(reminder=named, provenance=provenance))
    return Handoff(tuple(handed), tuple(at_limit))


def _is_for_models(item: InboxItem) -> TypeGuard[QueuedReminder]:
    return isinstance(item, QueuedReminder) and item.mode is not Mode.AUDIT_ONLY


def _travels(reminder: Reminder) -> bool:
    if reminder.propagate is Propagate.SESSION:
        return reminder.source is not Source.INHERITED
    return reminder.propagate is Propagate.ALL


def seed_child(state: SessionState, handed: Iterable[Handed], *, sub_agent_id: str, hop: Trust) -> Decided[None]:
    """Make the child's copies live before its first turn: same id, body and flags, never at a higher trust level.

    `hop` is the trust level of the connection that the handoff came over; `Trust.OPERATOR`, in process, lowers nothing.
    """
    refuse_closed(state)
    arrivals: dict[Hashable, tuple[Reminder, Provenance]] = {}
    seen: set[str] = set()
    for entry in handed:
        # A handoff may arrive again, or hold a reminder twice.
        if entry.reminder.id in seen or _is_known(state, entry.reminder.id):
            continue
        seen.add(entry.reminder.id)
        copy = msgspec.structs.replace(entry.reminder, source=Source.INHERITED, fired_at_turn=state.next_turn)
        provenance = msgspec.structs.replace(
            entry.provenance,
            trust=max(entry.provenance.trust, hop),
            hops=entry.provenance.hops + 1,
        )
        # A key may arrive twice, live and queued; the newest wins, as it would when the parent drains it.
        slot = copy.id if copy.dedupe_key is None else (provenance.namespace, copy.dedupe_key)
        arrivals.pop(slot, None)
        arrivals[slot] = copy, provenance
    events = [
        event
        for copy, provenance in arrivals.values()
        for event in inherit(state, copy, provenance, sub_agent_id=sub_agent_id)
    ]
    return Decided(events, None)


def _is_known(state: SessionState, reminder_id: str) -> bool:
    inbox = state.inbox
    return reminder_id in state.live or inbox.get(reminder_id) is not None or inbox.tombstone(reminder_id) is not None

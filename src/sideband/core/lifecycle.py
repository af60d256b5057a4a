"""What becomes of a drained item: a message is delivered; a reminder goes live, is inherited, or ends by compaction."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sideband.core.accept import check_body_size, check_capacity, ended_by, expired, refuse_closed
from sideband.core.events import (
    AuditRecorded,
    Boundary,
    Compacted,
    Deduped,
    Event,
    Expired,
    ExpiryReason,
    InboxItem,
    Inherited,
    InjectDelivered,
    Injected,
    QueuedMessage,
    QueuedReminder,
)
from sideband.core.limits import Limits
from sideband.core.live import LiveIndex, LiveItem
from sideband.core.reminder import Draft, Reminder, ReminderId, Source, mint
from sideband.core.seams import Mode, Seam
from sideband.core.state import Decided, SessionState
from sideband.core.trust import Provenance


def delivered(message: QueuedMessage, *, audit_only: bool = False) -> InjectDelivered:
    """The event by which a queued message enters the conversation, or with `audit_only` the record."""
    return InjectDelivered(
        message_id=message.message_id,
        content=message.content,
        audit_only=audit_only,
        provenance=message.provenance,
    )


def audited(item: InboxItem, *, turn: int) -> Event:
    """The event by which an `audit_only` item is put on record."""
    if isinstance(item, QueuedMessage):
        return delivered(item, audit_only=True)
    return AuditRecorded(reminder=item.reminder, provenance=item.provenance, turn=turn)


def go_live(
    state: SessionState,
    reminder: Reminder,
    provenance: Provenance,
    *,
    seam: Seam | None = None,
    versions_of: str | None = None,
) -> tuple[Event, ...]:
    """The reminder becomes live and replaces the live reminder of its namespace and key, and its own earlier version.

    `versions_of` is the caller's id if there may be an earlier version. This checks no capacity, because a drained
    reminder was counted when it was accepted. `inject` checks it.
    """
    injected = Injected(reminder=reminder, provenance=provenance, seam=seam)
    return (*_replaced_by(state.live, reminder, provenance, versions_of), injected)


def inherit(state: SessionState, reminder: Reminder, provenance: Provenance, *, sub_agent_id: str) -> tuple[Event, ...]:
    """A copy of a parent's reminder becomes live in its child."""
    inherited = Inherited(reminder=reminder, provenance=provenance, sub_agent_id=sub_agent_id)
    return (*_replaced_by(state.live, reminder, provenance), inherited)


def _replaced_by(
    live: LiveIndex, reminder: Reminder, provenance: Provenance, versions_of: str | None = None
) -> list[Event]:
    key = reminder.dedupe_key
    return [
        Deduped(
            replaced_id=item.id,
            replacing_id=reminder.id,
            dedupe_key=key or item.reminder.dedupe_key or "",
            provenance=provenance,
        )
        for item in ended_by(live, key, provenance, versions_of=versions_of)
    ]


class Injection(NamedTuple):
    """A reminder that became live, and how many older ones of its key it replaced."""

    reminder: Reminder
    deduped_count: int


def inject(
    state: SessionState,
    draft: Draft,
    provenance: Provenance,
    *,
    reminder_id: ReminderId,
    source: Source,
    limits: Limits,
) -> Decided[Injection]:
    """A reminder of a hook or a provider becomes live at once, if the session has capacity for it."""
    refuse_closed(state)
    check_body_size(draft.body, provenance.trust, limits)
    reminder = mint(draft, reminder_id=reminder_id, source=source, fired_at_turn=state.next_turn)
    check_capacity(state, QueuedReminder(reminder=reminder, mode=Mode.FINISH_STEP, provenance=provenance), limits)
    events = go_live(state, reminder, provenance)
    return Decided(events, Injection(reminder, len(events) - 1))


# Compaction.


class CompactionPlan(NamedTuple):
    """What a compaction does to the live reminders if there is anything to compact.

    `survivors` is what a custom compactor gets: the records as they will stand, including those about to end.
    """

    events: tuple[Deduped | Expired, ...]
    survivors: tuple[Reminder, ...]


def plan_compaction(
    state: SessionState, *, begun_at: int | None = None, among: Container[str] | None = None
) -> CompactionPlan:
    """Finite TTLs of shown reminders fall by one, each key keeps its newest reminder, and only preserved ones stay.

    `begun_at` is `live.next_place` when the compaction began: reminders that went live since are left alone. So are those
    that are not in `among` (None: all are).
    """
    live = state.live
    items = [
        item for item in live if (begun_at is None or item.place < begun_at) and (among is None or item.id in among)
    ]
    events: list[Deduped | Expired] = []
    newest: dict[tuple[str, str], LiveItem] = {}
    for item in items:
        if item.reminder.dedupe_key is not None and not _is_over(live, item):
            newest[item.provenance.namespace, item.reminder.dedupe_key] = item
    survivors: list[LiveItem] = []
    for item in items:
        key = item.reminder.dedupe_key
        winner = item if key is None else newest.get((item.provenance.namespace, key), item)
        if _is_over(live, item):
            events.append(_expired(live, item, ExpiryReason.TTL))
        elif winner is not item and key is not None:
            events.append(
                Deduped(
                    replaced_id=item.id,
                    replacing_id=winner.id,
                    dedupe_key=key,
                    boundary=Boundary.PRE_COMPACT,
                    provenance=winner.provenance,
                )
            )
        else:
            survivors.append(item)
    events.extend(
        _expired(live, item, ExpiryReason.COMPACTION) for item in survivors if not item.reminder.preserve_on_compact
    )
    return CompactionPlan(tuple(events), tuple(_lowered(live, item) for item in survivors))


def compact(
    state: SessionState, before: Sequence[Mapping[str, Any]], after: Sequence[dict[str, Any]], *, begun_at: int
) -> Decided[int]:
    """Replace the conversation `before` by `after`, end the reminders that do not survive, and count what was archived.

    Nothing happens if the compactor archived nothing, or if the conversation changed while the compactor ran.
    """
    archived = archived_count(before, after)
    if not archived or state.request is not None or state.open_calls or list(before) != state.messages:
        return Decided((), 0)
    ended = plan_compaction(state, begun_at=begun_at).events
    compacted = Compacted(turn=state.live.turn, archived_messages=archived, messages=tuple(after))
    return Decided((*ended, compacted), archived)


def archived_count(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> int:
    """The number of messages of `before` that are not in `after`; a message that occurs twice counts twice."""
    return (Counter(map(content_key, before)) - Counter(map(content_key, after))).total()


def content_key(message: Mapping[str, Any]) -> str:
    """A message without its id, which a compactor need not copy."""
    return repr(sorted((name, value) for name, value in message.items() if name != "id"))


def _is_over(live: LiveIndex, item: LiveItem) -> bool:
    return item.last_turn is not None and item.last_turn - 1 <= live.turn


def _lowered(live: LiveIndex, item: LiveItem) -> Reminder:
    if item.last_turn is None:
        return item.reminder
    return msgspec.structs.replace(item.reminder, ttl_turns=item.last_turn - 1 - live.turn)


def _expired(live: LiveIndex, item: LiveItem, reason: ExpiryReason) -> Expired:
    return expired(item, reason, turn=live.turn, boundary=Boundary.PRE_COMPACT)

"""The life of a live reminder: injected, replaced, cleared, shown, outlived, compacted away."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from sideband.core.errors import InvalidOption, shown
from sideband.core.events import (
    Boundary,
    Compacted,
    Deduped,
    Deferred,
    Dropped,
    DropReason,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    Inherited,
    Injected,
    RequestCommitted,
    TurnCommitted,
    TurnVoided,
)
from sideband.core.ledger import Fragment, RequestHead
from sideband.core.live import LiveIndex, LiveItem
from sideband.core.reminder import Reminder
from sideband.core.seams import Seam
from sideband.core.trust import IN_PROCESS, Provenance, may_touch
from sideband.core.usage import Usage


def inject(
    live: LiveIndex, reminder: Reminder, provenance: Provenance = IN_PROCESS, *, seam: Seam | None = None
) -> tuple[Event, ...]:
    """Live from now on; whatever had its key in its namespace ends in the same breath."""
    return (*replaced_by(live, reminder, provenance), Injected(reminder=reminder, provenance=provenance, seam=seam))


def inherit(live: LiveIndex, reminder: Reminder, provenance: Provenance, *, sub_agent_id: str) -> tuple[Event, ...]:
    """The same for a copy of what a parent had."""
    arrived = Inherited(reminder=reminder, provenance=provenance, sub_agent_id=sub_agent_id)
    return (*replaced_by(live, reminder, provenance), arrived)


def replaced_by(live: LiveIndex, reminder: Reminder, provenance: Provenance) -> Iterable[Event]:
    """One event for every live reminder that the newer one replaces."""
    key = reminder.dedupe_key
    if key is None:
        return ()
    return [
        Deduped(replaced_id=item.id, replacing_id=reminder.id, dedupe_key=key)
        for item in live.with_key(key)
        if item.provenance.namespace == provenance.namespace
    ]


# Clearing.


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """Which reminders are meant: all that match every part that is given; at least one must be."""

    id: str | None = None
    tag: str | None = None
    dedupe_key: str | None = None

    def __post_init__(self) -> None:
        parts = msgspec.structs.asdict(self)
        if all(part is None for part in parts.values()):
            raise InvalidOption("clearing needs an id, a tag or a dedupe_key to select by", field="selector")
        for name, part in parts.items():
            if not isinstance(part, str | None):
                raise InvalidOption(f"{name} must be a string, not {shown(part)}", field=name, value=part)

    def matches(self, reminder: Reminder) -> bool:
        return (
            (self.id is None or reminder.id == self.id)
            and (self.dedupe_key is None or reminder.dedupe_key == self.dedupe_key)
            and (self.tag is None or self.tag in reminder.tags)
        )


def clear(live: LiveIndex, selector: Selector, actor: Provenance = IN_PROCESS) -> tuple[Event, ...]:
    """Every live reminder that matches and is the actor's to clear ends as cleared."""
    return tuple(
        Expired(reminder_id=item.id, reason=ExpiryReason.CLEARED, turn=live.turn)
        for item in _candidates(live, selector)
        if selector.matches(item.reminder) and may_touch(actor, item.provenance)
    )


def _candidates(live: LiveIndex, selector: Selector) -> Collection[LiveItem]:
    if selector.id is not None:
        item = live.get(selector.id)
        return () if item is None else (item,)
    if selector.dedupe_key is not None:
        return live.with_key(selector.dedupe_key)
    return () if selector.tag is None else live.with_tag(selector.tag)


# Turns.


class OpenRequest(msgspec.Struct, kw_only=True):
    """The request that has left and is not yet answered.

    `settling` is what its reply changes something for: reminders it shows for the first time, or again after the
    budget had left them out. What it merely goes on showing costs nothing. `messages` is how many messages the
    conversation had when it left: while it has no more, the request can be sent again as it was.
    """

    turn: int
    attempt: int = 1
    route: str = ""
    fragments: tuple[Fragment, ...] = ()
    messages: int = 0
    settling: dict[str, None] = {}
    left_out: dict[str, None] = {}


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A reminder as one request carries it."""

    reminder_id: str
    rendered_role: str
    carried: bool = False


class Unusable(NamedTuple):
    """A live reminder that no request of this route can show."""

    reminder_id: str
    reason: DropReason


def open_request(
    turn: int,
    shown: Sequence[Shown],
    left_out: Sequence[str] = (),
    unusable: Sequence[Unusable] = (),
    *,
    route: str = "",
    fragments: tuple[Fragment, ...] = (),
    head: RequestHead | None = None,
) -> tuple[Event, ...]:
    """A request leaves; what can never be shown ends with it."""
    sent = RequestCommitted(turn=turn, route=route, fragments=fragments, head=head)
    if not (shown or left_out or unusable):
        return (sent,)
    return (
        sent,
        *(Dropped(reminder_id=entry.reminder_id, reason=entry.reason) for entry in unusable),
        *(
            Fired(reminder_id=entry.reminder_id, turn=turn, rendered_role=entry.rendered_role, carried=entry.carried)
            for entry in shown
        ),
        *(Deferred(reminder_id=reminder_id, turn=turn) for reminder_id in left_out),
    )


def repeat_request(turn: int, *, attempt: int) -> tuple[Event, ...]:
    """The same request leaves once more, so it fires nothing a second time."""
    return (RequestCommitted(turn=turn, attempt=attempt),)


def close_turn(
    live: LiveIndex, request: OpenRequest, *, reply: dict[str, Any] | None = None, usage: Usage | None = None
) -> tuple[Event, ...]:
    """The reply is in: the turn counts, and whatever has had its last turn ends."""
    ending = [item for item in live.due(request.turn) if item.id not in request.left_out]
    for reminder_id in request.settling:
        item = live.get(reminder_id)
        if item is not None and item.first_turn is None and item.reminder.ttl_turns == 1:
            ending.append(item)
    counted = TurnCommitted(turn=request.turn, reply=reply, usage=usage)
    if not ending:
        return (counted,)
    ending.sort(key=lambda item: item.place)
    return (
        counted,
        *(Expired(reminder_id=item.id, reason=ExpiryReason.TTL, turn=request.turn) for item in ending),
    )


def void_turn(request: OpenRequest) -> tuple[Event, ...]:
    """The request came to nothing: what it showed was never shown."""
    return (TurnVoided(turn=request.turn),)


# Compaction.


class CompactionPlan(NamedTuple):
    """What a compaction does to the live reminders, should there be anything to compact.

    `survivors` is what a custom compactor is shown: the records as they will stand, those about to go included.
    """

    events: tuple[Deduped | Expired, ...]
    survivors: tuple[Reminder, ...]


def plan_compaction(live: LiveIndex) -> CompactionPlan:
    """Finite TTLs of what was shown fall by one, keys collapse to the newest, and only the preserved stay."""
    events: list[Deduped | Expired] = []
    newest: dict[tuple[str, str], LiveItem] = {}
    for item in live:
        if item.reminder.dedupe_key is not None and not _outlived(live, item):
            newest[item.provenance.namespace, item.reminder.dedupe_key] = item
    survivors: list[LiveItem] = []
    for item in live:
        key = item.reminder.dedupe_key
        winner = item if key is None else newest.get((item.provenance.namespace, key), item)
        if _outlived(live, item):
            events.append(_ended(live, item, ExpiryReason.TTL))
        elif winner is not item and key is not None:
            events.append(
                Deduped(replaced_id=item.id, replacing_id=winner.id, dedupe_key=key, boundary=Boundary.PRE_COMPACT)
            )
        else:
            survivors.append(item)
    events.extend(
        _ended(live, item, ExpiryReason.COMPACTION) for item in survivors if not item.reminder.preserve_on_compact
    )
    return CompactionPlan(tuple(events), tuple(_lowered(live, item) for item in survivors))


def compact(
    live: LiveIndex,
    plan: CompactionPlan,
    *,
    archived_messages: int,
    messages: tuple[dict[str, Any], ...] | None = None,
) -> tuple[Event, ...]:
    """The plan as one commit; where nothing was archived there was nothing to compact, and nothing happens.

    A compactor takes its time: what has ended since the plan was made does not end again, what came since is left
    alone, and what has meanwhile had so many turns that this one is its last ends too.
    """
    if archived_messages == 0:
        return ()
    ending = {_ending_id(event): event for event in plan.events if _ending_id(event) in live}
    overdue = (item for item in live if item.id not in ending and _outlived(live, item))
    ending |= {item.id: _ended(live, item, ExpiryReason.TTL) for item in overdue}
    return (*ending.values(), Compacted(turn=live.turn, archived_messages=archived_messages, messages=messages))


def _ending_id(event: Deduped | Expired) -> str:
    return event.replaced_id if isinstance(event, Deduped) else event.reminder_id


def _outlived(live: LiveIndex, item: LiveItem) -> bool:
    return item.last_turn is not None and item.last_turn - 1 <= live.turn


def _lowered(live: LiveIndex, item: LiveItem) -> Reminder:
    if item.last_turn is None:
        return item.reminder
    return msgspec.structs.replace(item.reminder, ttl_turns=item.last_turn - 1 - live.turn)


def _ended(live: LiveIndex, item: LiveItem, reason: ExpiryReason) -> Expired:
    return Expired(reminder_id=item.id, reason=reason, turn=live.turn, boundary=Boundary.PRE_COMPACT)

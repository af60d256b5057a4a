"""What was accepted and not yet drained: accepting, withdrawing, exchanging, draining.

Each rule is a decision over a view of the inbox, so that it exists once for every store: the decision runs inside the
store's transaction, reads rows by id, by slot and by class, and changes nothing.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from sideband.core.content import read_content
from sideband.core.draft import Draft, fingerprint, mint
from sideband.core.errors import (
    AlreadyDelivered,
    AlreadyRevoked,
    BodyTooLarge,
    IdempotencyConflict,
    NoRunningTurn,
    UnknownMessage,
    UnknownReminder,
    UnknownSession,
)
from sideband.core.events import (
    Deduped,
    Dropped,
    DropReason,
    Event,
    InjectAccepted,
    InjectReplaced,
    InjectRevoked,
    Queued,
    Revoked,
)
from sideband.core.items import InboxItem, QueuedMessage, QueuedReminder
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.reminder import ReminderId, Source
from sideband.core.room import Counted, check_room
from sideband.core.seams import InjectMode, Mode
from sideband.core.trust import UNLIMITED, Ceiling, Provenance, Trust, ceiling_for, clamp, may_touch

# No letter has more in UTF-8.
MOST_BYTES: Final = 4


class Fate(StrEnum):
    """How an item left the inbox."""

    DELIVERED = "delivered"
    WITHDRAWN = "withdrawn"


class Tombstone(NamedTuple):
    """What is remembered of an item that no longer waits."""

    kind: type[InboxItem]
    fate: Fate
    provenance: Provenance


class Receipt(NamedTuple):
    """What was answered to a caller that chose its own id."""

    sender: str
    fingerprint: str
    reminder_id: str
    deduped_count: int
    requested: dict[str, Any]
    effective: dict[str, Any]


class Slot(NamedTuple):
    """Where at most one reminder waits: audit-only ones displace only their own kind."""

    namespace: str
    dedupe_key: str
    audit_only: bool


class InboxView(Counted, Protocol):
    """What the decisions read; every store offers it inside its transaction."""

    def get(self, item_id: str) -> InboxItem | None:
        """The waiting item of this id."""

    def in_slot(self, slot: Slot) -> QueuedReminder | None:
        """The reminder waiting in this slot."""

    def waiting(self, mode: Mode | None) -> Sequence[InboxItem]:
        """The items of one class in acceptance order; None is the class of queued user messages."""

    def tombstone(self, item_id: str) -> Tombstone | None:
        """What became of an item that waited once."""

    def receipt(self, caller_id: str) -> Receipt | None:
        """What was answered when this id was used before."""

    def count(self) -> int:
        """How many items wait."""


def slot_of(item: QueuedReminder) -> Slot | None:
    """None for a reminder without a key: it displaces nothing and nothing displaces it."""
    if item.reminder.dedupe_key is None:
        return None
    return Slot(item.provenance.namespace, item.reminder.dedupe_key, item.mode is Mode.AUDIT_ONLY)


# Accepting.


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The answer to an accepted reminder: what was asked for and what it got, where that differs.

    `events` is empty for a repeat of what was accepted before.
    """

    reminder_id: ReminderId
    deduped_count: int
    requested: dict[str, Any]
    effective: dict[str, Any]
    events: tuple[Event, ...]


def accept(
    view: InboxView,
    draft: Draft,
    provenance: Provenance,
    *,
    new_id: str,
    source: Source = Source.BRIDGE,
    ceiling: Ceiling | None = None,
    closed: bool = False,
    live: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> Accepted:
    """Take a reminder into the inbox; of what waits there already it displaces its own slot and nothing else.

    `ceiling` is what the operator's grants make of the sender's; None is that of its level alone. `live` is how many
    reminders are live: they count towards what a session may have pending.
    """
    if closed:
        raise _closed()
    most = ceiling_for(provenance) if ceiling is None else ceiling
    check_body_size(draft, provenance.trust, limits)
    caller_id, mark = draft.caller_id, None
    if caller_id is not None:
        mark = fingerprint(draft)
        repeat = _repeat(view, caller_id, mark, provenance)
        if repeat is not None:
            return Accepted(
                ReminderId(repeat.reminder_id), repeat.deduped_count, repeat.requested, repeat.effective, ()
            )
    effective, requested = (draft, {}) if most is UNLIMITED else clamp(draft, most)
    item = QueuedReminder(
        reminder=mint(effective, reminder_id=ReminderId(caller_id or new_id), source=source),
        mode=effective.mode,
        provenance=_noting(provenance, draft.claims, requested),
        caller_id=caller_id,
        fingerprint=mark,
    )
    slot = None if effective.dedupe_key is None else slot_of(item)
    displaced = None if slot is None else view.in_slot(slot)
    check_room(view, item, limits, live=live, freed=displaced)
    if displaced is None:
        lowered = item.effective if requested else {}
        return Accepted(item.reminder.id, 0, requested, lowered, (Queued(item=item),))
    item = msgspec.structs.replace(item, deduped_count=1)
    assert slot is not None  # noqa: S101 - something was found in it
    deduped = Deduped(replaced_id=displaced.id, replacing_id=item.id, dedupe_key=slot.dedupe_key)
    return Accepted(item.reminder.id, 1, requested, item.effective, (deduped, Queued(item=item)))


def _noting(provenance: Provenance, claims: Mapping[str, object], requested: dict[str, Any]) -> Provenance:
    """The same with what this reminder said of itself and asked for; mostly that is nothing."""
    if not (claims or requested or provenance.claims or provenance.requested):
        return provenance
    return msgspec.structs.replace(provenance, claims=dict(claims), requested=requested)


def _closed() -> UnknownSession:
    return UnknownSession("the session is closed and accepts nothing more")


def turn_away(reminder_id: str, reason: DropReason) -> tuple[Event, ...]:
    """Record a reminder that was refused where nobody waits for an answer."""
    return (Dropped(reminder_id=reminder_id, reason=reason, at_the_door=True),)


def check_body_size(draft: Draft, trust: Trust, limits: Limits) -> None:
    """A body over what its source may send is refused, never cut."""
    limit = limits.body_bytes.get(trust)
    # So short a body is not too large in any letters.
    if limit is None or len(draft.body) * MOST_BYTES <= limit:
        return
    size = len(draft.body.encode())
    if size > limit:
        raise BodyTooLarge(size, limit)


def _repeat(view: InboxView, caller_id: str, mark: str | None, provenance: Provenance) -> Receipt | None:
    receipt = view.receipt(caller_id)
    if receipt is None:
        if view.get(caller_id) is not None or view.tombstone(caller_id) is not None:
            raise IdempotencyConflict(caller_id)
        return None
    if receipt.sender != provenance.sender or receipt.fingerprint != mark:
        raise IdempotencyConflict(caller_id)
    return receipt


def accept_message(
    view: InboxView,
    content: Sequence[dict[str, Any]],
    mode: InjectMode,
    provenance: Provenance,
    *,
    new_id: str,
    running: bool,
    closed: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Event, ...]:
    """Take a user message into the inbox; one that steers needs a running turn to reach."""
    if closed:
        raise _closed()
    if provenance.trust > Trust.CONTROLLER:
        raise UnknownSession("only a controller of the session may send it messages")
    if not running and mode not in (InjectMode.QUEUE, InjectMode.AUDIT_ONLY):
        raise NoRunningTurn(mode.value)
    blocks = read_content(content, limits)
    item = QueuedMessage(message_id=new_id, content=blocks, mode=mode, provenance=provenance)
    check_room(view, item, limits)
    return (InjectAccepted(item=item),)


# Withdrawing and exchanging: both compete with the drain and with nothing else.


class RevokeStatus(StrEnum):
    REVOKED = "revoked"
    ALREADY_REVOKED = "already_revoked"


class Revocation(NamedTuple):
    status: RevokeStatus
    events: tuple[Event, ...]


def revoke_reminder(view: InboxView, reminder_id: str, actor: Provenance) -> Revocation:
    """Withdraw a waiting reminder; what is not the actor's is unknown to it."""
    return _revoke(view, reminder_id, actor, QueuedReminder, Revoked(reminder_id=reminder_id))


def revoke_message(view: InboxView, message_id: str, actor: Provenance) -> Revocation:
    """Withdraw a waiting user message."""
    return _revoke(view, message_id, actor, QueuedMessage, InjectRevoked(message_id=message_id))


def _revoke(view: InboxView, item_id: str, actor: Provenance, kind: type[InboxItem], event: Event) -> Revocation:
    item = view.get(item_id)
    if isinstance(item, kind) and may_touch(actor, item.provenance):
        return Revocation(RevokeStatus.REVOKED, (event,))
    gone = view.tombstone(item_id)
    if gone is None or gone.kind is not kind or not may_touch(actor, gone.provenance):
        raise UnknownReminder(item_id) if kind is QueuedReminder else UnknownMessage(item_id)
    if gone.fate is Fate.DELIVERED:
        raise AlreadyDelivered(item_id)
    return Revocation(RevokeStatus.ALREADY_REVOKED, ())


def replace_message(
    view: InboxView,
    message_id: str,
    content: Sequence[dict[str, Any]],
    actor: Provenance,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Event, ...]:
    """Exchange the content of a waiting user message; its id, mode and place stay."""
    item = view.get(message_id)
    if isinstance(item, QueuedMessage) and may_touch(actor, item.provenance):
        blocks = read_content(content, limits)
        return (InjectReplaced(message_id=message_id, content=blocks, revision=item.revision + 1),)
    gone = view.tombstone(message_id)
    if gone is None or gone.kind is not QueuedMessage or not may_touch(actor, gone.provenance):
        raise UnknownMessage(message_id)
    raise AlreadyDelivered(message_id) if gone.fate is Fate.DELIVERED else AlreadyRevoked(message_id)

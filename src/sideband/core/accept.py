"""Accept into the inbox, and everything else a producer may do to it: revoke, replace, clear, grant."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from sideband.core.errors import (
    AlreadyDelivered,
    AlreadyRevoked,
    BodyTooLarge,
    IdempotencyConflict,
    InvalidOption,
    NoRunningTurn,
    NotPermitted,
    TooManyPending,
    UnknownMessage,
    UnknownReminder,
    UnknownSession,
    shown,
)
from sideband.core.events import (
    Deduped,
    Event,
    Expired,
    ExpiryReason,
    Granted,
    InboxItem,
    InjectAccepted,
    InjectReplaced,
    InjectRevoked,
    Queued,
    QueuedMessage,
    QueuedReminder,
    Revoked,
)
from sideband.core.inbox import Fate, Inbox, Quota, Receipt, quota_of, slot_of
from sideband.core.limits import Limits
from sideband.core.live import LiveIndex, LiveItem
from sideband.core.reminder import Draft, Reminder, ReminderId, Source, fingerprint, mint
from sideband.core.seams import InjectMode, Mode
from sideband.core.state import Decided, SessionState
from sideband.core.trust import UNLIMITED, Grant, Provenance, Trust, TrustPolicy, ceiling_for, clamp, may_touch


def refuse_closed(state: SessionState) -> None:
    """Raise `UnknownSession` if the session is closed: a closed session accepts nothing."""
    if state.closed:
        raise UnknownSession("the session is closed and accepts nothing more")


# Reminders.


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The reply to an accepted reminder.

    `requested` and `effective` hold the fields that the sender's ceiling lowered, before and after.
    """

    reminder_id: ReminderId
    deduped_count: int
    requested: dict[str, Any]
    effective: dict[str, Any]


def accept(
    state: SessionState,
    draft: Draft,
    provenance: Provenance,
    *,
    new_id: str,
    limits: Limits,
    source: Source = Source.BRIDGE,
    policy: TrustPolicy = TrustPolicy.CEILINGS,
    now: int | None = None,
) -> Decided[Accepted]:
    """Put a reminder into the inbox. It displaces only a reminder that waits in the same slot.

    `new_id` becomes the reminder's id unless the caller supplied one. `now`, in milliseconds since the epoch, ends grants
    that have an end; without it only grants without an end count. A repeat of an accepted request gets the earlier reply
    and writes nothing.
    """
    refuse_closed(state)
    ceiling = ceiling_for(provenance, grants=state.grants, policy=policy, now=now)
    check_body_size(draft, provenance.trust, limits)
    caller_id, mark = draft.caller_id, None
    if caller_id is not None:
        mark = fingerprint(draft)
        repeat = _repeat(state.inbox, caller_id, mark, provenance)
        if repeat is not None:
            reply = Accepted(
                ReminderId(repeat.reminder_id), repeat.deduped_count, dict(repeat.requested), dict(repeat.effective)
            )
            return Decided((), reply)
    effective, requested = (draft, {}) if ceiling is UNLIMITED else clamp(draft, ceiling)
    item = QueuedReminder(
        reminder=mint(effective, reminder_id=ReminderId(caller_id or new_id), source=source),
        mode=effective.mode,
        provenance=_with_claims(provenance, draft.claims, requested),
        caller_id=caller_id,
        fingerprint=mark,
    )
    slot = slot_of(item)
    displaced = None if slot is None else state.inbox.in_slot(slot)
    check_capacity(state, item, limits, displaced=displaced)
    events: list[Event] = []
    if slot is not None and displaced is not None:
        item = msgspec.structs.replace(item, deduped_count=1)
        events.append(Deduped(replaced_id=displaced.id, replacing_id=item.id, dedupe_key=slot.dedupe_key))
    events.append(Queued(item=item))
    return Decided(events, Accepted(item.reminder.id, item.deduped_count, dict(requested), item.effective))


def _with_claims(provenance: Provenance, claims: Mapping[str, object], requested: dict[str, Any]) -> Provenance:
    """The provenance with the caller's claims and the requested values; usually there are none."""
    if not (claims or requested or provenance.claims or provenance.requested):
        return provenance
    return msgspec.structs.replace(provenance, claims=dict(claims), requested=requested)


def check_body_size(draft: Draft, trust: Trust, limits: Limits) -> None:
    """Refuse a body that is larger than its source may send; a body is never cut."""
    limit = limits.body_bytes.get(trust)
    size = len(draft.body.encode())
    if limit is not None and size > limit:
        raise BodyTooLarge(size, limit)


def _repeat(inbox: Inbox, caller_id: str, mark: str, provenance: Provenance) -> Receipt | None:
    receipt = inbox.receipt(caller_id)
    if receipt is None:
        if inbox.get(caller_id) is not None or inbox.tombstone(caller_id) is not None:
            raise IdempotencyConflict(caller_id)
        return None
    if receipt.sender != provenance.sender or receipt.fingerprint != mark:
        raise IdempotencyConflict(caller_id)
    return receipt


# User messages.


def accept_message(
    state: SessionState,
    content: tuple[dict[str, Any], ...],
    mode: InjectMode,
    provenance: Provenance,
    *,
    new_id: str,
    limits: Limits,
) -> Decided[str]:
    """Put a user message into the inbox and return its id. Every mode but `queue` and `audit_only` needs a running turn.

    `content` was validated by `read_content`, before the commit.
    """
    refuse_closed(state)
    if provenance.trust > Trust.CONTROLLER:
        raise UnknownSession("only a controller of the session may send it messages")
    # A turn that a dead process left running cannot receive anything.
    if not (state.running and state.attended) and mode not in (InjectMode.QUEUE, InjectMode.AUDIT_ONLY):
        raise NoRunningTurn(mode.value)
    item = QueuedMessage(message_id=new_id, content=content, mode=mode, provenance=provenance)
    check_capacity(state, item, limits)
    return Decided((InjectAccepted(item=item),), new_id)


# Capacity: messages, reminders and audit records have separate limits, so that one kind never keeps out another.

_REMEDIES: Final[Mapping[Quota, str]] = {
    Quota.MESSAGES: "wait for a turn or revoke some",
    Quota.REMINDERS: "wait for a turn or revoke some",
    Quota.AUDIT: "wait for the end of the run, which puts them on record, or revoke some",
}


def check_capacity(state: SessionState, item: InboxItem, limits: Limits, *, displaced: InboxItem | None = None) -> None:
    """Raise `TooManyPending` if the inbox has no capacity for `item`; the item it displaces does not count.

    Live reminders count towards the limit of the reminders, except one that `item` will replace when it is drained.
    Interrupts have a reserve of their own, so that a session full of reminders can still be interrupted.
    """
    quota = quota_of(item)
    reserve = limits.reserved_for_interrupts if item.waits_in is Mode.INTERRUPT_IMMEDIATE else 0
    most = limits.pending_per_session + reserve
    live = 0
    if quota is Quota.REMINDERS and isinstance(item, QueuedReminder):
        live = _live_beside(state.live, item.reminder.dedupe_key, item.provenance)
    pending = state.inbox.count_in(quota) - (displaced is not None) + live
    if pending >= most:
        raise TooManyPending(pending, most, scope="session", remedy=_remedy(quota, pending, live))
    share = limits.pending_per_source.get(item.provenance.trust)
    if share is None:
        return
    sender = item.provenance.sender
    own = state.inbox.count_from(sender, quota) - (displaced is not None and displaced.provenance.sender == sender)
    if own >= share + reserve:
        raise TooManyPending(own, share + reserve, scope="source", remedy=_REMEDIES[quota])


def has_capacity(state: SessionState, draft: Draft, provenance: Provenance, limits: Limits, *, beside: int) -> bool:
    """Whether a reminder of this process can become live together with `beside` others."""
    live = _live_beside(state.live, draft.dedupe_key, provenance)
    return live + state.inbox.count_in(Quota.REMINDERS) + beside < limits.pending_per_session


def _live_beside(live: LiveIndex, dedupe_key: str | None, provenance: Provenance) -> int:
    """The number of live reminders without the one that a new reminder of this key replaces."""
    if dedupe_key is None:
        return len(live)
    return len(live) - any(item.provenance.namespace == provenance.namespace for item in live.with_key(dedupe_key))


def _remedy(quota: Quota, pending: int, live: int) -> str:
    if quota is not Quota.REMINDERS:
        return _REMEDIES[quota]
    if live * 2 < pending:
        return "revoke some, or wait until turns have shown them and their ttl_turns have passed"
    return f"clear some of the {live} that are live, or wait for those with ttl_turns to expire"


# Revoke and replace: both compete with the drain, and exactly one of the two wins.


class RevokeStatus(StrEnum):
    REVOKED = "revoked"
    ALREADY_REVOKED = "already_revoked"


def revoke_reminder(state: SessionState, reminder_id: str, actor: Provenance) -> Decided[RevokeStatus]:
    """Withdraw a queued reminder. A reminder that the actor does not own is unknown to it."""
    return _revoke(state.inbox, reminder_id, actor, QueuedReminder)


def revoke_message(state: SessionState, message_id: str, actor: Provenance) -> Decided[RevokeStatus]:
    """Withdraw a queued user message."""
    return _revoke(state.inbox, message_id, actor, QueuedMessage)


def revoke(state: SessionState, item_id: str, actor: Provenance) -> Decided[RevokeStatus]:
    """Withdraw a queued item, whether it is a reminder or a user message."""
    kind = _kind_of(state.inbox, item_id)
    return _revoke(state.inbox, item_id, actor, QueuedReminder if kind is None else kind)


def _kind_of(inbox: Inbox, item_id: str) -> type[InboxItem] | None:
    item, gone = inbox.get(item_id), inbox.tombstone(item_id)
    if item is not None:
        return type(item)
    return None if gone is None else gone.kind


def _revoke(inbox: Inbox, item_id: str, actor: Provenance, kind: type[InboxItem]) -> Decided[RevokeStatus]:
    item = inbox.get(item_id)
    if isinstance(item, kind) and may_touch(actor, item.provenance):
        event = Revoked(reminder_id=item_id) if kind is QueuedReminder else InjectRevoked(message_id=item_id)
        return Decided((event,), RevokeStatus.REVOKED)
    if _fate(inbox, item_id, actor, kind) is Fate.DELIVERED:
        raise AlreadyDelivered(item_id)
    return Decided((), RevokeStatus.ALREADY_REVOKED)


def replace_message(
    state: SessionState, message_id: str, content: tuple[dict[str, Any], ...], actor: Provenance
) -> Decided[None]:
    """Replace the content of a queued user message; its id, mode and position stay."""
    item = state.inbox.get(message_id)
    if isinstance(item, QueuedMessage) and may_touch(actor, item.provenance):
        return Decided((InjectReplaced(message_id=message_id, content=content, revision=item.revision + 1),), None)
    if _fate(state.inbox, message_id, actor, QueuedMessage) is Fate.DELIVERED:
        raise AlreadyDelivered(message_id)
    raise AlreadyRevoked(message_id)


def _fate(inbox: Inbox, item_id: str, actor: Provenance, kind: type[InboxItem]) -> Fate:
    """How an item left the inbox; an item of another kind, or one that the actor does not own, is unknown."""
    gone = inbox.tombstone(item_id)
    if gone is None or gone.kind is not kind or not may_touch(actor, gone.provenance):
        raise UnknownReminder(item_id) if kind is QueuedReminder else UnknownMessage(item_id)
    return gone.fate


# Clear.


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the reminders that match every given part; at least one part is required."""

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


def clear(state: SessionState, selector: Selector, actor: Provenance) -> Decided[int]:
    """End every live reminder that matches and that the actor may clear; return how many."""
    ended = tuple(
        Expired(reminder_id=item.id, reason=ExpiryReason.CLEARED, turn=state.live.turn)
        for item in _candidates(state.live, selector)
        if selector.matches(item.reminder) and may_touch(actor, item.provenance)
    )
    return Decided(ended, len(ended))


def _candidates(live: LiveIndex, selector: Selector) -> Collection[LiveItem]:
    """A superset of the matches, found through the narrowest index."""
    if selector.id is not None:
        item = live.get(selector.id)
        return () if item is None else (item,)
    if selector.dedupe_key is not None:
        return live.with_key(selector.dedupe_key)
    return () if selector.tag is None else live.with_tag(selector.tag)


# Grants.


def issue_grant(state: SessionState, grant: Grant, actor: Provenance) -> Decided[None]:
    """Raise a ceiling for one source. Only the operator may, and each grant is recorded."""
    refuse_closed(state)
    if actor.trust is not Trust.OPERATOR:
        raise NotPermitted("only the operator of a session may raise a ceiling", field="grant", value=grant.principal)
    return Decided((Granted(grant=grant),), None)

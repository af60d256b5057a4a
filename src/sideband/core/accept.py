"""Accept into the inbox, and everything else a producer may do to it: revoke, replace, clear, grant.

All doors check in one order: the payload (before the commit), ownership, repeat, end of the session, rate, ceiling,
capacity. A repeat of what was acknowledged therefore gets its answer even after the end.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    RateLimited,
    SessionBusy,
    TaskFinished,
    TooManyPending,
    UnknownMessage,
    UnknownReminder,
    UnknownSession,
    shown,
)
from sideband.core.events import (
    Boundary,
    Deduped,
    DropReason,
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
    Replaced,
    Revoked,
)
from sideband.core.inbox import Fate, Inbox, Quota, Receipt, quota_of, slot_of
from sideband.core.limits import Limits
from sideband.core.live import LiveIndex, LiveItem
from sideband.core.reminder import Draft, Reminder, ReminderId, Source, fingerprint, mint
from sideband.core.seams import InjectMode, Mode
from sideband.core.serialize import JsonRecord
from sideband.core.state import Decided, SessionState
from sideband.core.trust import UNLIMITED, Grant, Provenance, Trust, TrustPolicy, ceiling_for, clamp, may_touch

OWNER: Final = "owner"
"""The record with the name of the peer that a session belongs to; the session is unknown to every other peer."""


def refuse_stranger(state: SessionState, actor: Provenance) -> None:
    """Raise `UnknownSession` if the session belongs to another peer."""
    if actor.trust is Trust.PEER and state.records.get(OWNER, actor.principal) != actor.principal:
        raise UnknownSession("there is no such session")


def refuse_closed(state: SessionState) -> None:
    """Raise if the session is over: `TaskFinished` if its task has ended, else `UnknownSession`."""
    if state.closed_reason is DropReason.TASK_FINISHED:
        raise TaskFinished("the task has ended and takes nothing more; begin a new one")
    if state.closed:
        raise UnknownSession("the session is closed and accepts nothing more; begin another session")
    if state.deleted:
        raise UnknownSession("the session was deleted; begin it again with Store.begin")


def refuse_turn(state: SessionState) -> None:
    """Raise `SessionBusy` if a turn runs, or if a queued message is about to start one.

    Messages that are held after a cancel are not: they wait for the next one, and go first.
    """
    if state.running or (state.inbox.waiting(None) and not state.queue_held):
        raise SessionBusy("the session is busy with an earlier message; wait for the end of its turn", field="session")


# Reminders.


class Accepted(JsonRecord, msgspec.Struct, frozen=True, gc=False):
    """The reply to an accepted reminder.

    `requested` and `effective` hold the fields that the sender's ceiling lowered, before and after. `accepted_at` is in
    milliseconds since the epoch, and `version` counts the payloads sent under one id; a repeat gets both of the first
    time. `is_free`: the request was a repeat, or replaced a queued reminder, so it costs no token.
    """

    reminder_id: ReminderId
    deduped_count: int
    requested: dict[str, Any]
    effective: dict[str, Any]
    accepted_at: int = 0
    version: int = 1
    is_free: bool = False


def accept(
    state: SessionState,
    draft: Draft,
    provenance: Provenance,
    *,
    new_id: str,
    limits: Limits,
    source: Source = Source.BRIDGE,
    policy: TrustPolicy = TrustPolicy.CEILINGS,
    grants: Sequence[Grant] = (),
    now: int = 0,
    rate: RateLimited | None = None,
    versioned: bool = False,
) -> Decided[Accepted]:
    """Put a reminder into the inbox. It displaces only a reminder that waits in the same slot.

    `grants` raise the sender's ceiling beside those of the session. `new_id` becomes the reminder's id unless the caller supplied one. `now` is in milliseconds since the epoch. `rate` is
    the refusal of the throttle, which is raised if the request needs a token (None: a token is reserved). A repeat of an
    accepted request gets the earlier reply and writes nothing. With `versioned`, another payload under the same id is a
    newer version, which ends the earlier one; without it, that is a conflict.
    """
    refuse_stranger(state, provenance)
    caller_id, mark, earlier = draft.caller_id, None, None
    if caller_id is not None:
        mark = fingerprint(draft)
        earlier = _receipt(state, caller_id, provenance)
        if earlier is not None and earlier.fingerprint == mark:
            return Decided((), _repeated(earlier))
        if earlier is not None and not versioned:
            raise IdempotencyConflict(caller_id)
    refuse_closed(state)
    ceiling = ceiling_for(provenance, grants=(*state.grants, *grants), policy=policy, now=now)
    check_body_size(draft.body, provenance.trust, limits)
    effective, requested = (draft, {}) if ceiling is UNLIMITED else clamp(draft, ceiling)
    version = 1 if earlier is None else _next_version(state, caller_id, earlier)
    item = QueuedReminder(
        reminder=mint(effective, reminder_id=_id(caller_id, version, new_id), source=source),
        mode=effective.mode,
        provenance=_with_request(provenance, draft, requested),
        caller_id=caller_id,
        fingerprint=mark,
        accepted_at=now,
        version=version,
    )
    displaced = _displaced(state.inbox, item, earlier)
    if rate is not None and not displaced:
        raise rate
    check_capacity(state, item, limits, displaced=displaced)
    if displaced:
        item = msgspec.structs.replace(item, deduped_count=len(displaced))
    events = [_deduped(old, item) for old in displaced]
    accepted = Accepted(
        item.reminder.id,
        item.deduped_count,
        dict(requested),
        item.effective,
        now,
        version,
        is_free=bool(displaced),
    )
    return Decided((*events, Queued(item=item)), accepted)


def _receipt(state: SessionState, caller_id: str, provenance: Provenance) -> Receipt | None:
    """The receipt of this id; a conflict if the id belongs to another sender or was chosen by the session."""
    receipt = state.receipts[caller_id]
    if _is_taken(state, caller_id) if receipt is None else receipt.sender != provenance.sender:
        raise IdempotencyConflict(caller_id)
    return receipt


def _is_taken(state: SessionState, item_id: str) -> bool:
    inbox = state.inbox
    return inbox.get(item_id) is not None or inbox.tombstone(item_id) is not None or item_id in state.live


def _repeated(receipt: Receipt) -> Accepted:
    return Accepted(
        ReminderId(receipt.reminder_id),
        receipt.deduped_count,
        dict(receipt.requested),
        dict(receipt.effective),
        receipt.accepted_at,
        receipt.version,
        is_free=True,
    )


# A caller's id cannot contain this, so the id of a later version is never one that a caller supplies.
_VERSION: Final = "~"


def _id(caller_id: str | None, version: int, new_id: str) -> ReminderId:
    if caller_id is None:
        return ReminderId(new_id)
    return ReminderId(caller_id if version == 1 else f"{caller_id}{_VERSION}{version}")


def _next_version(state: SessionState, caller_id: str | None, earlier: Receipt) -> int:
    version = earlier.version + 1
    # A copy inherited from another session may have the id of a version.
    while _is_taken(state, _id(caller_id, version, "")):
        version += 1
    return version


def _displaced(inbox: Inbox, item: QueuedReminder, earlier: Receipt | None) -> list[QueuedReminder]:
    """The queued reminders that `item` replaces: the one in its slot, and its own earlier version."""
    slot = slot_of(item)
    found = [
        None if slot is None else inbox.in_slot(slot),
        None if earlier is None else inbox.get(earlier.reminder_id),
    ]
    return [*{old.id: old for old in found if isinstance(old, QueuedReminder)}.values()]


def _deduped(old: QueuedReminder, new: QueuedReminder) -> Event:
    key = new.reminder.dedupe_key or old.reminder.dedupe_key or ""
    return Deduped(replaced_id=old.id, replacing_id=new.id, dedupe_key=key, provenance=new.provenance)


def _with_request(provenance: Provenance, draft: Draft, requested: dict[str, Any]) -> Provenance:
    """The provenance with the caller's claims, its `_meta` and the requested values; usually there are none."""
    if not (draft.claims or draft.meta or requested or provenance.claims or provenance.requested):
        return provenance
    return msgspec.structs.replace(
        provenance, claims=dict(draft.claims), requested=requested, meta=dict(draft.meta) or provenance.meta
    )


def check_body_size(body: str, trust: Trust, limits: Limits, *, field: str = "body") -> None:
    """Refuse a body that is larger than its source may send; a body is never cut."""
    limit = limits.body_bytes.get(trust)
    size = len(body.encode())
    if limit is not None and size > limit:
        raise BodyTooLarge(size, limit, field=field)


# User messages.


def accept_message(
    state: SessionState,
    content: tuple[dict[str, Any], ...],
    mode: InjectMode,
    provenance: Provenance,
    *,
    new_id: str,
    limits: Limits,
    now: int = 0,
    rate: RateLimited | None = None,
) -> Decided[str]:
    """Put a user message into the inbox and return its id. Every mode but `queue` and `audit_only` needs a turn.

    The turn is running, or a queued message is about to start it. `content` was validated by `read_content`, before the
    commit. `rate` is the refusal of the throttle (None: a token is reserved).
    """
    if provenance.trust > Trust.CONTROLLER:
        raise NotPermitted(
            "only a controller of the session may send it messages; send a reminder instead", field="trust"
        )
    refuse_closed(state)
    if rate is not None:
        raise rate
    if mode not in (InjectMode.QUEUE, InjectMode.AUDIT_ONLY) and not _has_turn(state):
        raise NoRunningTurn(mode.value)
    item = QueuedMessage(message_id=new_id, content=content, mode=mode, provenance=provenance, accepted_at=now)
    check_capacity(state, item, limits)
    return Decided((InjectAccepted(item=item),), new_id)


def _has_turn(state: SessionState) -> bool:
    # A turn that a dead process left running cannot receive anything.
    if state.running and state.attended:
        return True
    return bool(state.inbox.waiting(None)) and not state.queue_held


# Capacity: messages, reminders and audit records have separate limits, so that one kind never keeps out another.

_REMEDIES: Final[Mapping[Quota, str]] = {
    Quota.MESSAGES: "wait for a turn or revoke some",
    Quota.REMINDERS: "wait for a turn or revoke some",
    Quota.AUDIT: "wait for the end of the run, which puts them on record, or revoke some",
}


def check_capacity(
    state: SessionState, item: InboxItem, limits: Limits, *, displaced: Collection[InboxItem] = ()
) -> None:
    """Raise `TooManyPending` if the inbox has no capacity for `item`; the items it displaces do not count.

    Live reminders count towards the limit of the reminders, except one that `item` will replace when it is drained.
    Interrupts have a reserve of their own, so that a session full of reminders can still be interrupted.
    """
    quota = quota_of(item)
    reserve = limits.reserved_for_interrupts if item.waits_in is Mode.INTERRUPT_IMMEDIATE else 0
    most = limits.pending_per_session + reserve
    live = 0
    if quota is Quota.REMINDERS and isinstance(item, QueuedReminder):
        ended = ended_by(state.live, item.reminder.dedupe_key, item.provenance, versions_of=versioned_id(item))
        live = len(state.live) - len(ended)
    # A newer version may have another mode and then another quota.
    leaving = [old for old in displaced if quota_of(old) is quota]
    pending = state.inbox.count_in(quota) - len(leaving) + live
    if pending >= most and item.provenance.trust > Trust.CONTROLLER:
        # How many of them are live or queued is not for this sender: most are not its own.
        raise TooManyPending(most, most, scope="session", remedy=_REMEDIES[quota])
    if pending >= most:
        raise TooManyPending(pending, most, scope="session", remedy=_remedy(quota, pending, live))
    share = limits.pending_per_source.get(item.provenance.trust)
    if share is None:
        return
    sender = item.provenance.sender
    own = state.inbox.count_from(sender, quota) - sum(old.provenance.sender == sender for old in leaving)
    if own >= share + reserve:
        raise TooManyPending(own, share + reserve, scope="source", remedy=_REMEDIES[quota])


def has_capacity(state: SessionState, draft: Draft, provenance: Provenance, limits: Limits, *, beside: int) -> bool:
    """Whether a reminder of this process can become live together with `beside` others."""
    live = len(state.live) - len(ended_by(state.live, draft.dedupe_key, provenance))
    return live + state.inbox.count_in(Quota.REMINDERS) + beside < limits.pending_per_session


def versioned_id(item: QueuedReminder) -> str | None:
    """The caller's id if the reminder is a later version of what the caller sent under it."""
    return item.caller_id if item.version > 1 else None


def ended_by(
    live: LiveIndex, dedupe_key: str | None, provenance: Provenance, *, versions_of: str | None = None
) -> list[LiveItem]:
    """The live reminders that a new one ends when it goes live: the one of its key, and its own earlier version."""
    found = [] if dedupe_key is None else [*live.with_key(dedupe_key)]
    if versions_of is not None:
        found += [item for item in live if item.id.partition(_VERSION)[0] == versions_of and item not in found]
    return [item for item in found if item.provenance.namespace == provenance.namespace]


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
    if isinstance(item, kind) and may_touch(actor, item.provenance.namespace):
        return Decided((_revoked(item),), RevokeStatus.REVOKED)
    if _fate(inbox, item_id, actor, kind) is Fate.DELIVERED:
        raise AlreadyDelivered(item_id)
    return Decided((), RevokeStatus.ALREADY_REVOKED)


def _revoked(item: InboxItem) -> Event:
    if isinstance(item, QueuedMessage):
        return InjectRevoked(message_id=item.id, provenance=item.provenance)
    return Revoked(reminder_id=item.id, dedupe_key=item.reminder.dedupe_key, provenance=item.provenance)


def replace_message(
    state: SessionState, message_id: str, content: tuple[dict[str, Any], ...], actor: Provenance
) -> Decided[None]:
    """Replace the content of a queued user message; its id, mode and position stay."""
    item = state.inbox.get(message_id)
    if not isinstance(item, QueuedMessage) or not may_touch(actor, item.provenance.namespace):
        raise _not_replaceable(state.inbox, message_id, actor, QueuedMessage)
    replaced = InjectReplaced(
        message_id=message_id, content=content, revision=item.revision + 1, provenance=item.provenance
    )
    return Decided((replaced,), None)


def replace_reminder(state: SessionState, reminder_id: str, body: str, actor: Provenance) -> Decided[None]:
    """Replace the body of a queued reminder; its id, mode and position stay. `body` was validated before the commit."""
    item = state.inbox.get(reminder_id)
    if not isinstance(item, QueuedReminder) or not may_touch(actor, item.provenance.namespace):
        raise _not_replaceable(state.inbox, reminder_id, actor, QueuedReminder)
    reminder = msgspec.structs.replace(item.reminder, body=body)
    return Decided((Replaced(item=msgspec.structs.replace(item, reminder=reminder)),), None)


def _not_replaceable(inbox: Inbox, item_id: str, actor: Provenance, kind: type[InboxItem]) -> Exception:
    delivered = _fate(inbox, item_id, actor, kind) is Fate.DELIVERED
    return AlreadyDelivered(item_id) if delivered else AlreadyRevoked(item_id)


def _fate(inbox: Inbox, item_id: str, actor: Provenance, kind: type[InboxItem]) -> Fate:
    """How an item left the inbox; an item of another kind, or one that the actor does not own, is unknown."""
    gone = inbox.tombstone(item_id)
    if gone is None or gone.kind is not kind or not may_touch(actor, gone.owner):
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
    """End every queued and every live reminder that matches and that the actor may clear; return how many.

    An `audit_only` reminder is a record and not meant for the model, so only its id selects it.
    """
    found: tuple[QueuedReminder | LiveItem, ...] = (
        *_queued(state.inbox, selector),
        *_candidates(state.live, selector),
    )
    ended = tuple(
        expired(item, ExpiryReason.CLEARED, turn=state.live.turn)
        for item in found
        if selector.matches(item.reminder) and may_touch(actor, item.provenance.namespace)
    )
    return Decided(ended, len(ended))


def expired(
    item: QueuedReminder | LiveItem, reason: ExpiryReason, *, turn: int, boundary: Boundary | None = None
) -> Expired:
    """The event that ends a pending reminder."""
    return Expired(
        reminder_id=item.id,
        reason=reason,
        turn=turn,
        boundary=boundary,
        dedupe_key=item.reminder.dedupe_key,
        provenance=item.provenance,
    )


def _queued(inbox: Inbox, selector: Selector) -> Iterator[QueuedReminder]:
    for item in inbox.items():
        if isinstance(item, QueuedReminder) and (item.mode is not Mode.AUDIT_ONLY or selector.id is not None):
            yield item


def _candidates(live: LiveIndex, selector: Selector) -> Collection[LiveItem]:
    """A superset of the matching live reminders, found through the narrowest index."""
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
    return Decided(() if grant in state.grants else (Granted(grant=grant),), None)

"""Checks on a session state: comparing two states, rebuilding the indexes, counting terminal events."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from sideband.core.events import (
    AuditRecorded,
    Deduped,
    Dropped,
    Event,
    Expired,
    InjectDelivered,
    InjectRevoked,
    QueuedReminder,
    Revoked,
)
from sideband.core.inbox import Inbox, Quota, quota_of, slot_of
from sideband.core.live import LiveIndex
from sideband.core.seams import Mode
from sideband.core.state import SessionState

_DECODER: Final = msgspec.json.Decoder(Event)


def from_json(event: Event) -> Event:
    """The event as recovery reads it."""
    read: Event = _DECODER.decode(msgspec.json.encode(event))
    return read


def equal_states(one: SessionState, other: SessionState) -> bool:
    """Whether both states are equal, including the order of every listing. Receipts are not part of a state."""
    return bool(_listed(one) == _listed(other))


def _listed(thing: object) -> Any:  # noqa: ANN401 - whatever a state holds
    """A state as nested lists, since two dicts are equal in any order; its records compare themselves."""
    match thing:
        case SessionState():
            return _listed({name: value for name, value in vars(thing).items() if name != "receipts"})
        case LiveIndex() | Inbox():
            return _listed(vars(thing))
        case dict():
            return [(key, _listed(value)) for key, value in thing.items()]
        case _:
            return thing


def ends(journal: Iterable[Event]) -> dict[str, list[str]]:
    """How each item ended, and how often it did."""
    found: dict[str, list[str]] = {}
    for event in journal:
        match event:
            case Deduped(replaced_id=gone):
                found.setdefault(gone, []).append("deduped")
            case Expired(reminder_id=gone, reason=why):
                found.setdefault(gone, []).append(f"expired:{why.value}")
            case Revoked(reminder_id=gone) | InjectRevoked(message_id=gone):
                found.setdefault(gone, []).append("revoked")
            case Dropped(reminder_id=gone, reason=reason, at_the_door=False):
                found.setdefault(gone, []).append(f"dropped:{reason.value}")
            case AuditRecorded(reminder=reminder):
                found.setdefault(reminder.id, []).append("audit_recorded")
            case InjectDelivered(message_id=gone):
                found.setdefault(gone, []).append("delivered")
            case _:
                pass
    return found


def check_indexes(state: SessionState) -> None:
    """Each index holds what looking at every item would find, and nothing else."""
    _check_live(state.live)
    _check_inbox(state.inbox)


def _check_live(live: LiveIndex) -> None:
    items = list(live)
    assert [item.place for item in items] == sorted({item.place for item in items})
    keys = {item.reminder.dedupe_key for item in items} - {None}
    assert live._by_key.keys() == keys
    for key in keys:
        assert [item.id for item in live.with_key(str(key))] == [i.id for i in items if i.reminder.dedupe_key == key]
    tags = {tag for item in items for tag in item.reminder.tags}
    assert live._by_tag.keys() == tags
    for tag in tags:
        assert [item.id for item in live.with_tag(tag)] == [i.id for i in items if tag in i.reminder.tags]
    turns = {item.last_turn for item in items} - {None}
    assert live._by_last_turn.keys() == turns
    for turn in turns:
        assert {item.id for item in live.due(turn or 0)} == {i.id for i in items if i.last_turn == turn}


def _check_inbox(inbox: Inbox) -> None:
    items = list(inbox.items())
    assert len(inbox) == len(items)
    for mode in (*Mode, None):
        assert [item.id for item in inbox.waiting(mode)] == [item.id for item in items if item.waits_in is mode]
    slots = [(slot_of(item), item.id) for item in items if isinstance(item, QueuedReminder)]
    keyed = [(slot, item_id) for slot, item_id in slots if slot is not None]
    assert len(dict(keyed)) == len(keyed), "two reminders wait in one slot"
    assert inbox._by_slot == dict(keyed)
    quotas = [quota_of(item) for item in items]
    assert inbox._by_quota == {quota: quotas.count(quota) for quota in Quota}
    shares = [(item.provenance.sender, quota_of(item)) for item in items]
    assert inbox._by_sender == {share: shares.count(share) for share in shares}
    assert not {item.id for item in items} & inbox._tombstones.keys(), "something waits and is gone"

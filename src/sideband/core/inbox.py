"""The inbox as plain indexes: accepted items that no seam has drained, and what became of earlier ones."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.events import Event, InboxItem, Queued, QueuedMessage, QueuedReminder
from sideband.core.seams import Mode
from sideband.core.trust import Provenance

# How many items that left an inbox are remembered; the oldest are forgotten first.
MAX_TOMBSTONES: Final = 4_096


class Fate(StrEnum):
    """How an item left the inbox."""

    DELIVERED = "delivered"
    WITHDRAWN = "withdrawn"


class Tombstone(NamedTuple):
    """What the inbox remembers of an item that left it; `owner` is the namespace of its sender."""

    kind: type[InboxItem]
    fate: Fate
    owner: str


class Receipt(NamedTuple):
    """The reply to an accepted reminder whose id the caller chose; a repeat gets the same reply.

    Receipts live as long as their session, so they are not part of its state: a store keeps them in rows of their own and
    puts the ones that a decision needs into `SessionState.receipts`.
    """

    sender: str
    fingerprint: str
    reminder_id: str
    deduped_count: int
    requested: dict[str, Any]
    effective: dict[str, Any]
    accepted_at: int = 0
    version: int = 1


def receipt_in(event: Event) -> tuple[str, Receipt] | None:
    """The caller's id and the receipt that an event holds; None if it holds none, or the session chose the id."""
    if not isinstance(event, Queued) or event.item.caller_id is None or event.item.fingerprint is None:
        return None
    item = event.item
    return event.item.caller_id, Receipt(
        item.provenance.sender,
        event.item.fingerprint,
        item.id,
        item.deduped_count,
        item.provenance.requested,
        item.effective,
        item.accepted_at,
        item.version,
    )


class Slot(NamedTuple):
    """At most one reminder waits in a slot; `audit_only` reminders have slots of their own."""

    namespace: str
    dedupe_key: str
    audit_only: bool


def slot_of(item: QueuedReminder) -> Slot | None:
    """The slot of a queued reminder; None without a dedupe key, when it neither displaces nor is displaced."""
    if item.reminder.dedupe_key is None:
        return None
    return Slot(item.provenance.namespace, item.reminder.dedupe_key, item.mode is Mode.AUDIT_ONLY)


class Quota(StrEnum):
    """Inbox capacity: items of these three kinds have separate limits."""

    MESSAGES = "messages"
    REMINDERS = "reminders"
    AUDIT = "audit"


def quota_of(item: InboxItem) -> Quota:
    """The limit that an item counts towards."""
    if item.waits_in is Mode.AUDIT_ONLY:
        return Quota.AUDIT
    return Quota.REMINDERS if isinstance(item, QueuedReminder) else Quota.MESSAGES


class DumpedTombstone(msgspec.Struct, frozen=True, array_like=True):
    """A tombstone as a snapshot holds it. Earlier versions of Sideband wrote a provenance instead of its namespace."""

    item_id: str
    is_message: bool
    fate: Fate
    owner: str | Provenance

    @property
    def namespace(self) -> str:
        return self.owner if isinstance(self.owner, str) else self.owner.namespace


class InboxDump(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox as a snapshot holds it."""

    items: list[InboxItem]
    tombstones: list[DumpedTombstone]


class Inbox:
    """Items in acceptance order, indexed by id, slot, mode, quota and sender."""

    def __init__(self) -> None:
        self._by_id: dict[str, InboxItem] = {}
        # None is the mode of queued user messages, which no seam drains.
        self._by_mode: dict[Mode | None, dict[str, None]] = {mode: {} for mode in (*Mode, None)}
        self._by_slot: dict[Slot, str] = {}
        self._by_quota = dict.fromkeys(Quota, 0)
        self._by_sender: dict[tuple[str, Quota], int] = {}
        self._tombstones: dict[str, Tombstone] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def items(self) -> Collection[InboxItem]:
        """All items in acceptance order."""
        return self._by_id.values()

    def get(self, item_id: str) -> InboxItem | None:
        return self._by_id.get(item_id)

    def in_slot(self, slot: Slot) -> QueuedReminder | None:
        item = self._by_id.get(self._by_slot.get(slot, ""))
        return item if isinstance(item, QueuedReminder) else None

    def waiting(self, mode: Mode | None) -> Sequence[InboxItem]:
        """The items of one mode in acceptance order; None selects the queued user messages."""
        return [self._by_id[item_id] for item_id in self._by_mode[mode]]

    def tombstone(self, item_id: str) -> Tombstone | None:
        """What became of an item that left the inbox; None if it never was there, or left it long ago."""
        return self._tombstones.get(item_id)

    def count_in(self, quota: Quota) -> int:
        return self._by_quota[quota]

    def count_from(self, sender: str, quota: Quota) -> int:
        return self._by_sender.get((sender, quota), 0)

    # Only `apply` calls the methods that change an inbox.

    def add(self, item: InboxItem) -> None:
        item_id, sender, quota = item.id, item.provenance.sender, quota_of(item)
        if isinstance(item, QueuedReminder):
            slot = slot_of(item)
            if slot is not None:
                self._by_slot[slot] = item_id
        self._by_id[item_id] = item
        self._by_mode[item.waits_in][item_id] = None
        self._by_quota[quota] += 1
        share = sender, quota
        self._by_sender[share] = self._by_sender.get(share, 0) + 1

    def remove(self, item_id: str, fate: Fate) -> None:
        item = self._by_id.pop(item_id)
        del self._by_mode[item.waits_in][item_id]
        quota = quota_of(item)
        self._by_quota[quota] -= 1
        share = item.provenance.sender, quota
        self._by_sender[share] -= 1
        if not self._by_sender[share]:
            del self._by_sender[share]
        if isinstance(item, QueuedReminder):
            slot = slot_of(item)
            if slot is not None and self._by_slot.get(slot) == item_id:
                del self._by_slot[slot]
        self._bury(item_id, Tombstone(type(item), fate, item.provenance.namespace))

    def _bury(self, item_id: str, gone: Tombstone) -> None:
        self._tombstones[item_id] = gone
        if len(self._tombstones) > MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def deliver(self, reminder_id: str, provenance: Provenance) -> None:
        """A reminder goes live or on record. One that was never queued gets a tombstone too: its id cannot be used again."""
        if reminder_id in self._by_id:
            self.remove(reminder_id, Fate.DELIVERED)
        else:
            self._bury(reminder_id, Tombstone(QueuedReminder, Fate.DELIVERED, provenance.namespace))

    def exchange(self, item: InboxItem) -> None:
        """Put the new version of a queued item in the place of the old one; key, mode and sender must be the same."""
        self._by_id[item.id] = item

    # Snapshots.

    def dump(self) -> InboxDump:
        tombstones = [
            DumpedTombstone(item_id, gone.kind is QueuedMessage, gone.fate, gone.owner)
            for item_id, gone in self._tombstones.items()
        ]
        return InboxDump(items=[*self._by_id.values()], tombstones=tombstones)

    def load(self, dump: InboxDump) -> None:
        """Fill a new inbox from a snapshot."""
        for item in dump.items:
            self.add(item)
        self._tombstones = {
            gone.item_id: Tombstone(QueuedMessage if gone.is_message else QueuedReminder, gone.fate, gone.namespace)
            for gone in dump.tombstones[-MAX_TOMBSTONES:]
        }

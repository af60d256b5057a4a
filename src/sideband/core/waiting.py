"""The inbox in memory, as plain indexes: what folding rebuilds, and what a store in memory reads."""

from collections.abc import Collection, Sequence

import msgspec

from sideband.core.inbox import Fate, Receipt, Slot, Tombstone, slot_of
from sideband.core.items import InboxItem, QueuedMessage, QueuedReminder
from sideband.core.room import Room, room_of
from sideband.core.seams import Mode
from sideband.core.trust import Provenance


class DumpedTombstone(msgspec.Struct, frozen=True, array_like=True):
    """A tombstone with the kind of its item by a word."""

    item_id: str
    is_message: bool
    fate: Fate
    provenance: Provenance


class InboxDump(msgspec.Struct, frozen=True, kw_only=True):
    """What an inbox is built from."""

    items: list[InboxItem]
    tombstones: list[DumpedTombstone]
    receipts: dict[str, Receipt]


class Inbox:
    """Items in acceptance order; looked up by id, slot, class, room and sender."""

    def __init__(self) -> None:
        self._by_id: dict[str, InboxItem] = {}
        self._by_class: dict[Mode | None, dict[str, None]] = {mode: {} for mode in (*Mode, None)}
        self._by_slot: dict[Slot, str] = {}
        self._by_room = dict.fromkeys(Room, 0)
        self._by_sender: dict[tuple[str, Room], int] = {}
        self._tombstones: dict[str, Tombstone] = {}
        self._receipts: dict[str, Receipt] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def items(self) -> Collection[InboxItem]:
        """All that waits, in acceptance order."""
        return self._by_id.values()

    def get(self, item_id: str) -> InboxItem | None:
        return self._by_id.get(item_id)

    def in_slot(self, slot: Slot) -> QueuedReminder | None:
        item = self._by_id.get(self._by_slot.get(slot, ""))
        return item if isinstance(item, QueuedReminder) else None

    def waiting(self, mode: Mode | None) -> Sequence[InboxItem]:
        return [self._by_id[item_id] for item_id in self._by_class[mode]]

    def tombstone(self, item_id: str) -> Tombstone | None:
        return self._tombstones.get(item_id)

    def receipt(self, caller_id: str) -> Receipt | None:
        return self._receipts.get(caller_id)

    def count(self) -> int:
        return len(self._by_id)

    def count_in(self, room: Room) -> int:
        return self._by_room[room]

    def count_from(self, sender: str, room: Room) -> int:
        return self._by_sender.get((sender, room), 0)

    # Changing: only `apply` does.

    def add(self, item: InboxItem) -> None:
        item_id: str
        waits_in: Mode | None
        sender, room, shares = item.provenance.sender, room_of(item), self._by_sender
        share = sender, room
        # Every journal is folded through here: what an item knows is not asked for by way of its properties.
        if isinstance(item, QueuedReminder):
            item_id, waits_in = item.reminder.id, item.mode
            slot = None if item.reminder.dedupe_key is None else slot_of(item)
            if slot is not None:
                self._by_slot[slot] = item_id
            if item.caller_id is not None and item.fingerprint is not None:
                self._receipts[item.caller_id] = Receipt(
                    sender, item.fingerprint, item_id, item.deduped_count, item.provenance.requested, item.effective
                )
        else:
            item_id, waits_in = item.message_id, item.waits_in
        self._by_id[item_id] = item
        self._by_class[waits_in][item_id] = None
        self._by_room[room] += 1
        shares[share] = shares.get(share, 0) + 1

    def remove(self, item_id: str, fate: Fate) -> None:
        item = self._by_id.pop(item_id)
        del self._by_class[item.waits_in][item_id]
        room = room_of(item)
        self._by_room[room] -= 1
        share = item.provenance.sender, room
        self._by_sender[share] -= 1
        if not self._by_sender[share]:
            del self._by_sender[share]
        if isinstance(item, QueuedReminder):
            slot = slot_of(item)
            if slot is not None and self._by_slot.get(slot) == item_id:
                del self._by_slot[slot]
        self._tombstones[item_id] = Tombstone(type(item), fate, item.provenance)

    def deliver(self, reminder_id: str, provenance: Provenance) -> None:
        """A reminder goes live; one that never waited here takes its id all the same, so that no caller can."""
        if reminder_id in self._by_id:
            self.remove(reminder_id, Fate.DELIVERED)
        else:
            self._tombstones[reminder_id] = Tombstone(QueuedReminder, Fate.DELIVERED, provenance)

    def exchange(self, item: QueuedMessage) -> None:
        """Put a new version of a waiting message in its place."""
        self._by_id[item.message_id] = item

    # Snapshots.

    def dump(self) -> InboxDump:
        tombstones = [
            DumpedTombstone(item_id, gone.kind is QueuedMessage, gone.fate, gone.provenance)
            for item_id, gone in self._tombstones.items()
        ]
        return InboxDump(items=[*self._by_id.values()], tombstones=tombstones, receipts=self._receipts)

    def load(self, dump: InboxDump) -> None:
        """Into an inbox that is new."""
        for item in dump.items:
            self.add(item)
        self._receipts = dump.receipts
        self._tombstones = {
            gone.item_id: Tombstone(QueuedMessage if gone.is_message else QueuedReminder, gone.fate, gone.provenance)
            for gone in dump.tombstones
        }

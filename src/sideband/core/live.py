"""The live reminders of one session, with indexes so that look-ups and removals take constant time."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from sideband.core.reminder import Reminder
from sideband.core.trust import Provenance


class LiveItem(msgspec.Struct, kw_only=True, gc=False):
    """A live reminder and what the session tracks about it.

    `place` is its position in transcript order. `first_turn` is the first committed turn that showed it; None if no turn
    has shown it, and then it cannot expire by TTL. `last_turn` is the last turn that may show it; None if it has no TTL
    or was not shown yet. `left_out` counts how many turns in a row the budget left it out.
    """

    reminder: Reminder
    provenance: Provenance
    place: int
    first_turn: int | None = None
    last_turn: int | None = None
    left_out: int = 0

    @property
    def id(self) -> str:
        return self.reminder.id


class LiveDump(msgspec.Struct, frozen=True, kw_only=True):
    """The live reminders as a snapshot holds them."""

    turn: int
    next_place: int
    items: list[LiveItem]


class LiveIndex:
    """Live reminders in transcript order, indexed by id, dedupe key, tag and last turn."""

    def __init__(self, *, turn: int = 0) -> None:
        self.turn = turn
        """The number of the last committed turn."""
        self.next_place = 0
        self._by_id: dict[str, LiveItem] = {}
        self._by_key: dict[str, dict[str, LiveItem]] = {}
        self._by_tag: dict[str, dict[str, LiveItem]] = {}
        self._by_last_turn: dict[int, dict[str, LiveItem]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[LiveItem]:
        return iter(self._by_id.values())

    def __contains__(self, reminder_id: object) -> bool:
        return reminder_id in self._by_id

    # Reading.

    def get(self, reminder_id: str) -> LiveItem | None:
        return self._by_id.get(reminder_id)

    def with_key(self, dedupe_key: str) -> Collection[LiveItem]:
        """Every live reminder with this dedupe key, in any namespace, oldest first."""
        return self._by_key.get(dedupe_key, {}).values()

    def with_tag(self, tag: str) -> Collection[LiveItem]:
        return self._by_tag.get(tag, {}).values()

    def due(self, turn: int) -> Collection[LiveItem]:
        """The reminders whose last turn is `turn`."""
        return self._by_last_turn.get(turn, {}).values()

    def remaining(self, item: LiveItem) -> int | None:
        """The number of further turns that may show it; None without a TTL."""
        return item.reminder.ttl_turns if item.last_turn is None else item.last_turn - self.turn

    def current(self, item: LiveItem) -> Reminder:
        """The record with the remaining TTL, as observers see it."""
        remaining = self.remaining(item)
        if remaining == item.reminder.ttl_turns:
            return item.reminder
        return msgspec.structs.replace(item.reminder, ttl_turns=remaining)

    # Only `apply` calls the methods that change an index.

    def add(self, reminder: Reminder, provenance: Provenance) -> LiveItem:
        item = LiveItem(reminder=reminder, provenance=provenance, place=self.next_place)
        self.next_place += 1
        self._index(item)
        return item

    def _index(self, item: LiveItem) -> None:
        reminder = item.reminder
        self._by_id[reminder.id] = item
        if reminder.dedupe_key is not None:
            self._by_key.setdefault(reminder.dedupe_key, {})[reminder.id] = item
        for tag in reminder.tags:
            self._by_tag.setdefault(tag, {})[reminder.id] = item

    def remove(self, reminder_id: str) -> None:
        item = self._by_id.pop(reminder_id)
        if item.reminder.dedupe_key is not None:
            _discard(self._by_key, item.reminder.dedupe_key, reminder_id)
        for tag in item.reminder.tags:
            _discard(self._by_tag, tag, reminder_id)
        if item.last_turn is not None:
            _discard(self._by_last_turn, item.last_turn, reminder_id)

    def show(self, item: LiveItem, turn: int) -> None:
        """A committed turn showed it. The first showing sets its last turn."""
        item.left_out = 0
        if item.first_turn is None:
            item.first_turn = turn
            if item.reminder.ttl_turns is not None:
                self._set_last_turn(item, turn + item.reminder.ttl_turns - 1)

    def leave_out(self, item: LiveItem) -> None:
        """The budget left it out of a committed turn, so it may be shown one turn longer."""
        item.left_out += 1
        if item.last_turn is not None:
            self._set_last_turn(item, item.last_turn + 1)

    def lower(self) -> None:
        """A compaction takes one turn from every reminder that has a TTL and was shown."""
        for item in tuple(self):
            if item.last_turn is not None:
                self._set_last_turn(item, item.last_turn - 1)

    def _set_last_turn(self, item: LiveItem, last_turn: int) -> None:
        if item.last_turn is not None:
            _discard(self._by_last_turn, item.last_turn, item.id)
        item.last_turn = last_turn
        self._by_last_turn.setdefault(last_turn, {})[item.id] = item

    # Snapshots.

    def dump(self) -> LiveDump:
        return LiveDump(turn=self.turn, next_place=self.next_place, items=[*self])

    def load(self, dump: LiveDump) -> None:
        """Fill a new index from a snapshot."""
        self.turn = dump.turn
        self.next_place = dump.next_place
        for item in dump.items:
            self._index(item)
            if item.last_turn is not None:
                self._by_last_turn.setdefault(item.last_turn, {})[item.id] = item


def _discard(index: dict[Any, dict[str, LiveItem]], key: object, reminder_id: str) -> None:
    entries = index[key]
    del entries[reminder_id]
    if not entries:
        del index[key]

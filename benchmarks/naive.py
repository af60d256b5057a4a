"""What one would write first: a single list, and every operation goes through it."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from sideband.core.reminder import Draft, Reminder, ReminderId, Source, mint


class Entry(msgspec.Struct, kw_only=True):
    """A pending reminder; `remaining=None` never expires."""

    reminder: Reminder
    remaining: int | None


class NaiveList:
    """Keeps no events, namespaces or tombstones: only what the operations themselves cannot do without."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    # What is timed.

    def inject(self, reminder: Reminder) -> int:
        key = reminder.dedupe_key
        kept = [entry for entry in self._entries if key is None or entry.reminder.dedupe_key != key]
        replaced = self._exchange(kept)
        self._entries.append(Entry(reminder=reminder, remaining=reminder.ttl_turns))
        return replaced

    def accept(self, draft: Draft, new_id: str) -> int:
        return self.inject(mint(draft, reminder_id=ReminderId(new_id), source=Source.BRIDGE))

    def end_turn(self) -> int:
        for entry in self._entries:
            if entry.remaining is not None:
                entry.remaining -= 1
        return self._exchange([entry for entry in self._entries if entry.remaining != 0])

    def clear(self, tag: str) -> int:
        return self._exchange([entry for entry in self._entries if tag not in entry.reminder.tags])

    def revoke(self, reminder_id: str) -> int:
        for place, entry in enumerate(self._entries):
            if entry.reminder.id == reminder_id:
                del self._entries[place]
                return 1
        return 0

    def listing(self) -> Sequence[Reminder]:
        return [
            entry.reminder
            if entry.remaining == entry.reminder.ttl_turns
            else msgspec.structs.replace(entry.reminder, ttl_turns=entry.remaining)
            for entry in self._entries
        ]

    def _exchange(self, kept: list[Entry]) -> int:
        removed = len(self._entries) - len(kept)
        self._entries = kept
        return removed

    # What is not.

    def load(self, reminders: Iterable[Reminder]) -> None:
        """Live and shown in one turn."""
        self._entries.extend(Entry(reminder=reminder, remaining=reminder.ttl_turns) for reminder in reminders)
        self.end_turn()

    def enqueue(self, drafts: Iterable[Draft], new_id: Callable[[], str]) -> None:
        for draft in drafts:
            reminder = mint(draft, reminder_id=ReminderId(new_id()), source=Source.BRIDGE)
            self._entries.append(Entry(reminder=reminder, remaining=reminder.ttl_turns))

    def begin_turn(self) -> None:
        """Whatever is in the list is shown in every turn."""

    def withdraw(self, reminder_id: str) -> None:
        self.revoke(reminder_id)

    def ids_by_key(self) -> dict[str | None, str]:
        return {entry.reminder.dedupe_key: entry.reminder.id for entry in self._entries}

"""The reminders of one server that wait for room in a session: the newest for each key, in bounded memory."""

from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.reminder import Draft

MAX_KEYS: Final = 64
"""How many keys a hold keeps."""
# A newer version of a reminder that waits in the inbox is accepted at any time, so it is kept beyond the limit. A session
# keeps far fewer reminders of one server.
RECENT_KEYS: Final = 16


ReminderKey: TypeAlias = tuple[bool, str]
"""What a newer reminder must have in common with an older one to replace it; the first part tells ids from keys."""


class Arrival(NamedTuple):
    """A reminder as it came from a server. Without a dedupe key of its own it is `is_keyless`; its id is then its key."""

    draft: Draft
    meta: Mapping[str, Any]
    is_keyless: bool

    @property
    def key(self) -> ReminderKey:
        return self.is_keyless, self.draft.dedupe_key or ""


class Hold:
    """Keeps the newest reminder for each key.

    What is new is offered first, in the order of arrival; what was refused for want of room is offered again, the oldest
    first. `left_out` counts the reminders with a key for which there was no place.
    """

    def __init__(self) -> None:
        self._new: dict[ReminderKey, Arrival] = {}
        self._refused: dict[ReminderKey, Arrival] = {}
        # The keys that were accepted last, as an ordered set.
        self._recent: dict[ReminderKey, None] = {}
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._refused)

    def add(self, arrival: Arrival) -> bool:
        """Keep a reminder, which replaces an older one of the same key; False if there is no place for it.

        A reminder without a key has a place only while nothing waits for room.
        """
        key = arrival.key
        self._refused.pop(key, None)
        is_newer = key in self._new or key in self._recent
        if not is_newer and len(self) >= MAX_KEYS and not arrival.is_keyless:
            self._make_place()
        if not is_newer and (len(self) >= MAX_KEYS or (arrival.is_keyless and self._refused)):
            self.left_out += not arrival.is_keyless
            return False
        self._new[key] = arrival
        return True

    def _make_place(self) -> None:
        """Leave out the oldest reminder without a key, if there is one: keyed ones say how something is now."""
        keyless = next((key for key, waiting in self._new.items() if waiting.is_keyless), None)
        if keyless is not None:
            del self._new[keyless]

    def first_new(self, postponed: Container[ReminderKey] = ()) -> Arrival | None:
        """Take the next reminder that was not offered yet and whose key is not postponed."""
        key = next((key for key in self._new if key not in postponed), None)
        return None if key is None else self._new.pop(key)

    def first_refused(self) -> Arrival | None:
        """Take the reminder that has waited for room the longest."""
        return self._refused.pop(next(iter(self._refused))) if self._refused else None

    @property
    def new_count(self) -> int:
        return len(self._new)

    def is_recent(self, arrival: Arrival) -> bool:
        """Whether an older version of this reminder was accepted a short time ago, and so may still wait in the inbox."""
        return arrival.key in self._recent

    @property
    def has_refused(self) -> bool:
        return bool(self._refused)

    def refused(self, arrival: Arrival, *, again: bool) -> None:
        """Keep a reminder that was offered and refused for want of room, unless a newer one has come meanwhile.

        One that was refused `again` keeps its place in front of the others.
        """
        if arrival.key in self._new:
            return
        others = self._refused
        self._refused = {arrival.key: arrival, **others} if again else {**others, arrival.key: arrival}

    def accepted(self, arrival: Arrival) -> None:
        """Remember that this reminder is in the inbox now."""
        self._recent.pop(arrival.key, None)
        self._recent[arrival.key] = None
        if len(self._recent) > RECENT_KEYS:
            del self._recent[next(iter(self._recent))]

    def take_all(self) -> list[Arrival]:
        """Empty the hold; what has waited longest comes first."""
        found = [*self._refused.values(), *self._new.values()]
        self._refused.clear()
        self._new.clear()
        return found

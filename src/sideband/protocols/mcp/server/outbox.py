"""The reminders that wait for one client: bounded, merged by dedupe key, and with a count of those that had no room."""

import asyncio
from typing import Final

from sideband.protocols.mcp.messages import ReminderParams, ReminderSpec
from sideband.runtime.system import new_id

CAPACITY: Final = 64
LEFT_OUT_KEY: Final = "reminders:left_out"
UNHEARD_SECONDS: Final = 60.0


class Outbox:
    """A queue whose producers never wait.

    A newer reminder takes the place of a waiting one with the same dedupe key, or with the same id if it has no key.
    When the queue is full, the oldest reminder is left out. The consumer then gets a notice with their number before
    anything else.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        # In the order of delivery.
        self._waiting: dict[tuple[str | None, str], ReminderParams] = {}
        self._left_out = 0
        self.is_closed = False
        self._changed = asyncio.Event()

    def put(self, params: ReminderParams) -> None:
        """Add a reminder; it is dropped if the outbox is closed."""
        if self.is_closed:
            return
        self.withdraw(params)
        self._waiting[_key(params)] = params
        if len(self._waiting) > self._capacity:
            del self._waiting[next(iter(self._waiting))]
            self._left_out += 1
        self._changed.set()

    def withdraw(self, params: ReminderParams) -> None:
        """Remove the waiting reminder that this one takes the place of, if there is one."""
        self._waiting.pop(_key(params), None)

    @property
    def has_overflowed(self) -> bool:
        """Whether reminders were left out, and the consumer has not read their number yet."""
        return self._left_out > 0

    def take(self) -> ReminderParams | None:
        """The next reminder, or None if nothing waits."""
        if self._left_out:
            count, self._left_out = self._left_out, 0
            return _left_out_notice(count)
        if self._waiting:
            return self._waiting.pop(next(iter(self._waiting)))
        return None

    async def get(self) -> ReminderParams | None:
        """Wait for the next reminder; None if the outbox is closed and nothing is left in it."""
        while (params := self.take()) is None and not self.is_closed:
            self._changed.clear()
            await self._changed.wait()
        return params

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self._left_out = 0

    def close(self) -> None:
        """Take no more reminders; those that wait can still be read."""
        self.is_closed = True
        self._changed.set()


class Unheard:
    """What was emitted while no client could be reached: the newest of each key, for a short time.

    A watcher that starts with its server often has a result before the first client listens.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str | None, str], tuple[float, ReminderParams]] = {}

    def put(self, params: ReminderParams, *, now: float) -> None:
        """Keep a reminder; beyond `CAPACITY`, the oldest one is forgotten."""
        self._kept.pop(_key(params), None)
        self._kept[_key(params)] = now, params
        if len(self._kept) > CAPACITY:
            del self._kept[next(iter(self._kept))]

    def take(self, *, now: float) -> list[ReminderParams]:
        """Everything that is not too old, for a client that can be reached now."""
        found = [params for at, params in self._kept.values() if now - at <= UNHEARD_SECONDS]
        self._kept.clear()
        return found


def _key(params: ReminderParams) -> tuple[str | None, str]:
    reminder = params.reminder
    return (None, reminder.id) if reminder.dedupe_key is None else (reminder.dedupe_key, "")


def _left_out_notice(count: int) -> ReminderParams:
    were = "1 reminder was" if count == 1 else f"{count:,} reminders were"
    body = f"{were} left out because this client did not read its reminders in time."
    return ReminderParams(reminder=ReminderSpec(id=new_id(), body=body, dedupe_key=LEFT_OUT_KEY, ttl_turns=1))

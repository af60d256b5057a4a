"""What an agent reports: streams of its updates for readers in this process, and the reminder updates among them."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import msgspec

from sideband.core.reminder import Source
from sideband.logs import LOG
from sideband.protocols.acp.messages import ReminderEmitted, ReminderUpdate
from sideband.protocols.acp.methods import member
from sideband.protocols.wire import OUTWARD, SourceWord

# How much a stream keeps for a reader that is slower than the agent. A reader that stops reading costs no more memory.
MAX_KEPT_UPDATES: Final = 10_000
MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
# How many reminders are remembered that an agent reported on other updates, so that each is reported once.
_REMEMBERED: Final = 1_024

_ItemT = TypeVar("_ItemT")


class UpdatesLost(Exception):
    """A reader was too slow, so its stream ended; updates are missing after those that it has read."""

    code: ClassVar[str] = "SIDEBAND-506"

    def __init__(self) -> None:
        super().__init__(
            f"more than {MAX_KEPT_UPDATES:,} updates or {MAX_KEPT_BYTES:,} bytes were not read, so the stream has ended; "
            "read it in a task of its own, or load the session again"
        )


class UpdateStream(Generic[_ItemT]):
    """Updates of an agent from the moment at which the stream was made, in their order.

    It ends when it is closed, or when the connection is closed. If the agent ends first, the reader gets that error.
    """

    def __init__(self, select: Callable[[str, dict[str, Any]], Iterable[_ItemT]]) -> None:
        self._select = select
        self._items: deque[tuple[_ItemT, int]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self.is_over = False

    def feed(self, session_id: str, update: dict[str, Any], size: int) -> None:
        """Add an update of `size` bytes."""
        for item in () if self.is_over else self._select(session_id, update):
            if len(self._items) >= MAX_KEPT_UPDATES or (self._items and self._bytes + size > MAX_KEPT_BYTES):
                self.close(UpdatesLost())
                return
            self._items.append((item, size))
            self._bytes += size
            self._changed.set()

    def close(self, error: Exception | None = None) -> None:
        """End the stream after what it holds; with `error`, a reader gets that error at the end."""
        if not self.is_over:
            self.is_over = True
            self._error = error
            self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _ItemT:
        while not self._items:
            if self.is_over:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        item, size = self._items.popleft()
        self._bytes -= size
        return item


# Reminder updates.

# A tuple, because an agent may send a value here that has no hash.
_KINDS: Final = ("reminder_emitted", "reminder_deduped", "reminder_expired")


class ReminderReader:
    """Finds the reminder updates among the updates of a connection.

    Agents send them by their own names, inside a `session_info_update`, or, before the proposals, as a record on the
    updates of messages and tool calls.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], None] = {}

    def read(self, session_id: str, update: dict[str, Any]) -> ReminderUpdate | None:
        """The reminder update in this update; None if it has none that can be read."""
        if update.get("sessionUpdate") in _KINDS:
            return _convert(update)
        carried = member(update, "_meta", "sideband", "update")
        if isinstance(carried, dict):
            return _convert(carried)
        record = member(update, "_meta", "harn", "reminder")
        return self._once(session_id, _from_record(record)) if isinstance(record, dict) else None

    def _once(self, session_id: str, emitted: ReminderEmitted | None) -> ReminderEmitted | None:
        if emitted is None or (session_id, emitted.reminder_id) in self._seen:
            return None
        self._seen[session_id, emitted.reminder_id] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return emitted


def _convert(update: dict[str, Any]) -> ReminderUpdate | None:
    # The envelope is an addition, so an update with one that cannot be read is still an update.
    for form in (update, {name: value for name, value in update.items() if name != "_meta"}):
        try:
            read: ReminderUpdate = msgspec.convert(form, type=ReminderUpdate)
        except msgspec.ValidationError as error:
            problem = error
        else:
            return read
    LOG.warning("the agent sent a %s that cannot be read: %s", update.get("sessionUpdate"), problem)
    return None


def _from_record(record: dict[str, Any]) -> ReminderEmitted | None:
    reminder_id, body, source = record.get("id"), record.get("body"), record.get("source")
    if not isinstance(reminder_id, str) or not isinstance(body, str):
        return None
    word = OUTWARD[Source(source)] if source in tuple(Source) else SourceWord.BRIDGE
    key, turn, tags = record.get("dedupe_key"), record.get("fired_at_turn"), record.get("tags")
    return ReminderEmitted(
        reminder_id=reminder_id,
        body=body,
        source=word,
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else None,
        dedupe_key=key if isinstance(key, str) else None,
        fired_at_turn=turn if isinstance(turn, int) else None,
    )

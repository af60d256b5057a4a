"""Reminders for a task of a peer: what becomes of them, how they are lowered to fit, and those that wait for a message."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sideband.core.errors import TooManyPending
from sideband.core.reminder import Draft
from sideband.core.surfaces import LIFECYCLE, Case, spelled
from sideband.core.trust import REACHES, ROLE_HINTS
from sideband.protocols.a2a.client.capabilities import CardReminders
from sideband.protocols.wire import fitted

# How many reminders of a connection wait for a message.
MAX_HELD: Final = 64

_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})
_SNAKE: Final[Mapping[str, str]] = MappingProxyType({spelled(name, Case.CAMEL): name for name in (*LIFECYCLE, "mode")})


class TaskFallback(StrEnum):
    """What happens to a reminder if the peer does not support reminders.

    It is dropped, or it goes with the next message to its task, as `metadata.harn.reminder`. Agents that predate the
    method read it; others ignore it.
    """

    SUPPRESS = "suppress"
    NEXT_MESSAGE = "next_message"


class TaskReminderRoute(StrEnum):
    """The way that a reminder went."""

    ACCEPTED = "accepted"
    SUPPRESSED = "suppressed"
    WITH_NEXT_MESSAGE = "with_next_message"


class TaskReminded(NamedTuple):
    """What became of a reminder; only one that the peer accepted has an id and a time.

    `requested` and `effective` hold the fields that were lowered to what the peer allows, before and after.
    """

    route: TaskReminderRoute
    reminder_id: str | None = None
    deduped_count: int = 0
    accepted_at: str | None = None
    requested: Mapping[str, Any] = _NO_FIELDS
    effective: Mapping[str, Any] = _NO_FIELDS


# Reminders that wait.


class HeldReminders:
    """The reminders of a connection that go with the next messages to their tasks; a message has room for one."""

    def __init__(self) -> None:
        self._by_task: dict[str, dict[object, dict[str, Any]]] = {}

    def hold(self, task_id: str, reminder: dict[str, Any], dedupe_key: str | None) -> int:
        """Hold a reminder; return how many of the same key it replaces."""
        held = self._by_task.get(task_id, {})
        key = object() if dedupe_key is None else dedupe_key
        count = sum(map(len, self._by_task.values()))
        if key not in held and count >= MAX_HELD:
            raise TooManyPending(count, MAX_HELD, scope="connection", remedy="send a message to their tasks first")
        replaced = held.pop(key, None)
        self._by_task[task_id] = {**held, key: reminder}
        return 0 if replaced is None else 1

    def take(self, task_id: str) -> "HeldReminder | None":
        """Take the oldest reminder for a task; None if there is none."""
        held = self._by_task.get(task_id)
        if not held:
            return None
        key = next(iter(held))
        taken = HeldReminder(task_id, key, held.pop(key))
        if not held:
            del self._by_task[task_id]
        return taken

    def drop(self, task_id: str) -> None:
        """Drop the reminders for a task that is over."""
        self._by_task.pop(task_id, None)

    def put_back(self, taken: "HeldReminder") -> None:
        """Hold a reminder again whose message was not accepted, unless a newer one replaces it."""
        self._by_task[taken.task_id] = {taken.key: taken.reminder, **self._by_task.get(taken.task_id, {})}


class HeldReminder(NamedTuple):
    """A reminder that goes with a message."""

    task_id: str
    key: object
    reminder: dict[str, Any]


# Fields.


def lowered(draft: Draft, peer: CardReminders) -> dict[str, Any]:
    """The hints of a reminder that are above what the peer advertises, with the values that it gets."""
    fits = {
        "propagate": fitted(draft.propagate, peer.propagate, REACHES),
        "role_hint": fitted(draft.role_hint, peer.role_hints, ROLE_HINTS),
    }
    return {name: word for name, word in fits.items() if word != getattr(draft, name)}


def in_snake_case(fields: object) -> dict[str, Any]:
    return {_SNAKE.get(name, name): value for name, value in fields.items()} if isinstance(fields, dict) else {}

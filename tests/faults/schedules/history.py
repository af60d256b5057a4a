"""The outcome of a schedule, read from its journal independently of the code that wrote it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from sideband.core.events import (
    AuditRecorded,
    Closed,
    Compacted,
    Deduped,
    Dropped,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    InjectAccepted,
    InjectDelivered,
    Injected,
    InjectReplaced,
    InjectRevoked,
    Queued,
    RequestCommitted,
    ResultRecorded,
    Revoked,
    TurnCommitted,
)
from sideband.core.reminder import Reminder
from sideband.core.seams import Mode
from tests.faults.schedules.world import World

_Event = TypeVar("_Event", bound=Event)


class Exit(NamedTuple):
    """An item left the inbox, or ended: at which event of the journal, and how."""

    at: int
    how: str


class Item:
    """All that the journal says of one reminder or message. `accepted=None`: a hook's, which never waited."""

    def __init__(self, item_id: str, waits_in: Mode | None, *, accepted: int | None, is_message: bool) -> None:
        self.id = item_id
        self.waits_in = waits_in
        self.accepted = accepted
        self.is_message = is_message
        self.versions: list[Any] = []
        self.delivered: Any = None
        self.exits: list[Exit] = []
        self.ends: list[Exit] = []
        self.ttl: int | None = None
        self.preserved = False
        self.shown = 0
        """In how many committed turns."""
        self.lowered = 0
        """How many compactions it lived through after it was shown, or ended at one by its TTL."""

    @property
    def steers(self) -> bool:
        """Whether a running turn takes it."""
        return self.waits_in in (Mode.FINISH_STEP, Mode.INTERRUPT_IMMEDIATE)

    @property
    def interrupts(self) -> bool:
        return self.waits_in is Mode.INTERRUPT_IMMEDIATE

    def waits(self, at: int) -> bool:
        """Whether it waited in the inbox before this event of the journal."""
        return self.accepted is not None and self.accepted < at and not (self.exits and self.exits[0].at < at)

    def lives(self, at: int) -> bool:
        """Whether it was live before this event."""
        arrived = bool(self.exits) and self.exits[0].how == "drained" and self.exits[0].at < at
        return arrived and not (self.ends and self.ends[0].at < at)


class Opening(NamedTuple):
    """A request on record: the conversation as it was then, and the reminders that fired."""

    at: int
    turn: int
    messages: Sequence[dict[str, Any]]
    fired: list[str]


class History:
    """A schedule that is over."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.events = [logged.event for logged in world.store.journal]
        self.items: dict[str, Item] = {}
        self.labels: dict[str, Item] = {}
        self.openings: list[Opening] = []
        self.closed_at = len(self.events)
        self._messages: list[dict[str, Any]] = []
        for start, commit in self.commits():
            if any(isinstance(event, Closed) for event in commit):
                self.closed_at = min(self.closed_at, start)
        for at, event in enumerate(self.events):
            self._read(at, event)
        self._shown = self._find_shown()

    def of(self, *kinds: type[_Event]) -> Iterator[tuple[int, _Event]]:
        """The events of these kinds, each with its place in the journal."""
        return ((at, event) for at, event in enumerate(self.events) if isinstance(event, kinds))

    def commits(self) -> Iterator[tuple[int, tuple[Event, ...]]]:
        """What was committed together, with the place of its first event."""
        at = 0
        for commit in self.world.store.commits:
            yield at, commit
            at += len(commit)

    def is_shown(self, item: Item, *, by: int | None = None) -> bool:
        """Whether a request contains it, one that left before this event of the journal if one is named."""
        left = [self._shown[text] for text in map(_key, item.versions) if text in self._shown]
        return bool(left) and (by is None or min(left) <= by)

    def _find_shown(self) -> dict[object, int]:
        """Each text that a request contains, with the moment at which the first such request left."""
        found: dict[object, int] = {}
        for sent in self.world.model.sent:
            for message in sent.request.messages:
                if message["role"] == "user":
                    found.setdefault(_key(message["content"]), sent.at)
            for reminder in sent.request.reminders:
                found.setdefault(reminder.split("\n")[1], sent.at)
        return found

    # Reading.

    def _read(self, at: int, event: Event) -> None:
        match event:
            case Queued(item=queued):
                item = Item(queued.id, queued.mode, accepted=at, is_message=False)
                self._add(item, queued.reminder)
            case InjectAccepted(item=message):
                item = self.items[message.id] = Item(message.id, message.waits_in, accepted=at, is_message=True)
                item.versions.append(message.content)
                self.labels[message.content[0]["text"].partition(" ")[0]] = item
            case InjectReplaced(message_id=message_id, content=content):
                self.items[message_id].versions.append(content)
            case Injected(reminder=reminder):
                if reminder.id not in self.items:
                    self._add(Item(reminder.id, None, accepted=None, is_message=False), reminder)
                self.items[reminder.id].exits.append(Exit(at, "drained"))
            case _:
                self._end(at, event)
                self._turn(at, event)

    def _add(self, item: Item, reminder: Reminder) -> None:
        item.ttl = reminder.ttl_turns
        item.preserved = reminder.preserve_on_compact
        item.versions.append(reminder.body)
        self.items[item.id] = item
        self.labels[reminder.body] = item

    def _end(self, at: int, event: Event) -> None:
        match event:
            case InjectDelivered(message_id=item_id, content=content):
                self._leave(item_id, at, "delivered")
                self.items[item_id].delivered = content
            case AuditRecorded(reminder=reminder):
                self._leave(reminder.id, at, "recorded")
            case Revoked(reminder_id=item_id) | InjectRevoked(message_id=item_id, reason=None):
                self._leave(item_id, at, "revoked")
            case InjectRevoked(message_id=item_id) | Dropped(reminder_id=item_id):
                self._leave(item_id, at, "dropped")
            case Deduped(replaced_id=item_id) if not self.items[item_id].exits:
                self._leave(item_id, at, "displaced")
            case Deduped(replaced_id=item_id):
                self.items[item_id].ends.append(Exit(at, "replaced"))
            case Expired(reminder_id=item_id) if not self.items[item_id].exits:
                self._leave(item_id, at, "cleared")
            case Expired(reminder_id=item_id, reason=reason):
                self.items[item_id].ends.append(Exit(at, reason.value))
                self.items[item_id].lowered += reason is ExpiryReason.TTL and event.boundary is not None
            case _:
                pass

    def _leave(self, item_id: str, at: int, how: str) -> None:
        self.items[item_id].exits.append(Exit(at, how))
        self.items[item_id].ends.append(Exit(at, how))

    def _turn(self, at: int, event: Event) -> None:
        match event:
            case InjectDelivered(message_id=message_id, content=content, audit_only=False):
                self._messages.append({"role": "user", "id": message_id, "content": list(content)})
            case ResultRecorded(message=message):
                self._messages.append(message)
            case RequestCommitted(attempt=1):
                self.openings.append(Opening(at, event.turn, tuple(self._messages), []))
            case Fired(reminder_id=reminder_id):
                self.openings[-1].fired.append(reminder_id)
            case TurnCommitted(reply=reply):
                self._messages.append(reply or {})
                for reminder_id in self.openings[-1].fired:
                    self.items[reminder_id].shown += 1
            case Compacted(messages=messages):
                self._messages = list(messages or ())
                for item in self.items.values():
                    item.lowered += item.lives(at) and item.shown > 0
            case _:
                pass


def _key(content: Any) -> object:  # noqa: ANN401 - the body of a reminder or the blocks of a message
    """A text as a dictionary can find it; of a message the first block is enough, since no two begin alike."""
    return content if isinstance(content, str) else content[0]["text"]

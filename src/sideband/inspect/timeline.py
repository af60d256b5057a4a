"""The timeline of a session: its turns, and what became of each message and reminder.

`history.py` reads it, and `timeline_fold.py` applies updates to it.

A place on the time axis is a number: turn n covers the places from n up to n + 1. An update before the first request is at
0.9. While the request of turn n is open, updates are at n + 0.4; from its reply on at n + 0.6, and from the first result
of its tools on at n + 0.8. When a request is voided, the time goes back to the end of the turn before it.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from sideband.core.errors import InvalidOption
from sideband.core.limits import Bound
from sideband.core.reminder import Reminder
from sideband.core.trust import Provenance
from sideband.core.updates import UpdateKind
from sideband.inspect.update_json import sender_json

BEFORE_ALL: Final = 0.9
"""The place before the first request."""
OPENED: Final = 0.4
REPLIED: Final = 0.6
RAN: Final = 0.8


# The records. Fields with their default are left out of the JSON.


class _TimelineRow(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """The base of the records that later updates change."""


class _FixedRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of the records that stay as they are."""


class TurnState(StrEnum):
    OPEN = "open"
    COMMITTED = "committed"
    VOID = "void"


class MessageState(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    REVOKED = "revoked"


class ReminderState(StrEnum):
    """The states of a reminder; all except the first two are ends."""

    QUEUED = "queued"
    LIVE = "live"
    EXPIRED = "expired"
    CLEARED = "cleared"
    COMPACTED_OUT = "compacted_out"
    DEDUPED = "deduped"
    REVOKED = "revoked"
    DROPPED = "dropped"
    AUDIT_RECORDED = "audit_recorded"


PENDING: Final = frozenset({ReminderState.QUEUED, ReminderState.LIVE})


class AxisPlace(_FixedRow, frozen=True):
    """When something happened: a place on the axis, its turn (0: before the first one), and the time in milliseconds.

    `seam` is where a reminder was drained, and `boundary` names the boundary at which one ended.
    """

    at: float
    turn: int
    time: int | None = None
    seam: str | None = None
    boundary: str | None = None


class RowSender(_FixedRow, frozen=True):
    """Where a reminder or a message came from; see `Provenance`."""

    trust: str
    principal: str | None = None
    provider_id: str | None = None
    via: str | None = None
    requested: dict[str, Any] = {}
    claims: dict[str, Any] = {}
    meta: dict[str, Any] = {}


class CallRow(_TimelineRow):
    """A tool call of a turn. `status`, `text` and `bytes` are those of its result; None while it has none.

    `text` holds at most `MAX_OUTPUT_CHARACTERS` of the result, and `bytes` counts all of it in UTF-8.
    """

    id: str
    name: str
    args: dict[str, Any]
    status: str | None = None
    text: str | None = None
    bytes: int | None = None


class ToldRow(_FixedRow, frozen=True):
    """A reminder whose text a request contains, and the role of the message that carries it."""

    id: str
    role: str
    via: str | None = None


class TurnRow(_TimelineRow):
    """One request with its reply. After a void, the next request is another row with the same number.

    `told` are the reminders whose text is new in the request, `still` those that the model reads in earlier messages, and
    `left_out` those that exceeded the budget. `skipped_by` are the items that skipped its tool batch (None: it was not
    skipped).
    """

    turn: int
    cursor: int
    state: TurnState
    attempt: int
    text: str
    calls: list[CallRow]
    told: list[ToldRow]
    still: list[str]
    left_out: list[str]
    time: int | None = None
    reply_id: str | None = None
    usage: dict[str, int] | None = None
    skipped_by: list[str] | None = None


class MessageRow(_TimelineRow):
    """A message that was sent to the session, or that it was begun with; `other_blocks` counts blocks other than text."""

    id: str
    cursor: int
    role: str
    state: MessageState
    at: float
    text: str
    mode: str | None = None
    other_blocks: int = 0
    audit_only: bool = False
    reason: str | None = None
    revision: int | None = None
    sender: RowSender | None = None
    time: int | None = None
    delivered_at: float | None = None
    delivered_cursor: int | None = None


class Showing(_FixedRow, frozen=True):
    """A turn whose request shows a reminder; `carried` if its text was already part of the conversation.

    `role` is empty if it is not known, because the events that tell it are no longer kept.
    """

    turn: int
    role: str
    via: str | None = None
    carried: bool = False


class ReminderRow(_TimelineRow):
    """What became of one reminder.

    `ttl_turns` is its TTL when it was first seen, and `ttl_left` what was last known to be left of it. `cursor` is the
    position of its first update; 0 if that is no longer kept, and then `queued`, `live` and `body` may be missing.
    With `at_the_door` it was refused and never part of the session: `count` refusals are one row, whose id may be that of
    an accepted reminder.
    """

    id: str
    cursor: int
    state: ReminderState
    body: str
    tags: tuple[str, ...]
    preserve_on_compact: bool
    shown: list[Showing]
    left_out: list[int]
    dedupe_key: str | None = None
    ttl_turns: int | None = None
    ttl_left: int | None = None
    propagate: str | None = None
    role_hint: str | None = None
    source: str | None = None
    originating_agent_id: str | None = None
    sender: RowSender | None = None
    mode: str | None = None
    reason: str | None = None
    replaced_by: str | None = None
    inherited: bool = False
    at_the_door: bool = False
    count: int = 1
    queued: AxisPlace | None = None
    live: AxisPlace | None = None
    ended: AxisPlace | None = None

    @property
    def is_pending(self) -> bool:
        return self.state in PENDING


class CompactionRow(_FixedRow, frozen=True):
    """A compaction of the conversation after a turn."""

    cursor: int
    turn: int
    archived_messages: int
    at: float
    time: int | None = None


class Timeline(_TimelineRow):
    """What happened in a session up to `cursor`, oldest first.

    `since` is the cursor after which everything is kept; 0 if the whole history is. `earlier_turns` counts the turns that
    are left out on request. `turn` is the last committed one, and `open_turn` the one whose reply is awaited (None: none
    is). `permissions` are the ids of the open questions.
    """

    session_id: str
    cursor: int
    since: int
    earlier_turns: int
    running: bool
    closed: bool
    turn: int
    open_turn: int | None
    turns: list[TurnRow]
    messages: list[MessageRow]
    reminders: list[ReminderRow]
    compactions: list[CompactionRow]
    permissions: list[str]
    records: dict[str, Any]

    def to_json(self) -> str:
        """The timeline as JSON text, which `from_json` reads again."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str | bytes) -> "Timeline":
        """The timeline that `to_json` has written; `InvalidOption` if the text is not one."""
        try:
            return msgspec.json.decode(text, type=Timeline)
        except (msgspec.DecodeError, ValueError) as error:
            raise InvalidOption(f"this is not a timeline: {error}", field="text") from None


def empty_timeline(session_id: str, *, since: int = 0) -> Timeline:
    """The timeline of a session before its first update."""
    return Timeline(
        session_id=session_id,
        cursor=since,
        since=since,
        earlier_turns=0,
        running=False,
        closed=False,
        turn=0,
        open_turn=None,
        turns=[],
        messages=[],
        reminders=[],
        compactions=[],
        permissions=[],
        records={},
    )


def new_turn(turn: int, state: TurnState, *, cursor: int = 0, time: int | None = None) -> TurnRow:
    return TurnRow(
        turn=turn, cursor=cursor, state=state, attempt=1, text="", calls=[], told=[], still=[], left_out=[], time=time
    )


def new_reminder(reminder_id: str, state: ReminderState, *, cursor: int = 0) -> ReminderRow:
    return ReminderRow(
        id=reminder_id,
        cursor=cursor,
        state=state,
        body="",
        tags=(),
        preserve_on_compact=False,
        shown=[],
        left_out=[],
    )


def place_of(timeline: Timeline) -> float:
    """The place on the axis at which the next update happens."""
    if not timeline.turns:
        return timeline.turn + REPLIED if timeline.turn else BEFORE_ALL
    last = timeline.turns[-1]
    match last.state:
        case TurnState.OPEN:
            return last.turn + OPENED
        case TurnState.VOID:
            return last.turn - 1 + RAN if last.turn > 1 else BEFORE_ALL
        case TurnState.COMMITTED:
            return last.turn + (RAN if any(call.status is not None for call in last.calls) else REPLIED)


def keep_last(timeline: Timeline, turns: int) -> None:
    """Leave out all but the last `turns` turns, with the messages, compactions and reminders that had ended before them."""
    Bound(1).check("turns", turns)
    if len(timeline.turns) <= turns:
        return
    timeline.earlier_turns += len(timeline.turns) - turns
    timeline.turns = timeline.turns[-turns:]
    first = timeline.turns[0].turn
    # What was said since the last reply before the window is what its first request answers.
    since_reply = first - 1 + REPLIED if first > 1 else 0.0
    timeline.messages = [
        row
        for row in timeline.messages
        if row.state is MessageState.WAITING
        or (row.at if row.delivered_at is None else row.delivered_at) >= since_reply
    ]
    timeline.compactions = [row for row in timeline.compactions if row.at >= since_reply]
    # A void turn may have shown one that ended, by the axis, before its number was used again.
    named = {
        name for turn in timeline.turns for name in (*(told.id for told in turn.told), *turn.still, *turn.left_out)
    }
    timeline.reminders = [
        row for row in timeline.reminders if row.ended is None or row.ended.at >= first or row.id in named
    ]


def describe(row: ReminderRow, reminder: Reminder | None, provenance: Provenance | None) -> None:
    """Take over what an update tells of the record and of its sender."""
    if provenance is not None and row.sender is None:
        row.sender = row_sender(provenance)
    if reminder is None:
        return
    if row.ttl_turns is None and row.propagate is None:
        row.ttl_turns = reminder.ttl_turns
    row.body, row.tags, row.dedupe_key = reminder.body, reminder.tags, reminder.dedupe_key
    row.ttl_left = reminder.ttl_turns
    row.preserve_on_compact = reminder.preserve_on_compact
    row.propagate, row.role_hint, row.source = reminder.propagate, reminder.role_hint, reminder.source
    row.originating_agent_id = reminder.originating_agent_id


def row_sender(provenance: Provenance) -> RowSender:
    return msgspec.convert(sender_json(provenance), RowSender)


ARRIVALS: Final = frozenset({UpdateKind.REMINDER_QUEUED, UpdateKind.REMINDER_INJECTED, UpdateKind.REMINDER_INHERITED})

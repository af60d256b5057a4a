"""The timeline of a session: its turns, and what became of each message and reminder, folded from its updates.

A place on the time axis is a number: turn n covers the places from n up to n + 1. An update before the first request is at
0.9. While the request of turn n is open, updates are at n + 0.4; from its reply on at n + 0.6, and from the first result
of its tools on at n + 0.8. When a request is voided, the time goes back to the end of the turn before it.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from sideband.core.errors import CursorExpired, InvalidOption
from sideband.core.events import QueuedMessage
from sideband.core.limits import Bound
from sideband.core.reminder import Reminder
from sideband.core.state import Pending, SessionState
from sideband.core.trust import Provenance
from sideband.core.updates import (
    OPERATOR,
    CheckpointUpdate,
    CompactionUpdate,
    MessageUpdate,
    PermissionUpdate,
    Phase,
    ReminderUpdate,
    ResultUpdate,
    RunUpdate,
    SessionUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
    View,
    Viewer,
    joined,
    update_of,
    view,
)
from sideband.inspect.update_json import (
    MAX_OUTPUT_CHARACTERS,
    begun_messages,
    calls_json,
    other_blocks,
    sender_json,
    told_text,
    usage_json,
    utf8_size,
)
from sideband.store.codec import decode_event
from sideband.store.inspector import Inspector, StoredSession, UnreadableSession

if TYPE_CHECKING:
    from sideband.runtime.session import Session

BEFORE_ALL: Final = 0.9
"""The place before the first request."""
_OPENED, _REPLIED, _RAN = 0.4, 0.6, 0.8


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


def _new_turn(turn: int, state: TurnState, *, cursor: int = 0, time: int | None = None) -> TurnRow:
    return TurnRow(
        turn=turn, cursor=cursor, state=state, attempt=1, text="", calls=[], told=[], still=[], left_out=[], time=time
    )


def _new_reminder(reminder_id: str, state: ReminderState, *, cursor: int = 0) -> ReminderRow:
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


# Reading a timeline.


async def read_timeline(session: "Session", *, viewer: Viewer = OPERATOR, turns: int | None = None) -> Timeline:
    """The timeline of a session as it stands now; with `turns`, only the last so many turns and what belongs to them.

    The updates after `cursor` of the timeline continue it. What is pending is complete even if older events were pruned.
    """
    seen, cursor = await session.view(viewer)
    since = 0
    while True:
        try:
            async with aclosing(session.updates(viewer, after=since, follow=False)) as updates:
                found = [update async for update in _until(updates, cursor)]
        except CursorExpired as expired:
            # Events may be pruned beyond the cursor of the view while they are read.
            since = expired.oldest
            if since > cursor:
                seen, cursor = await session.view(viewer)
        else:
            return timeline_of(session.id, seen, found, cursor=cursor, since=since, turns=turns)


async def _until(updates: AsyncGenerator[Update, None], cursor: int) -> AsyncGenerator[Update, None]:
    async for update in updates:
        if update.cursor > cursor:
            return
        yield update


def stored_timeline(store: Inspector, stored: StoredSession, state: SessionState) -> Timeline:
    """The timeline of a session, read without opening the store; `state` is the one that the store holds now.

    `UnreadableSession` if a row of its journal was changed.
    """
    return timeline_of(
        stored.session_id,
        view(state, OPERATOR),
        [*_stored_updates(store, stored)],
        cursor=stored.last or stored.snapshot_at,
        since=stored.pruned_through,
    )


def _stored_updates(store: Inspector, stored: StoredSession) -> Iterator[Update]:
    held: Update | None = None
    for entry in store.entries(stored.session_id, after=stored.pruned_through):
        if not entry.is_whole:
            raise UnreadableSession(f"row {entry.sequence} was changed")
        update = update_of(decode_event(entry.body), OPERATOR, cursor=entry.sequence, time=entry.time)
        merged = None if held is None else joined(held, update)
        if held is not None and merged is None:
            yield held
        # One reminder that replaces several has an event for each, and one update for all.
        held = merged or update
    if held is not None:
        yield held


def timeline_of(
    session_id: str, seen: View, updates: Sequence[Update], *, cursor: int, since: int = 0, turns: int | None = None
) -> Timeline:
    """The timeline of a session by its updates after `since` and up to `cursor`, with the view at `cursor`."""
    timeline = empty_timeline(session_id, since=since)
    if since:
        _begin_pruned(timeline, seen, updates)
    fold = TimelineFold(timeline)
    for update in updates:
        fold.apply(update)
    if since:
        _complete(timeline, seen)
    timeline.cursor = cursor
    if turns is not None:
        keep_last(timeline, turns)
    return timeline


def keep_last(timeline: Timeline, turns: int) -> None:
    """Leave out all but the last `turns` turns, with the messages, compactions and reminders that had ended before them."""
    Bound(1).check("turns", turns)
    if len(timeline.turns) <= turns:
        return
    timeline.earlier_turns += len(timeline.turns) - turns
    timeline.turns = timeline.turns[-turns:]
    first = timeline.turns[0].turn
    # What was said since the last reply before the window is what its first request answers.
    since_reply = first - 1 + _REPLIED if first > 1 else 0.0
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


def _begin_pruned(timeline: Timeline, seen: View, updates: Iterable[Update]) -> None:
    """Begin with what was there when the events that are kept began: everything that is pending now and not new since."""
    new = {update.reminder_id for update in updates if isinstance(update, ReminderUpdate) and update.kind in _ARRIVALS}
    timeline.reminders = [_pending_row(entry) for entry in seen.reminders if entry.reminder.id not in new]
    session = seen.session
    if session is None:
        return
    sent = {
        update.message_id
        for update in updates
        if isinstance(update, MessageUpdate) and update.kind is UpdateKind.MESSAGE_ACCEPTED
    }
    timeline.messages = [_waiting_row(item) for item in session.waiting if item.id not in sent]
    # The turn before the first one that is kept; without any, the one that the view names.
    first = next((update for update in updates if isinstance(update, TurnUpdate)), None)
    if first is None:
        timeline.turn, is_open = session.turn, session.reply_id is not None
    else:
        timeline.turn, is_open = first.turn - 1, first.kind is not UpdateKind.TURN_OPENED
    if is_open:
        timeline.open_turn = timeline.turn + 1
        timeline.turns = [_new_turn(timeline.open_turn, TurnState.OPEN)]
        timeline.turns[0].reply_id = session.reply_id if first is None else None


def _complete(timeline: Timeline, seen: View) -> None:
    """Take from the view what the events that are kept cannot tell."""
    rows = {row.id: row for row in timeline.reminders if not row.at_the_door}
    for entry in seen.reminders:
        row = rows[entry.reminder.id]
        row.state, row.ttl_left = ReminderState(entry.state.value), entry.reminder.ttl_turns
    session = seen.session
    if session is None:
        return
    timeline.turn, timeline.running = session.turn, session.running
    timeline.closed = session.closed_reason is not None
    timeline.permissions, timeline.records = [*session.permissions], session.records


def _pending_row(entry: Pending) -> ReminderRow:
    row = _new_reminder(entry.reminder.id, ReminderState(entry.state.value))
    _describe(row, entry.reminder, entry.provenance)
    row.mode = entry.mode
    return row


def _waiting_row(item: QueuedMessage) -> MessageRow:
    return MessageRow(
        id=item.id,
        cursor=0,
        role="user",
        state=MessageState.WAITING,
        at=0.0,
        text=told_text({"content": item.content}),
        mode=item.mode,
        other_blocks=other_blocks(item.content),
        revision=item.revision,
        sender=_sender(item.provenance),
        time=item.accepted_at or None,
    )


# The fold.


def apply(timeline: Timeline, update: Update) -> None:
    """Apply one update. To apply many, keep a `TimelineFold`, which finds the rows faster."""
    TimelineFold(timeline).apply(update)


def place_of(timeline: Timeline) -> float:
    """The place on the axis at which the next update happens."""
    if not timeline.turns:
        return timeline.turn + _REPLIED if timeline.turn else BEFORE_ALL
    last = timeline.turns[-1]
    match last.state:
        case TurnState.OPEN:
            return last.turn + _OPENED
        case TurnState.VOID:
            return last.turn - 1 + _RAN if last.turn > 1 else BEFORE_ALL
        case TurnState.COMMITTED:
            return last.turn + (_RAN if any(call.status is not None for call in last.calls) else _REPLIED)


class TimelineFold:
    """Applies updates to a timeline, which it changes in place."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._index()

    def _index(self) -> None:
        """Index the rows that later updates may change."""
        timeline = self.timeline
        self._reminders = {row.id: row for row in timeline.reminders if not row.at_the_door}
        self._live = {row.id: row for row in timeline.reminders if row.state is ReminderState.LIVE}
        self._messages = {row.id: row for row in timeline.messages}
        self._at = place_of(timeline)

    def apply(self, update: Update) -> None:
        """Apply the next update of the session."""
        handler = _HANDLERS.get(update.kind)
        if handler is not None:
            handler(self, update)
        self.timeline.cursor = update.cursor

    # Reminders.

    def _place(self, update: Update, *, seam: str | None = None, boundary: str | None = None) -> AxisPlace:
        return AxisPlace(at=self._at, turn=int(self._at), time=update.time, seam=seam, boundary=boundary)

    def _row(self, update: ReminderUpdate, reminder_id: str, state: ReminderState) -> ReminderRow:
        """The row of a reminder, in a new state; it is made if an earlier update of it is not kept."""
        row = self._reminders.get(reminder_id)
        if row is None or (update.kind in _ARRIVALS and not row.is_pending):
            row = _new_reminder(reminder_id, state, cursor=update.cursor)
            self.timeline.reminders.append(row)
            self._reminders[reminder_id] = row
        row.state = state
        if state is ReminderState.LIVE:
            self._live[reminder_id] = row
        else:
            self._live.pop(reminder_id, None)
        return row

    def queue(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.QUEUED)
        _describe(row, update.reminder, update.provenance)
        row.mode = update.mode or row.mode
        if row.queued is None:
            row.queued = self._place(update)

    def replace(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.QUEUED)
        _describe(row, update.reminder, update.provenance)
        row.mode = update.mode or row.mode

    def inject(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.LIVE)
        _describe(row, update.reminder, update.provenance)
        row.live = self._place(update, seam=update.seam)

    def inherit(self, update: ReminderUpdate) -> None:
        self.inject(update)
        self._reminders[update.reminder_id].inherited = True

    def emit(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.LIVE)
        _describe(row, update.reminder, update.provenance)
        turn, role, via = update.turn or 0, update.rendered_role or "", update.via or None
        self._not_shown(row, turn)
        row.shown.append(Showing(turn=turn, role=role, via=via))
        open_turn = self._open_row(turn)
        if open_turn is not None:
            open_turn.told.append(ToldRow(id=row.id, role=role, via=via))

    def defer(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.LIVE)
        _describe(row, None, update.provenance)
        turn = update.turn or 0
        self._not_shown(row, turn)
        row.left_out.append(turn)
        open_turn = self._open_row(turn)
        if open_turn is not None:
            open_turn.left_out.append(row.id)

    def _not_shown(self, row: ReminderRow, turn: int) -> None:
        """Take back that the request of this turn carries the reminder: its text is new in it, or left out."""
        if row.shown and row.shown[-1] == Showing(turn=turn, role=row.shown[-1].role, carried=True):
            row.shown.pop()
            open_turn = self._open_row(turn)
            if open_turn is not None and row.id in open_turn.still:
                open_turn.still.remove(row.id)

    def dedupe(self, update: ReminderUpdate) -> None:
        for reminder_id in update.dropped_ids:
            row = self._end(update, reminder_id, ReminderState.DEDUPED)
            row.replaced_by = update.reminder_id

    def expire(self, update: ReminderUpdate) -> None:
        phase = Phase.CLEARED if update.phase is None else update.phase
        row = self._end(update, update.reminder_id, _ENDS[phase])
        _describe(row, None, update.provenance)

    def revoke(self, update: ReminderUpdate) -> None:
        row = self._end(update, update.reminder_id, ReminderState.REVOKED)
        _describe(row, None, update.provenance)

    def drop(self, update: ReminderUpdate) -> None:
        if update.at_the_door:
            row = _new_reminder(update.reminder_id, ReminderState.DROPPED, cursor=update.cursor)
            row.dedupe_key, row.at_the_door, row.count = update.dedupe_key, True, update.count
            row.ended = self._place(update)
            self.timeline.reminders.append(row)
        else:
            row = self._end(update, update.reminder_id, ReminderState.DROPPED)
            open_turn = self._open_row()
            if open_turn is not None and row.id in open_turn.still:
                # The request that ends it does not carry it.
                self._not_shown(row, open_turn.turn)
        _describe(row, None, update.provenance)
        row.reason = update.reason

    def record_audit(self, update: ReminderUpdate) -> None:
        row = self._end(update, update.reminder_id, ReminderState.AUDIT_RECORDED)
        _describe(row, update.reminder, update.provenance)

    def _end(self, update: ReminderUpdate, reminder_id: str, state: ReminderState) -> ReminderRow:
        row = self._row(update, reminder_id, state)
        row.ended = self._place(update, boundary=update.boundary)
        row.dedupe_key = row.dedupe_key or update.dedupe_key
        return row

    # Messages.

    def accept(self, update: MessageUpdate) -> None:
        row = self._message(update)
        row.state = MessageState.WAITING
        if update.item is not None:
            row.mode = update.item.mode

    def replace_message(self, update: MessageUpdate) -> None:
        self._message(update)

    def deliver(self, update: MessageUpdate) -> None:
        row = self._message(update)
        row.state, row.audit_only = MessageState.DELIVERED, update.audit_only
        row.delivered_at, row.delivered_cursor = self._at, update.cursor

    def revoke_message(self, update: MessageUpdate) -> None:
        row = self._message(update)
        row.state, row.reason = MessageState.REVOKED, update.reason

    def _message(self, update: MessageUpdate) -> MessageRow:
        row = self._messages.get(update.message_id)
        if row is None:
            row = MessageRow(
                id=update.message_id,
                cursor=update.cursor,
                role="user",
                state=MessageState.WAITING,
                at=self._at,
                text="",
                time=update.time,
            )
            self.timeline.messages.append(row)
            self._messages[row.id] = row
        if update.content is not None:
            row.text, row.other_blocks = told_text({"content": update.content}), other_blocks(update.content)
        if update.revision is not None:
            row.revision = update.revision
        if row.sender is None and update.provenance is not None:
            row.sender = _sender(update.provenance)
        return row

    # Turns.

    def _open_row(self, turn: int | None = None) -> TurnRow | None:
        """The row of the open request, if it is that of this turn (None: of any)."""
        last = self.timeline.turns[-1] if self.timeline.turns else None
        if last is None or last.state is not TurnState.OPEN or turn not in (None, last.turn):
            return None
        return last

    def open(self, update: TurnUpdate) -> None:
        row = self._open_row(update.turn)
        if row is None:
            row = _new_turn(update.turn, TurnState.OPEN, cursor=update.cursor, time=update.time)
            self.timeline.turns.append(row)
            self.timeline.open_turn = update.turn
            self._at = update.turn + _OPENED
            self._carry(row)
        row.attempt = update.attempt or 1
        row.reply_id = update.reply_id or row.reply_id

    def _carry(self, turn: TurnRow) -> None:
        """Assume that the request carries every reminder that an earlier one has shown.

        There is no update for a carried reminder. If its text is new in this request, or it is left out or ended, an update
        of the same commit says so.
        """
        # In the order of the rows, which a timeline that was read from JSON has as well.
        for row in self.timeline.reminders:
            # One from before the events that are kept was shown then, or an update of this commit tells of it.
            if row.state is ReminderState.LIVE and (row.shown or not row.cursor):
                turn.still.append(row.id)
                role = row.shown[-1].role if row.shown else ""
                row.shown.append(Showing(turn=turn.turn, role=role, carried=True))

    def commit(self, update: TurnUpdate) -> None:
        row = self._open_row(update.turn)
        if row is None:
            row = _new_turn(update.turn, TurnState.OPEN, cursor=update.cursor, time=update.time)
            self.timeline.turns.append(row)
        row.state = TurnState.COMMITTED
        row.reply_id = update.reply_id or row.reply_id
        if update.reply is not None:
            row.text = told_text(update.reply)
            row.calls = [CallRow(**call) for call in calls_json(update.reply)]
        if update.usage is not None:
            row.usage = usage_json(update.usage)
        self.timeline.turn, self.timeline.open_turn = update.turn, None
        self._at = update.turn + _REPLIED
        for live in self._live.values():
            if live.ttl_left is not None and live.shown and live.shown[-1].turn == update.turn:
                live.ttl_left -= 1

    def void(self, update: TurnUpdate) -> None:
        row = self._open_row(update.turn)
        if row is None:
            row = _new_turn(update.turn, TurnState.VOID, cursor=update.cursor, time=update.time)
            self.timeline.turns.append(row)
        row.state, self.timeline.open_turn = TurnState.VOID, None
        for reminder_id in (*(told.id for told in row.told), *row.still, *row.left_out):
            planned = self._reminders[reminder_id]
            planned.shown = [showing for showing in planned.shown if showing.turn != update.turn]
            planned.left_out = [turn for turn in planned.left_out if turn != update.turn]
        self._at = place_of(self.timeline)

    def record_result(self, update: ResultUpdate) -> None:
        last = self.timeline.turns[-1] if self.timeline.turns else None
        if last is None or last.state is not TurnState.COMMITTED:
            return
        call = next((call for call in last.calls if call.id == update.call_id and call.status is None), None)
        if call is None:
            return
        text = told_text(update.message)
        call.status, call.text, call.bytes = update.status, text[:MAX_OUTPUT_CHARACTERS], utf8_size(text)
        self._at = last.turn + _RAN

    def record_checkpoint(self, update: CheckpointUpdate) -> None:
        last = self.timeline.turns[-1] if self.timeline.turns else None
        if update.dispatch_skipped and last is not None and last.state is TurnState.COMMITTED:
            last.skipped_by = [*update.ids]

    def compact(self, update: CompactionUpdate) -> None:
        self.timeline.compactions.append(
            CompactionRow(
                cursor=update.cursor,
                turn=update.turn,
                archived_messages=update.archived_messages,
                at=self._at,
                time=update.time,
            )
        )
        for row in self._live.values():
            if row.ttl_left is not None and any(showing.turn <= self.timeline.turn for showing in row.shown):
                row.ttl_left -= 1

    # The run and the session.

    def start(self, _update: RunUpdate) -> None:
        self.timeline.running = True

    def idle(self, _update: RunUpdate) -> None:
        self.timeline.running = False

    def cancel(self, _update: RunUpdate) -> None:
        self.timeline.running, self.timeline.permissions = False, []

    def ask(self, update: PermissionUpdate) -> None:
        # A process that continues the turn of a dead one asks again.
        if update.request_id not in self.timeline.permissions:
            self.timeline.permissions.append(update.request_id)

    def answer(self, update: PermissionUpdate) -> None:
        if update.request_id in self.timeline.permissions:
            self.timeline.permissions.remove(update.request_id)

    def begin(self, update: SessionUpdate) -> None:
        self._empty()
        self.timeline.records = {**update.records}
        for message in begun_messages(update):
            row = MessageRow(
                id=message["id"],
                cursor=update.cursor,
                role=message["role"],
                state=MessageState.DELIVERED,
                at=self._at,
                text=message["text"],
                other_blocks=message.get("otherBlocks", 0),
                time=update.time,
                delivered_at=self._at,
                delivered_cursor=update.cursor,
            )
            self.timeline.messages.append(row)
            self._messages[row.id] = row

    def record(self, update: SessionUpdate) -> None:
        known = {**self.timeline.records, **update.records}
        self.timeline.records = {name: value for name, value in known.items() if value is not None}

    def close(self, _update: SessionUpdate) -> None:
        self.timeline.running, self.timeline.closed = False, True

    def delete(self, _update: SessionUpdate) -> None:
        self._empty()

    def _empty(self) -> None:
        """Nothing is left of a deleted session, and one that is begun again starts anew."""
        empty = empty_timeline(self.timeline.session_id)
        for field in msgspec.structs.fields(Timeline):
            setattr(self.timeline, field.name, getattr(empty, field.name))
        self._index()


def _describe(row: ReminderRow, reminder: Reminder | None, provenance: Provenance | None) -> None:
    """Take over what an update tells of the record and of its sender."""
    if provenance is not None and row.sender is None:
        row.sender = _sender(provenance)
    if reminder is None:
        return
    if row.ttl_turns is None and row.propagate is None:
        row.ttl_turns = reminder.ttl_turns
    row.body, row.tags, row.dedupe_key = reminder.body, reminder.tags, reminder.dedupe_key
    row.ttl_left = reminder.ttl_turns
    row.preserve_on_compact = reminder.preserve_on_compact
    row.propagate, row.role_hint, row.source = reminder.propagate, reminder.role_hint, reminder.source
    row.originating_agent_id = reminder.originating_agent_id


def _sender(provenance: Provenance) -> RowSender:
    return msgspec.convert(sender_json(provenance), RowSender)


_ARRIVALS: Final = frozenset({UpdateKind.REMINDER_QUEUED, UpdateKind.REMINDER_INJECTED, UpdateKind.REMINDER_INHERITED})
_ENDS: Final[Mapping[Phase, ReminderState]] = MappingProxyType(
    {
        Phase.TTL_EXPIRED: ReminderState.EXPIRED,
        Phase.CLEARED: ReminderState.CLEARED,
        Phase.COMPACTED_OUT: ReminderState.COMPACTED_OUT,
    }
)
_Handler: TypeAlias = Callable[[TimelineFold, Any], None]
# That a provider ran changes nothing in a timeline: what it told is an update of its own.
_HANDLERS: Final[Mapping[UpdateKind, _Handler]] = MappingProxyType(
    {
        UpdateKind.REMINDER_QUEUED: TimelineFold.queue,
        UpdateKind.REMINDER_REPLACED: TimelineFold.replace,
        UpdateKind.REMINDER_INJECTED: TimelineFold.inject,
        UpdateKind.REMINDER_INHERITED: TimelineFold.inherit,
        UpdateKind.REMINDER_EMITTED: TimelineFold.emit,
        UpdateKind.REMINDER_DEFERRED: TimelineFold.defer,
        UpdateKind.REMINDER_DEDUPED: TimelineFold.dedupe,
        UpdateKind.REMINDER_EXPIRED: TimelineFold.expire,
        UpdateKind.REMINDER_REVOKED: TimelineFold.revoke,
        UpdateKind.REMINDER_DROPPED: TimelineFold.drop,
        UpdateKind.REMINDER_AUDIT_RECORDED: TimelineFold.record_audit,
        UpdateKind.MESSAGE_ACCEPTED: TimelineFold.accept,
        UpdateKind.MESSAGE_REPLACED: TimelineFold.replace_message,
        UpdateKind.MESSAGE_DELIVERED: TimelineFold.deliver,
        UpdateKind.MESSAGE_REVOKED: TimelineFold.revoke_message,
        UpdateKind.TURN_OPENED: TimelineFold.open,
        UpdateKind.TURN_COMMITTED: TimelineFold.commit,
        UpdateKind.TURN_VOIDED: TimelineFold.void,
        UpdateKind.RESULT_RECORDED: TimelineFold.record_result,
        UpdateKind.CHECKPOINT: TimelineFold.record_checkpoint,
        UpdateKind.COMPACTED: TimelineFold.compact,
        UpdateKind.RUN_STARTED: TimelineFold.start,
        UpdateKind.RUN_IDLED: TimelineFold.idle,
        UpdateKind.RUN_CANCELLED: TimelineFold.cancel,
        UpdateKind.PERMISSION_ASKED: TimelineFold.ask,
        UpdateKind.PERMISSION_REPLIED: TimelineFold.answer,
        UpdateKind.SESSION_BEGUN: TimelineFold.begin,
        UpdateKind.SESSION_RECORDED: TimelineFold.record,
        UpdateKind.SESSION_CLOSED: TimelineFold.close,
        UpdateKind.SESSION_DELETED: TimelineFold.delete,
    }
)

"""The fold of a timeline: how each update of a session changes it. `studio/static/reducer.js` does the same."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from sideband.core.updates import (
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
)
from sideband.inspect.timeline import (
    ARRIVALS,
    OPENED,
    RAN,
    REPLIED,
    AxisPlace,
    CallRow,
    CompactionRow,
    MessageRow,
    MessageState,
    ReminderRow,
    ReminderState,
    Showing,
    Timeline,
    ToldRow,
    TurnRow,
    TurnState,
    describe,
    empty_timeline,
    new_reminder,
    new_turn,
    place_of,
    row_sender,
)
from sideband.inspect.update_json import (
    MAX_OUTPUT_CHARACTERS,
    begun_messages,
    calls_json,
    other_blocks,
    told_text,
    usage_json,
    utf8_size,
)


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
        if row is None or (update.kind in ARRIVALS and not row.is_pending):
            row = new_reminder(reminder_id, state, cursor=update.cursor)
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
        describe(row, update.reminder, update.provenance)
        row.mode = update.mode or row.mode
        if row.queued is None:
            row.queued = self._place(update)

    def replace(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.QUEUED)
        describe(row, update.reminder, update.provenance)
        row.mode = update.mode or row.mode

    def inject(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.LIVE)
        describe(row, update.reminder, update.provenance)
        row.live = self._place(update, seam=update.seam)

    def inherit(self, update: ReminderUpdate) -> None:
        self.inject(update)
        self._reminders[update.reminder_id].inherited = True

    def emit(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.LIVE)
        describe(row, update.reminder, update.provenance)
        turn, role, via = update.turn or 0, update.rendered_role or "", update.via or None
        self._not_shown(row, turn)
        row.shown.append(Showing(turn=turn, role=role, via=via))
        open_turn = self._open_row(turn)
        if open_turn is not None:
            open_turn.told.append(ToldRow(id=row.id, role=role, via=via))

    def defer(self, update: ReminderUpdate) -> None:
        row = self._row(update, update.reminder_id, ReminderState.LIVE)
        describe(row, None, update.provenance)
        turn = update.turn or 0
        self._not_shown(row, turn)
        row.left_out.append(turn)
        open_turn = self._open_row(turn)
        if open_turn is not None:
            open_turn.left_out.append(row.id)

    def _not_shown(self, row: ReminderRow, turn: int) -> None:
        """Take back that the request of this turn carries the reminder: its text is new in it, or left out."""
        if row.shown and row.shown[-1].turn == turn and row.shown[-1].carried:
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
        describe(row, None, update.provenance)

    def revoke(self, update: ReminderUpdate) -> None:
        row = self._end(update, update.reminder_id, ReminderState.REVOKED)
        describe(row, None, update.provenance)

    def drop(self, update: ReminderUpdate) -> None:
        if update.at_the_door:
            row = new_reminder(update.reminder_id, ReminderState.DROPPED, cursor=update.cursor)
            row.dedupe_key, row.at_the_door, row.count = update.dedupe_key, True, update.count
            row.ended = self._place(update)
            self.timeline.reminders.append(row)
        else:
            row = self._end(update, update.reminder_id, ReminderState.DROPPED)
            open_turn = self._open_row()
            if open_turn is not None and row.id in open_turn.still:
                # The request that ends it does not carry it.
                self._not_shown(row, open_turn.turn)
        describe(row, None, update.provenance)
        row.reason = update.reason

    def record_audit(self, update: ReminderUpdate) -> None:
        row = self._end(update, update.reminder_id, ReminderState.AUDIT_RECORDED)
        describe(row, update.reminder, update.provenance)

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
            row.sender = row_sender(update.provenance)
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
            row = new_turn(update.turn, TurnState.OPEN, cursor=update.cursor, time=update.time)
            self.timeline.turns.append(row)
            self.timeline.open_turn = update.turn
            self._at = update.turn + OPENED
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
            row = new_turn(update.turn, TurnState.OPEN, cursor=update.cursor, time=update.time)
            self.timeline.turns.append(row)
        row.state = TurnState.COMMITTED
        row.reply_id = update.reply_id or row.reply_id
        if update.reply is not None:
            row.text = told_text(update.reply)
            row.calls = [CallRow(**call) for call in calls_json(update.reply)]
        if update.usage is not None:
            row.usage = usage_json(update.usage)
        self.timeline.turn, self.timeline.open_turn = update.turn, None
        self._at = update.turn + REPLIED
        for live in self._live.values():
            if live.ttl_left is not None and live.shown and live.shown[-1].turn == update.turn:
                live.ttl_left -= 1

    def void(self, update: TurnUpdate) -> None:
        row = self._open_row(update.turn)
        if row is None:
            row = new_turn(update.turn, TurnState.VOID, cursor=update.cursor, time=update.time)
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
        self._at = last.turn + RAN

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

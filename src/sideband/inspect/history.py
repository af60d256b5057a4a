"""Reads what happened in a session: from an open store, or from its files without opening it."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from sideband.core.errors import CursorExpired, StoreDamaged, shown
from sideband.core.events import QueuedMessage
from sideband.core.state import Pending, SessionState
from sideband.core.transcript import Transcript, transcript_of
from sideband.core.updates import (
    OPERATOR,
    MessageUpdate,
    ReminderUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
    View,
    Viewer,
    joined,
    update_of,
    view,
)
from sideband.inspect.sessions import inspect_store, state_word, stored_session
from sideband.inspect.timeline import (
    ARRIVALS,
    MessageRow,
    MessageState,
    ReminderRow,
    ReminderState,
    Timeline,
    TurnState,
    describe,
    empty_timeline,
    keep_last,
    new_reminder,
    new_turn,
    row_sender,
)
from sideband.inspect.timeline_fold import TimelineFold
from sideband.inspect.update_json import other_blocks, told_text
from sideband.store.codec import decode_event
from sideband.store.inspector import Inspector, StoredSession, UnreadableSession, restored

if TYPE_CHECKING:
    from sideband.runtime.session import Session


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


def _begin_pruned(timeline: Timeline, seen: View, updates: Iterable[Update]) -> None:
    """Begin with what was there when the events that are kept began: everything that is pending now and not new since."""
    new = {update.reminder_id for update in updates if isinstance(update, ReminderUpdate) and update.kind in ARRIVALS}
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
        timeline.turns = [new_turn(timeline.open_turn, TurnState.OPEN)]
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
    row = new_reminder(entry.reminder.id, ReminderState(entry.state.value))
    describe(row, entry.reminder, entry.provenance)
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
        sender=row_sender(item.provenance),
        time=item.accepted_at or None,
    )


# The history of a session in a store that is not open.


class SessionHistory(NamedTuple):
    """The timeline of a session and its transcript; `word` says whether it is idle, running, left or closed."""

    word: str
    timeline: Timeline
    transcript: Transcript


def session_history(store_url: str, session_id: str | None, *, turns: int | None = None) -> SessionHistory:
    """Read a session (None: the only open one); with `turns`, the timeline has only the last so many turns."""
    with inspect_store(store_url) as store:
        stored = stored_session(store, session_id)
        try:
            state = restored(store, stored)
            timeline = stored_timeline(store, stored, state)
        except UnreadableSession as error:
            raise StoreDamaged(f"session {shown(stored.session_id)} cannot be read: {error}") from error
        if turns is not None:
            keep_last(timeline, turns)
        return SessionHistory(state_word(state, stored), timeline, transcript_of(state))

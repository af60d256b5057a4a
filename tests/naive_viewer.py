"""A client that keeps its own picture of a session: it begins with a view and applies updates to it, one by one."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sideband.core.events import QueuedMessage
from sideband.core.reminder import Reminder
from sideband.core.state import Pending, PendingState
from sideband.core.trust import Provenance
from sideband.core.updates import (
    CompactionUpdate,
    MessageUpdate,
    PermissionUpdate,
    ReminderUpdate,
    ResultUpdate,
    RunUpdate,
    SessionUpdate,
    SessionView,
    TurnUpdate,
    UpdateKind,
    View,
    Viewer,
)


class NaiveViewer:
    """What a viewer knows of a session from its updates alone."""

    def __init__(self, viewer: Viewer, begin: View | None = None) -> None:
        self.sees_session = viewer.sees_session
        self.queued: dict[str, tuple[Reminder, Provenance | None, Any]] = {}
        self.live: dict[str, tuple[Reminder, Provenance | None, Any]] = {}
        self.waiting: dict[str, QueuedMessage] = {}
        self.messages: list[dict[str, Any]] = []
        self.turn = 0
        self.reply_id: str | None = None
        self.running = False
        self.permissions: list[str] = []
        self.records: dict[str, Any] = {}
        self.closed_reason: Any = None
        if begin is not None:
            self._begin(begin)

    def _begin(self, begin: View) -> None:
        for state, _place, reminder, provenance, mode in begin.reminders:
            pending = self.queued if state is PendingState.QUEUED else self.live
            pending[reminder.id] = (reminder, provenance, mode)
        session = begin.session
        if session is not None:
            self.waiting = {item.id: item for item in session.waiting}
            self.messages = [*session.messages]
            self.turn, self.reply_id, self.running = session.turn, session.reply_id, session.running
            self.permissions = [*session.permissions]
            self.records = {**session.records}
            self.closed_reason = session.closed_reason

    def view(self) -> View:
        """The picture as a view. The remaining TTL is not part of it: updates tell the TTL at their own time."""
        reminders = [
            Pending(state, place, msgspec.structs.replace(reminder, ttl_turns=None), provenance or Provenance(), mode)
            for state, pending in ((PendingState.QUEUED, self.queued), (PendingState.LIVE, self.live))
            for place, (reminder, provenance, mode) in enumerate(pending.values())
        ]
        session = SessionView(
            waiting=tuple(self.waiting.values()),
            messages=tuple(self.messages),
            turn=self.turn,
            reply_id=self.reply_id,
            running=self.running,
            permissions=tuple(self.permissions),
            records=self.records,
            closed_reason=self.closed_reason,
        )
        return View(reminders=tuple(reminders), session=session if self.sees_session else None)

    def take(self, update: Any) -> None:  # noqa: ANN401 - any update; each handler knows its own
        handler = _HANDLERS.get(update.kind)
        if handler is not None:
            handler(self, update)

    # Reminders.

    def _queued(self, update: ReminderUpdate) -> None:
        assert update.reminder is not None
        self.queued[update.reminder_id] = (update.reminder, update.provenance, update.mode)

    def _live(self, update: ReminderUpdate) -> None:
        assert update.reminder is not None
        self.queued.pop(update.reminder_id, None)
        self.live[update.reminder_id] = (update.reminder, update.provenance, None)

    def _gone(self, update: ReminderUpdate) -> None:
        if not update.at_the_door:
            for reminder_id in update.dropped_ids or (update.reminder_id,):
                if self.queued.pop(reminder_id, None) is None:
                    del self.live[reminder_id]

    # Messages and turns.

    def _accepted(self, update: MessageUpdate) -> None:
        assert update.item is not None
        self.waiting[update.message_id] = update.item

    def _replaced(self, update: MessageUpdate) -> None:
        self.waiting[update.message_id] = msgspec.structs.replace(
            self.waiting[update.message_id], content=update.content or (), revision=update.revision or 0
        )

    def _delivered(self, update: MessageUpdate) -> None:
        del self.waiting[update.message_id]
        if not update.audit_only:
            self.messages.append({"role": "user", "id": update.message_id, "content": list(update.content or ())})

    def _withdrawn(self, update: MessageUpdate) -> None:
        del self.waiting[update.message_id]

    def _opened(self, update: TurnUpdate) -> None:
        self.reply_id = update.reply_id or self.reply_id

    def _committed(self, update: TurnUpdate) -> None:
        self.turn, self.reply_id = update.turn, None
        if update.reply is not None:
            self.messages.append(update.reply)

    def _voided(self, _update: TurnUpdate) -> None:
        self.reply_id = None

    def _result(self, update: ResultUpdate) -> None:
        self.messages.append(update.message)

    def _compacted(self, update: CompactionUpdate) -> None:
        if update.messages is not None:
            self.messages = [*update.messages]

    # The run and the session.

    def _started(self, _update: RunUpdate) -> None:
        self.running = True

    def _idled(self, _update: RunUpdate) -> None:
        self.running = False

    def _cancelled(self, _update: RunUpdate) -> None:
        self.running, self.permissions = False, []

    def _asked(self, update: PermissionUpdate) -> None:
        self.permissions.append(update.request_id)

    def _answered(self, update: PermissionUpdate) -> None:
        self.permissions.remove(update.request_id)

    def _begun(self, update: SessionUpdate) -> None:
        self.records, self.messages = {**update.records}, [*update.messages]

    def _recorded(self, update: SessionUpdate) -> None:
        known = {**self.records, **update.records}
        self.records = {name: value for name, value in known.items() if value is not None}

    def _closed(self, update: SessionUpdate) -> None:
        self.running, self.closed_reason = False, update.reason

    def _deleted(self, _update: SessionUpdate) -> None:
        self.__init__(Viewer())  # type: ignore[misc]  # only a viewer that sees the session is told of it


_HANDLERS: Final[Mapping[UpdateKind, Callable[[NaiveViewer, Any], None]]] = {
    UpdateKind.REMINDER_QUEUED: NaiveViewer._queued,
    UpdateKind.REMINDER_REPLACED: NaiveViewer._queued,
    UpdateKind.REMINDER_INJECTED: NaiveViewer._live,
    UpdateKind.REMINDER_INHERITED: NaiveViewer._live,
    UpdateKind.REMINDER_DEDUPED: NaiveViewer._gone,
    UpdateKind.REMINDER_EXPIRED: NaiveViewer._gone,
    UpdateKind.REMINDER_REVOKED: NaiveViewer._gone,
    UpdateKind.REMINDER_DROPPED: NaiveViewer._gone,
    UpdateKind.REMINDER_AUDIT_RECORDED: NaiveViewer._gone,
    UpdateKind.MESSAGE_ACCEPTED: NaiveViewer._accepted,
    UpdateKind.MESSAGE_REPLACED: NaiveViewer._replaced,
    UpdateKind.MESSAGE_DELIVERED: NaiveViewer._delivered,
    UpdateKind.MESSAGE_REVOKED: NaiveViewer._withdrawn,
    UpdateKind.TURN_OPENED: NaiveViewer._opened,
    UpdateKind.TURN_COMMITTED: NaiveViewer._committed,
    UpdateKind.TURN_VOIDED: NaiveViewer._voided,
    UpdateKind.RESULT_RECORDED: NaiveViewer._result,
    UpdateKind.COMPACTED: NaiveViewer._compacted,
    UpdateKind.RUN_STARTED: NaiveViewer._started,
    UpdateKind.RUN_IDLED: NaiveViewer._idled,
    UpdateKind.RUN_CANCELLED: NaiveViewer._cancelled,
    UpdateKind.PERMISSION_ASKED: NaiveViewer._asked,
    UpdateKind.PERMISSION_REPLIED: NaiveViewer._answered,
    UpdateKind.SESSION_BEGUN: NaiveViewer._begun,
    UpdateKind.SESSION_RECORDED: NaiveViewer._recorded,
    UpdateKind.SESSION_CLOSED: NaiveViewer._closed,
    UpdateKind.SESSION_DELETED: NaiveViewer._deleted,
}
# Updates of these kinds tell what happened, and change nothing that a view shows.
TELLING_ONLY: Final = frozenset(UpdateKind) - _HANDLERS.keys()

"""The event stream of a task: the updates of its session, as A2A events.

Every stream reads the journal, so all subscribers, in every process, get the same events in the same order, and a slow
reader costs no memory.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeAlias

from a2a.types import (
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from sideband.core.messages import text_of
from sideband.core.updates import (
    PermissionUpdate,
    ReminderUpdate,
    RunUpdate,
    SessionUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
)
from sideband.protocols.a2a.content import agent_message
from sideband.protocols.a2a.reminders import URI
from sideband.protocols.a2a.tasks import (
    INTERRUPTED,
    REASON_RECORD,
    STATE_RECORD,
    TERMINAL,
    Snapshot,
    artifact_of,
    in_task,
    open_calls,
    state_named,
    status_note,
    timestamp,
)
from sideband.runtime.permission import ANSWER_RECORD, answer_record
from sideband.runtime.session import Session

TaskEvent: TypeAlias = TaskStatusUpdateEvent | TaskArtifactUpdateEvent
Notify: TypeAlias = Callable[[ReminderUpdate], dict[str, Any] | None]
"""The notification that a subscriber gets of a reminder; None if it gets none."""

FINAL: Final = TERMINAL | INTERRUPTED


def ignore(_update: ReminderUpdate) -> None:
    """The subscriber wants no reminders."""


async def follow(
    session: Session, snapshot: Snapshot, notify: Notify = ignore, *, until: Collection[TaskState] = FINAL
) -> AsyncGenerator[TaskEvent, None]:
    """The events after a snapshot, up to the first of these states: the task has ended, or waits for input."""
    translator = _Translator(snapshot)
    if snapshot.task.status.state in TERMINAL:
        return
    async with aclosing(session.updates(after=snapshot.cursor)) as updates:
        async for update in updates:
            if isinstance(update, ReminderUpdate):
                told = notify(update)
                if told is not None:
                    yield translator.carrying(told, update)
                continue
            for event in translator.events(update):
                yield event
                if isinstance(event, TaskStatusUpdateEvent) and event.status.state in until:
                    return


class _Translator:
    """Translates the updates of one task in their order."""

    def __init__(self, snapshot: Snapshot) -> None:
        task: Task = snapshot.task
        self._task_id, self._context_id = task.id, task.context_id
        self._state: TaskState = task.status.state
        self._calls: Mapping[str, Mapping[str, Any]] = snapshot.calls
        self._reason: str | None = None
        self._asked = dict.fromkeys(snapshot.asked)
        self._answers = set(snapshot.answers)
        self._turn = snapshot.turn

    def events(self, update: Update) -> Iterator[TaskEvent]:
        match update:
            case RunUpdate(kind=UpdateKind.RUN_STARTED):
                yield self._status(TaskState.TASK_STATE_WORKING, update)
            case TurnUpdate(kind=UpdateKind.TURN_COMMITTED, reply=reply, turn=turn) if reply is not None:
                self._turn = turn
                yield from self._reply(reply, update)
            case PermissionUpdate(kind=UpdateKind.PERMISSION_ASKED, request_id=call_id):
                # A run that was resumed asks again, and may find the answer at once.
                if answer_record(self._turn, call_id) not in self._answers:
                    self._asked[call_id] = None
                    yield self._asking(update)
            case PermissionUpdate(request_id=call_id):
                self._asked.pop(call_id, None)
                yield self._asking(update) if self._asked else self._status(TaskState.TASK_STATE_WORKING, update)
            case SessionUpdate(kind=UpdateKind.SESSION_RECORDED, records=records):
                self._reason = records.get(REASON_RECORD, self._reason)
                self._note_answers(records)
                state = state_named(records.get(STATE_RECORD, "TASK_STATE_UNSPECIFIED"))
                if state in FINAL:
                    yield self._status(state, update, status_note(state, self._reason, {}, ()))
            case SessionUpdate(kind=UpdateKind.SESSION_CLOSED | UpdateKind.SESSION_DELETED):
                # The session was ended by other means than those of a task.
                yield self._status(TaskState.TASK_STATE_CANCELED, update)
            case _:
                pass

    def _note_answers(self, records: Mapping[str, Any]) -> None:
        for name, value in records.items():
            if name.startswith(ANSWER_RECORD):
                (self._answers.discard if value is None else self._answers.add)(name)

    def _asking(self, update: Update) -> TaskStatusUpdateEvent:
        """The status that asks the caller about the first of the open calls."""
        state = TaskState.TASK_STATE_INPUT_REQUIRED
        return self._status(state, update, status_note(state, None, self._calls, [*self._asked]))

    def _reply(self, reply: dict[str, Any], update: Update) -> Iterator[TaskEvent]:
        artifact = artifact_of(reply)
        self._calls = open_calls([reply])
        if artifact is not None:
            yield TaskArtifactUpdateEvent(
                task_id=self._task_id, context_id=self._context_id, artifact=artifact, last_chunk=True
            )
        elif (text := text_of(reply)).strip():
            yield self._status(self._state, update, text, reply.get("id", ""))

    def _status(
        self, state: TaskState, update: Update, note: str | None = None, message_id: str = ""
    ) -> TaskStatusUpdateEvent:
        self._state = state
        status = TaskStatus(state=state, timestamp=timestamp(update.time or 0))
        if note:
            message = agent_message(note, message_id or f"{self._task_id}:status")
            status.message.CopyFrom(in_task(message, self._task_id, self._context_id))
        return TaskStatusUpdateEvent(task_id=self._task_id, context_id=self._context_id, status=status)

    def carrying(self, told: dict[str, Any], update: Update) -> TaskStatusUpdateEvent:
        """A status update that repeats the state and has a notification in its metadata."""
        event = self._status(self._state, update)
        event.metadata.update({URI: told})
        return event

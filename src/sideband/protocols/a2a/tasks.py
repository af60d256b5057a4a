"""Tasks: each is a session whose named records say that it is one, to whom it belongs and how it ended.

The state of a task is derived from its session, so it can never disagree with the transcript and the inbox. Its history and
its artifacts are the messages of the conversation; reminders are no part of it.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

import msgspec
from a2a.types import (
    Artifact,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.task import (
    ListTasksCursor,
    apply_history_length,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
)
from google.protobuf.timestamp_pb2 import Timestamp

from sideband.core.errors import InvalidOption, SessionBusy, TooManyPending, UnknownSession, shown
from sideband.core.events import Closing
from sideband.core.messages import Message as StoredMessage
from sideband.core.messages import text_of
from sideband.core.state import SessionState
from sideband.core.surfaces import Surface
from sideband.core.topic import TASK_RECORD
from sideband.core.updates import OPERATOR, SessionView
from sideband.loop.run import LoopStatus
from sideband.ports import INDEXED_BYTES, SessionEntry
from sideband.protocols.a2a.auth import Caller
from sideband.protocols.a2a.content import agent_message, blocks_of, message_of
from sideband.runtime.permission import ANSWER_RECORD, answer_record, unanswered
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.store import Store

# Named records of a session that is a task.
KIND_RECORD: Final = "kind"
KIND: Final = "a2a"
OWNER_RECORD: Final = "owner"
CONTEXT_RECORD: Final = "context_id"
SERVICE_RECORD: Final = "service"
"""Which agent the task was given to. Agents that share a store do not run each other's tasks."""
STATE_RECORD: Final = "task_state"
"""The name of the state; `TASK_STATE_SUBMITTED` for every task that has neither ended nor is waiting for input."""
REASON_RECORD: Final = "task_reason"

OPEN: Final = "TASK_STATE_SUBMITTED"
TERMINAL: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
INTERRUPTED: Final = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})

# Why a task failed, for its caller.
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LoopStatus.MAX_TURNS: "The agent used up its turns before it was done.",
        LoopStatus.MAX_TOKENS: "The agent used up its tokens before it was done.",
        LoopStatus.FAILED: "The model of the agent failed.",
        "abandoned": "The process that worked on the task ended, and its work cannot be continued.",
    }
)

# The key of a message that was copied from an earlier task. No request to a model contains it.
COPIED: Final = "copied"

# A peer may have so many tasks that have not ended.
MAX_OPEN_TASKS: Final = 64
_PAGE: Final = 1_000
_NS_PER_MS: Final = 1_000_000


def _failed(reason: str) -> dict[str, Any]:
    # In this order: observers of the state know the reason when they are told of it.
    return {REASON_RECORD: reason, STATE_RECORD: "TASK_STATE_FAILED"}


def _ends(status: str) -> dict[str, Any]:
    return _failed(status) if status in REASONS else {STATE_RECORD: f"TASK_STATE_{status.upper()}"}


CANCELED: Final[Mapping[str, Any]] = MappingProxyType({STATE_RECORD: "TASK_STATE_CANCELED"})
ABANDONED: Final[Mapping[str, Any]] = MappingProxyType(_failed("abandoned"))
CLOSING: Final[Mapping[str, Closing]] = MappingProxyType(
    {
        LoopStatus.COMPLETED: Closing(records=_ends("completed"), ends=True),
        LoopStatus.MAX_TURNS: Closing(records=_ends(LoopStatus.MAX_TURNS), ends=True),
        LoopStatus.MAX_TOKENS: Closing(records=_ends(LoopStatus.MAX_TOKENS), ends=True),
        LoopStatus.FAILED: Closing(records=_ends(LoopStatus.FAILED), ends=True),
        LoopStatus.CANCELLED: Closing(records=dict(CANCELED), ends=True),
        LoopStatus.SUSPENDED: Closing(records={STATE_RECORD: "TASK_STATE_INPUT_REQUIRED"}),
    }
)
"""The state of a task after a run of each status; the commit that ends the run sets it, and ends the session."""


def state_named(name: str) -> TaskState:
    """The state with this name."""
    return cast("TaskState", TaskState.Value(name))


# One task.


class Progress(NamedTuple):
    """What decides the state of a task."""

    recorded: str
    closed: bool
    running: bool
    asks: bool
    waits: bool
    attended: bool = False

    @property
    def state(self) -> TaskState:
        recorded = state_named(self.recorded)
        if self.closed:
            return recorded if recorded in TERMINAL else TaskState.TASK_STATE_CANCELED
        if self.asks:
            return TaskState.TASK_STATE_INPUT_REQUIRED
        if self.running:
            return TaskState.TASK_STATE_WORKING
        return TaskState.TASK_STATE_SUBMITTED if self.waits else recorded


def progress_of(state: SessionState) -> Progress:
    """The progress of a task, from the state of its session."""
    return Progress(
        state.records.get(STATE_RECORD, OPEN),
        state.closed or not state.exists,
        state.running,
        bool(unanswered(state.permissions, state.records, state.live.turn)),
        bool(state.inbox.waiting(None)),
        state.attended,
    )


class Snapshot(NamedTuple):
    """A task as it is after a commit, and the cursor from which the updates of its session continue it.

    `calls` are the tool calls of the last reply, and `asked` those of them that wait for the caller's permission.
    `answers` are the records with answers of the caller, and `turn` is the last turn.
    """

    task: Task
    cursor: int
    calls: Mapping[str, Mapping[str, Any]]
    asked: Sequence[str]
    answers: Collection[str]
    turn: int


def task_of(view: SessionView, changed_at: int) -> Task:
    """The task of a session."""
    records = view.records
    task_id, context_id = records[TASK_RECORD], records.get(CONTEXT_RECORD, "")
    own = own_messages(view.messages)
    asked = unanswered(view.permissions, records, view.turn)
    progress = Progress(
        records.get(STATE_RECORD, OPEN),
        view.closed_reason is not None,
        view.running,
        bool(asked),
        bool(view.waiting),
    )
    queued = [{"role": "user", "id": item.id, "content": list(item.content)} for item in view.waiting]
    history = [message_of(message, task_id, context_id) for message in (*own, *queued)]
    status = TaskStatus(state=progress.state, timestamp=timestamp(changed_at))
    note = status_note(progress.state, records.get(REASON_RECORD), open_calls(view.messages), asked)
    if note:
        status.message.CopyFrom(in_task(agent_message(note, f"{task_id}:status"), task_id, context_id))
    return Task(
        id=task_id,
        context_id=context_id,
        status=status,
        history=[message for message in history if message is not None],
        artifacts=[artifact for message in own if (artifact := artifact_of(message)) is not None],
    )


def own_messages(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The messages without those that were copied from an earlier task of the context."""
    return [message for message in messages if COPIED not in message]


def artifact_of(message: StoredMessage) -> Artifact | None:
    """The artifact of a reply that calls no tools, which is an answer; None for every other message."""
    if message.get("role") != "assistant" or message.get("tool_calls") or not (text := text_of(message)).strip():
        return None
    return Artifact(artifact_id=message.get("id", ""), name="reply", parts=[Part(text=text)])


def open_calls(messages: Sequence[StoredMessage]) -> dict[str, Mapping[str, Any]]:
    """The tool calls of the last reply, by id."""
    last = next((message for message in reversed(messages) if message.get("role") == "assistant"), {})
    return {call["id"]: call for call in last.get("tool_calls", ())}


def status_note(
    state: TaskState, reason: str | None, calls: Mapping[str, Mapping[str, Any]], permissions: Collection[str]
) -> str | None:
    """The text that explains a state to the caller; None if it needs no explanation."""
    if state == TaskState.TASK_STATE_FAILED:
        return REASONS.get(reason or "", REASONS[LoopStatus.FAILED])
    asked = next((calls[call_id] for call_id in permissions if call_id in calls), None)
    if asked is None:
        return None
    args = msgspec.json.encode(asked["args"]).decode()
    return (
        f"The agent asks whether it may call the tool {asked['name']} with {args}. Answer with yes to allow it; any other "
        "answer refuses it."
    )


def in_task(message: Message, task_id: str, context_id: str) -> Message:
    """The message with the ids of its task."""
    message.task_id, message.context_id = task_id, context_id
    return message


def timestamp(milliseconds: int) -> Timestamp:
    found = Timestamp()
    found.FromMilliseconds(milliseconds)
    return found


# The tasks of a store.


class Tasks:
    """The tasks of one agent in a store, as callers may use them; `service` is the name of the agent there."""

    def __init__(self, store: Store, service: str) -> None:
        self.store = store
        self._own = {KIND_RECORD: KIND, SERVICE_RECORD: service}
        # Protects the number of open tasks of a caller: it is counted before a task is begun.
        self._beginning = asyncio.Lock()

    async def begin(self, message: Message, caller: Caller) -> Session:
        """Begin a task with its first message; it is durable when this returns.

        A task in a known context starts from a copy of the conversation of the task of this context that ended last.
        """
        context_id = message.context_id or self.store.new_id()
        if len(context_id.encode()) > INDEXED_BYTES:
            raise InvalidOption(f"message.contextId must have at most {INDEXED_BYTES} bytes", field="message.contextId")
        earlier = await self._conversation(context_id, caller) if message.context_id else ()
        async with self._beginning:
            if not caller.is_operator:
                await self._check_open_tasks(caller)
            return await self._begin(message, caller, context_id, earlier)

    async def _begin(
        self, message: Message, caller: Caller, context_id: str, earlier: Sequence[StoredMessage]
    ) -> Session:
        task_id = self.store.new_id()
        return await self.store.begin(
            task_id,
            attributes={
                **self._own,
                TASK_RECORD: task_id,
                CONTEXT_RECORD: context_id,
                OWNER_RECORD: caller.name,
                STATE_RECORD: OPEN,
            },
            messages=earlier,
            prompt=blocks_of(message),
            sender=caller.as_user,
        )

    async def go_on(self, session: Session, message: Message, caller: Caller) -> None:
        """Send a message to a task that waits for input; `SessionBusy` if it is running or about to run."""
        view = (await session.view(OPERATOR)).view.session
        if message.context_id and view is not None and message.context_id != view.records.get(CONTEXT_RECORD):
            raise InvalidOption(
                f"message.contextId is not the context of task {shown(session.id)}; leave it out",
                field="message.contextId",
                value=message.context_id,
            )
        blocks = blocks_of(message)
        if view is not None and (asked := unanswered(view.permissions, view.records, view.turn)):
            # Of several questions the caller was shown the first.
            name = answer_record(view.turn, asked[0])
            await session.record({name: text_of({"content": blocks})}, only_new=True)
            return
        producer = Producer(session, caller.as_user, surface=Surface.A2A)
        try:
            await producer.prompt(blocks, records={STATE_RECORD: OPEN})
        except SessionBusy:
            raise SessionBusy(
                f"task {shown(session.id)} is running and takes no message until it asks for one or has ended; tell it "
                "something with tasks/inject_reminder, or begin another task in its context",
                field="taskId",
                value=session.id,
            ) from None

    async def find(self, task_id: str, caller: Caller) -> Session:
        """The session of a task; `UnknownSession` if there is none, or if it belongs to another caller."""
        session = await self.store.find(task_id) if 0 < len(task_id) <= INDEXED_BYTES else None
        # These records never change, so that those in memory will do.
        records = {} if session is None else session.talk.state.records
        if session is not None and self._own.items() <= records.items() and _may_use(caller, records):
            return session
        raise UnknownSession(f"there is no task {shown(task_id)}", field="taskId", value=task_id)

    async def snapshot(self, session: Session) -> Snapshot:
        """The task as it is now."""
        entry = await self.store.journal.entry(session.id)
        view, cursor = await session.view(OPERATOR)
        if entry is None or view.session is None or TASK_RECORD not in view.session.records:
            raise UnknownSession(f"there is no task {shown(session.id)}", field="taskId", value=session.id)
        task = task_of(view.session, entry.changed_at)
        records, turn = view.session.records, view.session.turn
        asked = unanswered(view.session.permissions, records, turn)
        answers = [name for name in records if name.startswith(ANSWER_RECORD)]
        return Snapshot(task, cursor, open_calls(view.session.messages), asked, answers, turn)

    async def progress(self, session_id: str) -> Progress:
        """How far a task is, in whichever process it runs."""
        return (await self.store.journal.read(session_id, progress_of)).value

    async def unfinished(self) -> AsyncIterator[SessionEntry]:
        """The tasks of all callers that have neither ended nor are waiting for input."""
        async for entry in self._entries({**self._own, STATE_RECORD: OPEN}):
            yield entry

    async def page(self, wanted: ListTasksRequest, caller: Caller) -> ListTasksResponse:
        """One page of the tasks that the caller may use, those that changed last first."""
        found = [entry async for entry in self._matching(wanted, caller)]
        found.sort(key=_place, reverse=True)
        size = wanted.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        start = 0
        if wanted.page_token:
            cursor = decode_list_tasks_cursor(wanted.page_token)
            if cursor is None:
                raise InvalidOption("pageToken must be the nextPageToken of an earlier page", field="pageToken")
            after = (cursor.timestamp_ns or 0) // _NS_PER_MS, cursor.task_id
            start = next((place for place, entry in enumerate(found) if _place(entry) < after), len(found))
        page = found[start : start + size]
        more = start + size < len(found)
        response = ListTasksResponse(total_size=len(found), page_size=size)
        if more:
            last = page[-1]
            response.next_page_token = encode_list_tasks_cursor(
                ListTasksCursor(last.changed_at * _NS_PER_MS, last.session_id)
            )
        for entry in page:
            session = await self.store.find(entry.session_id)
            if session is not None:
                task = apply_history_length((await self.snapshot(session)).task, wanted)
                if not wanted.include_artifacts:
                    task.ClearField("artifacts")
                response.tasks.append(task)
        return response

    async def _matching(self, wanted: ListTasksRequest, caller: Caller) -> AsyncIterator[SessionEntry]:
        records = dict(self._own)
        if not caller.is_operator:
            records[OWNER_RECORD] = caller.name
        if wanted.context_id:
            records[CONTEXT_RECORD] = wanted.context_id
        # A session that its operator has closed is a canceled task, and keeps the state that it had.
        is_recorded = wanted.status in TERMINAL and wanted.status != TaskState.TASK_STATE_CANCELED
        if is_recorded:
            records[STATE_RECORD] = TaskState.Name(wanted.status)
        oldest = wanted.status_timestamp_after.ToMilliseconds() if wanted.HasField("status_timestamp_after") else 0
        async for entry in self._entries(records):
            if entry.changed_at < oldest:
                continue
            if wanted.status and not is_recorded:
                recorded = state_named(entry.records.get(STATE_RECORD, OPEN))
                state = recorded if recorded in TERMINAL else (await self.progress(entry.session_id)).state
                if state != wanted.status:
                    continue
            yield entry

    async def _entries(self, records: Mapping[str, str]) -> AsyncIterator[SessionEntry]:
        before = None
        while True:
            page = await self.store.sessions(records=records, before=before, limit=_PAGE)
            for entry in page.sessions:
                yield entry
            before = page.next_before
            if before is None:
                return

    async def _check_open_tasks(self, caller: Caller) -> None:
        records = {**self._own, OWNER_RECORD: caller.name, STATE_RECORD: OPEN}
        found = (await self.store.sessions(records=records, limit=MAX_OPEN_TASKS)).sessions
        if len(found) < MAX_OPEN_TASKS:
            return
        # A session that its operator has closed keeps the state that it had.
        open_tasks = [entry for entry in found if not (await self.progress(entry.session_id)).closed]
        if len(open_tasks) == MAX_OPEN_TASKS:
            raise TooManyPending(
                MAX_OPEN_TASKS, MAX_OPEN_TASKS, scope="caller", remedy="wait until a task ends, or cancel one"
            )

    async def _conversation(self, context_id: str, caller: Caller) -> Sequence[StoredMessage]:
        """The messages of the task of this context that ended last; none if no task of it has ended."""
        records = {**self._own, OWNER_RECORD: caller.name, CONTEXT_RECORD: context_id}
        ended = [entry async for entry in self._entries(records) if _has_ended(entry)]
        if not ended:
            return ()
        session = await self.store.find(max(ended, key=_place).session_id)
        view = None if session is None else (await session.view(OPERATOR)).view.session
        return () if view is None else [{**message, COPIED: True} for message in view.messages]


def _may_use(caller: Caller, records: Mapping[str, Any]) -> bool:
    return caller.is_operator or records.get(OWNER_RECORD) == caller.name


def _has_ended(entry: SessionEntry) -> bool:
    return state_named(entry.records.get(STATE_RECORD, OPEN)) in TERMINAL


def _place(entry: SessionEntry) -> tuple[int, str]:
    return entry.changed_at, entry.session_id

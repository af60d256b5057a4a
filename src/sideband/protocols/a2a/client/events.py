"""What a peer says of a task: the task itself, and the events of its stream."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from a2a.types import Artifact, Message, Part, Role, StreamResponse, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

from sideband.logs import LOG
from sideband.protocols.a2a.client.refusals import member
from sideband.protocols.a2a.messages import CarriedDeduped, CarriedEmitted, CarriedExpired, EmittedReminder
from sideband.protocols.a2a.reminders import URI

_PREFIX: Final = "TASK_STATE_"


class PeerState(StrEnum):
    """The state of a task; `unspecified` if the peer does not say it, or if its value is unknown."""

    UNSPECIFIED = "unspecified"
    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    AUTH_REQUIRED = "auth_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to the task."""
        return self in _OVER

    @property
    def needs_input(self) -> bool:
        """Whether the task waits for a message of its caller."""
        return self in _INTERRUPTED


_OVER: Final = frozenset({PeerState.COMPLETED, PeerState.FAILED, PeerState.CANCELED, PeerState.REJECTED})
_INTERRUPTED: Final = frozenset({PeerState.INPUT_REQUIRED, PeerState.AUTH_REQUIRED})


class PeerStatus(NamedTuple):
    """A task has a state; `note` is what the agent says about it (None: nothing)."""

    task_id: str
    state: PeerState
    note: str | None


class PeerArtifact(NamedTuple):
    """A result of a task, or with `append` a further piece of it."""

    task_id: str
    artifact_id: str
    name: str
    text: str
    append: bool = False
    last_chunk: bool = True


class PeerTask(NamedTuple):
    """A task of a peer as it was when it was read; `details` is the whole object of the SDK.

    A peer may answer with a message and no task. Then `id` is empty, the state is `completed`, and the text is that of the
    message.
    """

    id: str
    context_id: str
    status: PeerStatus
    artifacts: tuple[PeerArtifact, ...]
    details: Task | Message

    @property
    def state(self) -> PeerState:
        """Its state."""
        return self.status.state

    @property
    def text(self) -> str:
        """The text of its artifacts; without any, what the agent said last."""
        texts = [artifact.text for artifact in self.artifacts if artifact.text]
        if not texts and self.status.note:
            texts = [self.status.note]
        if not texts and isinstance(self.details, Task):
            said = [message for message in self.details.history if message.role == Role.ROLE_AGENT]
            texts = [_text(said[-1].parts)] if said else []
        return "\n\n".join(texts)


PeerReminder: TypeAlias = CarriedEmitted | CarriedDeduped | CarriedExpired
"""What happened to a reminder of a task."""

PeerEvent: TypeAlias = PeerTask | PeerStatus | PeerArtifact | PeerReminder


# From the SDK.


def task_of(answer: Task | Message) -> PeerTask:
    """What a peer answered to a message, or to a question about a task; `ValueError` for a task without an id."""
    if isinstance(answer, Message):
        said = PeerStatus(answer.task_id, PeerState.COMPLETED, _text(answer.parts) or None)
        return PeerTask("", answer.context_id, said, (), answer)
    if not answer.id:
        raise ValueError("the task has no id")
    return PeerTask(
        answer.id,
        answer.context_id,
        _status(answer.id, answer.status),
        tuple(_artifact(answer.id, artifact) for artifact in answer.artifacts),
        answer,
    )


class EventReader:
    """Reads the events of one stream."""

    def __init__(self) -> None:
        self._state: PeerState | None = None

    def read(self, event: StreamResponse) -> Iterator[PeerEvent]:
        """What an event says; nothing if this client does not know its kind."""
        match event.WhichOneof("payload"):
            case "task":
                task = task_of(event.task)
                self._state = task.state
                yield task
            case "message":
                yield task_of(event.message)
            case "artifact_update":
                update = event.artifact_update
                yield _artifact(update.task_id, update.artifact)._replace(
                    append=update.append, last_chunk=update.last_chunk
                )
            case "status_update":
                status = _status(event.status_update.task_id, event.status_update.status)
                told = read_notification(event.status_update.metadata, status.task_id)
                # A status that carries a notification repeats the state.
                if told is None or status.state is not self._state or status.note is not None:
                    self._state = status.state
                    yield status
                if told is not None:
                    yield told


def _status(task_id: str, status: TaskStatus) -> PeerStatus:
    note = _text(status.message.parts) if status.HasField("message") else ""
    name = TaskState.Name(status.state).removeprefix(_PREFIX).lower() if status.state in TaskState.values() else ""
    return PeerStatus(task_id, PeerState(name) if name in tuple(PeerState) else PeerState.UNSPECIFIED, note or None)


def _artifact(task_id: str, artifact: Artifact) -> PeerArtifact:
    return PeerArtifact(task_id, artifact.artifact_id, artifact.name, _text(artifact.parts))


def _text(parts: Iterable[Part]) -> str:
    return "\n".join(filter(None, map(_part, parts)))


def _part(part: Part) -> str:
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return msgspec.json.encode(whole(MessageToDict(part.data))).decode()
        case "url":
            return part.url
        case _:
            return f"[file {part.filename}]" if part.filename else ""


# Notifications about reminders.


def read_notification(metadata: Struct, task_id: str) -> PeerReminder | None:
    """The notification in the metadata of a status update; None if there is none that can be read."""
    plain = whole(MessageToDict(metadata))
    told = plain.get(URI)
    if not isinstance(told, dict):
        record = member(plain, "harn", "reminder")
        return _from_record(record, task_id) if isinstance(record, dict) else None
    told.setdefault("metadata", {})
    try:
        read: PeerReminder = msgspec.convert(told, type=PeerReminder)
    except msgspec.ValidationError as error:
        LOG.warning("the peer sent a notification that cannot be read: %s", error)
        return None
    return read


def whole(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value with its integers: a `Struct` of protobuf has no integers, so that 2 arrives as 2.0."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: whole(item) for name, item in value.items()}
        case list():
            return [*map(whole, value)]
        case _:
            return value


def _from_record(record: Mapping[str, Any], task_id: str) -> CarriedEmitted | None:
    """A reminder that was shown, as agents from before the proposal report it."""
    reminder_id, body = record.get("id"), record.get("body")
    if not isinstance(reminder_id, str) or not isinstance(body, str):
        return None
    source, tags = record.get("source"), record.get("tags")
    key, turn = (record.get(camel, record.get(snake)) for camel, snake in _SPELLINGS)
    return CarriedEmitted(
        task_id=task_id,
        reminder=EmittedReminder(
            id=reminder_id,
            body=body,
            tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else None,
            dedupe_key=key if isinstance(key, str) else None,
            source=source if isinstance(source, str) else "",
            fired_at_turn=turn if isinstance(turn, int) else 0,
        ),
        metadata={},
    )


_SPELLINGS: Final = (("dedupeKey", "dedupe_key"), ("firedAtTurn", "fired_at_turn"))

"""A transcript as a value: durable messages beside the events that are not messages.

The functions here are the lifecycle's own decisions applied to a copy; none changes its input, none touches messages
except compaction, and each returns the events a log would record.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.draft import mint
from sideband.core.errors import InvalidOption, shown
from sideband.core.events import Event
from sideband.core.inbox import check_body_size
from sideband.core.lenient import read_leniently
from sideband.core.lifecycle import OpenRequest, Selector, clear, close_turn, compact, inject, plan_compaction
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.live import LiveIndex
from sideband.core.parse import parse
from sideband.core.propagation import Handoff, propagate
from sideband.core.reminder import Reminder, ReminderId, Source, as_dict
from sideband.core.state import SessionState, fold
from sideband.core.surfaces import Surface
from sideband.core.trust import IN_PROCESS, Trust

Message: TypeAlias = dict[str, Any]
NewId: TypeAlias = Callable[[], str]

REMINDER_KIND: Final = "system_reminder"
DEFAULT_KEEP_LAST: Final = 8


class Visibility(StrEnum):
    """`internal` events are for the record only: no lifecycle rule ever touches them."""

    PUBLIC = "public"
    INTERNAL = "internal"


class TranscriptEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a transcript; `reminder=None` is an event of another kind, which is carried along untouched."""

    id: str
    kind: str
    role: str
    visibility: Visibility = Visibility.PUBLIC
    text: str = ""
    reminder: Reminder | None = None

    def as_dict(self) -> dict[str, Any]:
        """The event as observers read it: the payload stands in `reminder` and, for generic readers, in `metadata`."""
        shape: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "role": self.role,
            "visibility": self.visibility.value,
            "text": self.text,
            "blocks": [{"type": "text", "text": self.text, "visibility": self.visibility.value}],
        }
        if self.reminder is not None:
            shape["reminder"] = as_dict(self.reminder)
            shape["metadata"] = as_dict(self.reminder)
        return shape


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """The durable messages of a conversation, and its events."""

    messages: tuple[Message, ...] = ()
    events: tuple[TranscriptEvent, ...] = ()

    @property
    def reminders(self) -> tuple[Reminder, ...]:
        """The live reminders, in transcript order."""
        return tuple(event.reminder for event in self.events if event.reminder is not None and _is_live(event))


def _is_live(event: TranscriptEvent) -> bool:
    return event.kind == REMINDER_KIND and event.visibility is Visibility.PUBLIC


def reminder_event(reminder: Reminder, *, event_id: str, visibility: Visibility = Visibility.PUBLIC) -> TranscriptEvent:
    """The transcript event of a reminder, with an id of its own."""
    return TranscriptEvent(
        id=event_id,
        kind=REMINDER_KIND,
        role=reminder.role_hint.value,
        visibility=visibility,
        text=reminder.body,
        reminder=reminder,
    )


def transcript_reminder_event(payload: Mapping[str, object], *, new_id: NewId) -> TranscriptEvent:
    """The event of a reminder-like mapping, leniently: what cannot be used becomes its default."""
    return reminder_event(read_leniently(payload, new_id=new_id), event_id=new_id())


# Loading and unloading.


def _loaded(transcript: Transcript, *, turn: int = 0, ages: Callable[[Reminder], bool]) -> SessionState:
    """The transcript as a session state in which those that age have their TTL running."""
    state = SessionState()
    state.live = LiveIndex(turn=turn)
    for reminder in transcript.reminders:
        if reminder.id in state.live:
            raise InvalidOption(
                f"reminder {shown(reminder.id)} stands twice in the transcript", field="id", value=reminder.id
            )
        item = state.live.add(reminder, IN_PROCESS)
        if ages(reminder):
            state.live.show(item, turn + 1)
    return state


def _never(_reminder: Reminder) -> bool:
    return False


def _unloaded(
    transcript: Transcript,
    state: SessionState,
    *,
    new_id: NewId | None = None,
    messages: Sequence[Message] | None = None,
) -> Transcript:
    """The transcript with its reminders as the state has them now."""
    live = {item.id: state.live.current(item) for item in state.live}
    events: list[TranscriptEvent] = []
    for event in transcript.events:
        if event.reminder is None or not _is_live(event):
            events.append(event)
            continue
        current = live.pop(event.reminder.id, None)
        if current is event.reminder:
            events.append(event)
        elif current is not None:
            events.append(reminder_event(current, event_id=event.id))
    if new_id is not None:
        events.extend(reminder_event(reminder, event_id=new_id()) for reminder in live.values())
    kept = transcript.messages if messages is None else tuple(messages)
    return Transcript(messages=kept, events=tuple(events))


# The transforms.


class InjectedReminder(NamedTuple):
    transcript: Transcript
    reminder_id: ReminderId
    deduped_count: int
    events: tuple[Event, ...]


def inject_reminder(
    transcript: Transcript, options: Mapping[str, object], *, new_id: NewId, limits: Limits = DEFAULT_LIMITS
) -> InjectedReminder:
    """A transcript that has the new reminder at its end and no older one of its key."""
    draft = parse(options, Surface.PIPELINE, limits=limits)
    check_body_size(draft, Trust.OPERATOR, limits)
    state = _loaded(transcript, ages=_never)
    reminder = mint(draft, reminder_id=ReminderId(new_id()), source=Source.IN_PIPELINE)
    events = inject(state.live, reminder)
    after = _unloaded(transcript, fold(events, state), new_id=new_id)
    return InjectedReminder(after, reminder.id, len(events) - 1, events)


class ClearedReminders(NamedTuple):
    transcript: Transcript
    removed_count: int
    events: tuple[Event, ...]


def clear_reminders(transcript: Transcript, selector: Selector) -> ClearedReminders:
    """A transcript without the reminders that match every part of the selector."""
    state = _loaded(transcript, ages=_never)
    events = clear(state.live, selector)
    return ClearedReminders(_unloaded(transcript, fold(events, state)), len(events), events)


class EndedTurn(NamedTuple):
    transcript: Transcript
    expired_ids: tuple[str, ...]
    events: tuple[Event, ...]


def end_turn(transcript: Transcript, turn: int) -> EndedTurn:
    """The post-turn pass: what was there by this turn is one turn older, and ends when that was its last."""
    if type(turn) is not int:
        raise InvalidOption(f"turn must be a whole number, not {shown(turn)}", field="turn", value=turn)
    state = _loaded(transcript, turn=turn - 1, ages=lambda reminder: reminder.fired_at_turn <= turn)
    events = close_turn(state.live, OpenRequest(turn=turn))[1:]
    expired = tuple(item.id for item in state.live.due(turn))
    state.live.turn = turn
    return EndedTurn(_unloaded(transcript, fold(events, state)), expired, events)


def propagate_reminders(transcript: Transcript, *, agent_id: str) -> Handoff:
    """What a handoff from this transcript carries to a sub-agent."""
    return propagate(_loaded(transcript, ages=_never).live, agent_id=agent_id)


# Compaction.


class Strategy(StrEnum):
    SUMMARIZE = "summarize"
    KEEP_LAST = "keep_last"
    CUSTOM = "custom"


Summarizer: TypeAlias = Callable[[Sequence[Message]], str]
CustomCompactor: TypeAlias = Callable[[Sequence[Message], Sequence[Reminder]], object]


class CompactedTranscript(NamedTuple):
    """`archived_messages` is 0 where there was nothing to compact; then the transcript is the one that was given."""

    transcript: Transcript
    archived_messages: int
    events: tuple[Event, ...]


def transcript_compact(
    transcript: Transcript,
    *,
    strategy: str = Strategy.SUMMARIZE,
    keep_last: int = DEFAULT_KEEP_LAST,
    summarizer: Summarizer | None = None,
    custom_compactor: CustomCompactor | None = None,
) -> CompactedTranscript:
    """A shorter transcript: a summary, the tail that was kept, and the reminders that asked to be preserved."""
    if type(keep_last) is not int or keep_last < 0:
        raise InvalidOption(
            f"keep_last must be a whole number from 0 on, not {shown(keep_last)}", field="keep_last", value=keep_last
        )
    state = _loaded(transcript, ages=lambda _reminder: True)
    plan = plan_compaction(state.live)
    if strategy == Strategy.CUSTOM:
        messages = _custom(transcript, plan.survivors, custom_compactor)
        unchanged = messages == tuple(transcript.messages)
        archived = 0 if unchanged else max(1, len(transcript.messages) - len(messages))
    else:
        start = tail_start(transcript.messages, keep_last)
        summary = _summary(transcript.messages[:start], strategy, summarizer)
        messages = (*summary, *transcript.messages[start:])
        archived = start
    events = compact(state.live, plan, archived_messages=archived)
    if not events:
        return CompactedTranscript(transcript, 0, ())
    return CompactedTranscript(_unloaded(transcript, fold(events, state), messages=messages), archived, events)


def tail_start(messages: Sequence[Message], keep_last: int) -> int:
    """Where the kept tail begins: it never begins with the result of a tool call that is not in it."""
    start = max(0, len(messages) - keep_last)
    while 0 < start < len(messages) and messages[start].get("role") == "tool":
        start -= 1
    return start


def _summary(archived: Sequence[Message], strategy: str, summarizer: Summarizer | None) -> tuple[Message, ...]:
    if strategy not in (Strategy.SUMMARIZE, Strategy.KEEP_LAST):
        words = ", ".join(repr(word.value) for word in Strategy)
        raise InvalidOption(f"strategy must be one of {words}, not {shown(strategy)}", field="strategy", value=strategy)
    if strategy == Strategy.KEEP_LAST or not archived:
        return ()
    if summarizer is None:
        raise InvalidOption("strategy 'summarize' needs a summarizer", field="summarizer")
    return ({"role": "system", "content": summarizer(archived)},)


def _custom(
    transcript: Transcript, survivors: Sequence[Reminder], compactor: CustomCompactor | None
) -> tuple[Message, ...]:
    if compactor is None:
        raise InvalidOption("strategy 'custom' needs a custom_compactor", field="custom_compactor")
    result = compactor(transcript.messages, survivors)
    # Reminder events in the result are ignored: what survives was decided before the compactor was asked.
    if isinstance(result, Transcript):
        return tuple(result.messages)
    if isinstance(result, Mapping):
        result = result.get("messages")
    if isinstance(result, list | tuple) and all(isinstance(message, dict) for message in result):
        return tuple(result)
    raise InvalidOption(
        f"a custom compactor must return a transcript or its messages, not {shown(result)}",
        field="custom_compactor",
        value=result,
    )

"""Transcripts as values: the durable messages of a conversation, and its reminders as events.

The functions apply the decisions of the lifecycle to a copy. None changes its input, only compaction changes messages,
and each returns the events that a journal would record.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.accept import Selector, check_body_size, clear
from sideband.core.apply import fold
from sideband.core.compacted import fault_in_compacted
from sideband.core.errors import InvalidOption, TooManyPending, shown
from sideband.core.events import AuditRecorded, Compacted, Event, Injected
from sideband.core.lifecycle import archived_count, go_live, plan_compaction
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.live import LiveIndex
from sideband.core.messages import Message
from sideband.core.parse import parse, read_leniently, read_record
from sideband.core.propagation import Handoff, propagate
from sideband.core.reminder import Reminder, ReminderId, Source, mint
from sideband.core.serialize import JsonRecord
from sideband.core.state import Decided, OpenRequest, SessionState
from sideband.core.surfaces import Surface
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.core.turn import begin, close_turn

NewId: TypeAlias = Callable[[], str]

REMINDER_KIND: Final = "system_reminder"
DEFAULT_KEEP_LAST: Final = 8


class Visibility(StrEnum):
    """`internal` events are only a record; no lifecycle rule applies to them."""

    PUBLIC = "public"
    INTERNAL = "internal"


class TranscriptEvent(JsonRecord, msgspec.Struct, frozen=True, kw_only=True):
    """One event of a transcript. With `reminder=None` it is of another kind and is kept unchanged.

    `provenance` is where the reminder came from (None: this program); its trust level decides how it is rendered.
    """

    id: str
    kind: str
    role: str
    visibility: Visibility = Visibility.PUBLIC
    text: str = ""
    reminder: Reminder | None = None
    provenance: Provenance | None = None

    def as_dict(self) -> dict[str, Any]:
        """The event as observers read it; `metadata` repeats `reminder` for readers that know no reminders."""
        shape: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "role": self.role,
            "visibility": self.visibility.value,
            "text": self.text,
            "blocks": _blocks(self.text, self.visibility.value),
        }
        if self.reminder is not None:
            shape["reminder"] = self.reminder.as_dict()
            shape["metadata"] = self.reminder.as_dict()
        if self.provenance is not None:
            shape["provenance"] = msgspec.to_builtins(self.provenance)
        return shape

    @classmethod
    def _prepared(cls, given: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        fields = dict(given)
        own = fields.get("reminder")
        if isinstance(own, dict):
            fields["reminder"] = Reminder._prepared(own, f"{where}reminder.")  # noqa: SLF001 - a record like this one
        blocks = _blocks(fields.get("text", ""), fields.get("visibility", "public"))
        for name, source, expected in (("blocks", "text", blocks), ("metadata", "reminder", own)):
            value = fields.pop(name, None)
            if value is not None and value != expected and _is_readable(fields):
                raise InvalidOption(
                    f"{where}{name} must repeat {source}, not {shown(value)}; it may be left out",
                    field=f"{where}{name}",
                    value=value,
                )
        return fields


_OWN_FIELDS: Final = frozenset(TranscriptEvent.__struct_fields__)
_REPEATED_FIELDS: Final = frozenset({"blocks", "metadata"})


def _is_readable(fields: Mapping[str, Any]) -> bool:
    """Whether the fields of an event are right; if not, the error must name the wrong one and not what repeats it."""
    if not fields.keys() <= _OWN_FIELDS | _REPEATED_FIELDS:
        return False
    try:
        msgspec.convert({name: fields[name] for name in _OWN_FIELDS & fields.keys()}, type=TranscriptEvent)
    except msgspec.ValidationError:
        return False
    return True


def _blocks(text: object, visibility: object) -> list[dict[str, object]]:
    return [{"type": "text", "text": text, "visibility": visibility}]


class Transcript(JsonRecord, msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: its durable messages and its events."""

    messages: tuple[Message, ...] = ()
    events: tuple[TranscriptEvent, ...] = ()

    @property
    def reminders(self) -> tuple[Reminder, ...]:
        """The live reminders, in transcript order."""
        return tuple(event.reminder for event in self.events if event.reminder is not None and _is_live(event))

    def as_dict(self) -> dict[str, Any]:
        messages: list[Any] = msgspec.to_builtins(self.messages)
        return {"messages": messages, "events": [event.as_dict() for event in self.events]}

    @classmethod
    def _prepared(cls, given: Mapping[str, Any], _where: str) -> Mapping[str, Any]:
        events = given.get("events")
        if not isinstance(events, list):
            return given
        prepare = TranscriptEvent._prepared  # noqa: SLF001 - a record like this one
        read = [
            prepare(event, f"events[{place}].") if isinstance(event, dict) else event
            for place, event in enumerate(events)
        ]
        return {**given, "events": read}


def _is_live(event: TranscriptEvent) -> bool:
    return event.kind == REMINDER_KIND and event.visibility is Visibility.PUBLIC


def reminder_event(
    reminder: Reminder,
    *,
    event_id: str,
    visibility: Visibility = Visibility.PUBLIC,
    provenance: Provenance | None = None,
) -> TranscriptEvent:
    """The transcript event of a reminder, with an id of its own."""
    return TranscriptEvent(
        id=event_id,
        kind=REMINDER_KIND,
        role=reminder.role_hint.value,
        visibility=visibility,
        text=reminder.body,
        reminder=reminder,
        provenance=provenance,
    )


def transcript_reminder_event(payload: Mapping[str, object], *, new_id: NewId) -> TranscriptEvent:
    """The event of a reminder-like mapping. A field with a wrong value gets its default instead of an error."""
    return reminder_event(read_leniently(payload, new_id=new_id), event_id=new_id())


# Between transcripts and states.


def _load(transcript: Transcript, *, turn: int = 0, ages: Callable[[Reminder], bool]) -> SessionState:
    """A session state with the transcript's reminders; those for which `ages` is true count as shown."""
    state = SessionState()
    state.live = LiveIndex(turn=turn)
    for reminder, provenance in _live_reminders(transcript):
        item = state.live.add(reminder, provenance)
        if ages(reminder):
            state.live.show(item, turn + 1)
    return state


def _live_reminders(transcript: Transcript) -> Iterator[tuple[Reminder, Provenance]]:
    """The live reminders with their provenance, in transcript order; `InvalidOption` if two have the same id."""
    seen: set[str] = set()
    for event in transcript.events:
        if event.reminder is None or not _is_live(event):
            continue
        if event.reminder.id in seen:
            raise InvalidOption(
                f"the transcript has two reminders with id {shown(event.reminder.id)}",
                field="id",
                value=event.reminder.id,
            )
        seen.add(event.reminder.id)
        yield event.reminder, event.provenance or IN_PROCESS


def transcript_of(state: SessionState) -> Transcript:
    """The conversation of a session, its live reminders and its audit records, as they stand now."""
    live = [
        reminder_event(
            state.live.current(item),
            event_id=f"{item.id}/live",
            visibility=Visibility.PUBLIC,
            provenance=_origin(item.provenance),
        )
        for item in state.live
    ]
    audit = [
        reminder_event(
            entry.reminder,
            event_id=f"{entry.reminder.id}/audit",
            visibility=Visibility.INTERNAL,
            provenance=_origin(entry.provenance),
        )
        for entry in state.audit
    ]
    # Copies: the caller may change the messages.
    return Transcript(messages=tuple(map(msgspec.to_builtins, state.messages)), events=(*live, *audit))


def _origin(provenance: Provenance) -> Provenance | None:
    """What a transcript says of the origin: not what the sender wrote about itself; None for this program."""
    origin = msgspec.structs.replace(provenance, claims={}, requested={}, meta={})
    return None if origin == IN_PROCESS else origin


def live_index(transcript: Transcript) -> LiveIndex:
    """The live reminders of a transcript, none of them shown yet."""
    return _load(transcript, ages=_never).live


def begin_with(
    state: SessionState,
    transcript: Transcript,
    *,
    attributes: Mapping[str, Any],
    messages: tuple[Message, ...],
    limits: Limits = DEFAULT_LIMITS,
) -> Decided[bool]:
    """Begin a session with the live reminders and the audit records of a transcript; return False if it exists.

    `messages` are those of the transcript. Ids, flags and provenance stay the same, and the TTLs are those that are left.
    A reminder that the session would not have accepted is refused.
    """
    begun = begin(state, attributes=attributes, messages=messages)
    if not begun.value:
        return begun
    transcript = _checked(transcript, limits)
    live: dict[Hashable, Event] = {}
    for reminder, provenance in _live_reminders(transcript):
        # A transcript built by hand may hold a key twice, which a session never does; the newest wins.
        slot = reminder.id if reminder.dedupe_key is None else (provenance.namespace, reminder.dedupe_key)
        live.pop(slot, None)
        live[slot] = Injected(reminder=reminder, provenance=provenance)
    most = limits.pending_per_session + limits.reserved_for_interrupts
    if len(live) > most:
        raise TooManyPending(len(live), most, scope="transcript", remedy="leave some out of the transcript")
    audit = [
        AuditRecorded(reminder=event.reminder, provenance=event.provenance or IN_PROCESS, turn=0)
        for event in transcript.events
        if event.reminder is not None and not _is_live(event)
    ]
    return Decided((*begun.events, *live.values(), *audit), value=True)


def _checked(transcript: Transcript, limits: Limits) -> Transcript:
    """The transcript with its reminders as a session would have accepted them; the first wrong field is refused."""
    events: list[TranscriptEvent] = []
    for place, event in enumerate(transcript.events):
        if event.reminder is None or event.kind != REMINDER_KIND:
            raise InvalidOption(
                f"a session keeps messages and reminders, and has no place for event {shown(event.id)} of the kind "
                f"{shown(event.kind)}; leave it out of the transcript",
                field="transcript",
                value=event.kind,
            )
        where = f"events[{place}].reminder."
        reminder = read_record(event.reminder, where=where, limits=limits)
        # A sub-agent may trust its copy less than the session trusted the reminder that it accepted.
        trust = Trust.OPERATOR if reminder.source is Source.INHERITED else (event.provenance or IN_PROCESS).trust
        check_body_size(reminder.body, trust, limits, field=f"{where}body")
        events.append(msgspec.structs.replace(event, reminder=reminder))
    return Transcript(messages=transcript.messages, events=tuple(events))


def _never(_reminder: Reminder) -> bool:
    return False


def _unload(
    transcript: Transcript,
    state: SessionState,
    *,
    new_id: NewId | None = None,
    messages: Sequence[Message] | None = None,
) -> Transcript:
    """The transcript with the reminders that are live in the state, and their remaining TTLs."""
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
            events.append(reminder_event(current, event_id=event.id, provenance=event.provenance))
    if new_id is not None:
        events.extend(reminder_event(reminder, event_id=new_id()) for reminder in live.values())
    kept = transcript.messages if messages is None else tuple(messages)
    return Transcript(messages=kept, events=tuple(events))


# The transforms.


class InjectedReminder(NamedTuple):
    """The transcript with the new reminder, its id, and how many older ones of its key it replaced."""

    transcript: Transcript
    reminder_id: ReminderId
    deduped_count: int


def inject_reminder(
    transcript: Transcript, options: Mapping[str, object], *, new_id: NewId, limits: Limits = DEFAULT_LIMITS
) -> Decided[InjectedReminder]:
    """Append a reminder and remove the older ones with the same dedupe key."""
    draft = parse(options, Surface.PIPELINE, limits=limits)
    check_body_size(draft.body, Trust.OPERATOR, limits)
    state = _load(transcript, ages=_never)
    reminder = mint(draft, reminder_id=ReminderId(new_id()), source=Source.IN_PIPELINE)
    events = go_live(state, reminder, IN_PROCESS)
    after = _unload(transcript, fold(events, state), new_id=new_id)
    return Decided(events, InjectedReminder(after, reminder.id, len(events) - 1))


class ClearedReminders(NamedTuple):
    """The transcript without the reminders that matched, and how many those were."""

    transcript: Transcript
    removed_count: int


def clear_reminders(transcript: Transcript, selector: Selector) -> Decided[ClearedReminders]:
    """Remove the reminders that match every part of the selector."""
    state = _load(transcript, ages=_never)
    events, removed = clear(state, selector, IN_PROCESS)
    return Decided(events, ClearedReminders(_unload(transcript, fold(events, state)), removed))


class EndedTurn(NamedTuple):
    """The transcript one turn older, and the ids of the reminders whose last turn that was."""

    transcript: Transcript
    expired_ids: tuple[str, ...]


def end_turn(transcript: Transcript, turn: int) -> Decided[EndedTurn]:
    """The post-turn pass: reminders with `fired_at_turn` up to `turn` age by one turn, and expire after their last."""
    if type(turn) is not int:
        raise InvalidOption(f"turn must be a whole number, not {shown(turn)}", field="turn", value=turn)
    state = _load(transcript, turn=turn - 1, ages=lambda reminder: reminder.fired_at_turn <= turn)
    state.request = OpenRequest(turn=turn)
    events = tuple(close_turn(state, reply=None, usage=None).events[1:])
    expired = tuple(item.id for item in state.live.due(turn))
    state.live.turn = turn
    return Decided(events, EndedTurn(_unload(transcript, fold(events, state)), expired))


def propagate_reminders(transcript: Transcript, *, agent_id: str) -> Handoff:
    """The reminders that a handoff from this transcript gives to a sub-agent."""
    return propagate(_load(transcript, ages=_never), agent_id=agent_id, limits=DEFAULT_LIMITS)


# Compaction.


class Strategy(StrEnum):
    SUMMARIZE = "summarize"
    KEEP_LAST = "keep_last"
    CUSTOM = "custom"


Summarizer: TypeAlias = Callable[[Sequence[Message]], str]
CustomCompactor: TypeAlias = Callable[[Sequence[Message], Sequence[Reminder]], object]


class CompactedTranscript(NamedTuple):
    """If there was nothing to compact, `archived_messages` is 0 and `transcript` is the one that was passed in."""

    transcript: Transcript
    archived_messages: int


def transcript_compact(
    transcript: Transcript,
    *,
    strategy: str = Strategy.SUMMARIZE,
    keep_last: int = DEFAULT_KEEP_LAST,
    summarizer: Summarizer | None = None,
    custom_compactor: CustomCompactor | None = None,
) -> Decided[CompactedTranscript]:
    """Compact a transcript to a summary, its last messages, and the reminders with `preserve_on_compact`."""
    if type(keep_last) is not int or keep_last < 0:
        raise InvalidOption(
            f"keep_last must be a whole number of at least 0, not {shown(keep_last)}",
            field="keep_last",
            value=keep_last,
        )
    state = _load(transcript, ages=lambda _reminder: True)
    plan = plan_compaction(state)
    if strategy == Strategy.CUSTOM:
        messages = _compact_by(transcript, plan.survivors, custom_compactor)
        archived = archived_count(transcript.messages, messages)
    else:
        start = tail_start(transcript.messages, keep_last)
        summary = _summarize(transcript.messages[:start], strategy, summarizer)
        messages = (*summary, *transcript.messages[start:])
        archived = start
    if not archived:
        return Decided((), CompactedTranscript(transcript, 0))
    events = (*plan.events, Compacted(turn=state.live.turn, archived_messages=archived))
    return Decided(events, CompactedTranscript(_unload(transcript, fold(events, state), messages=messages), archived))


def tail_start(messages: Sequence[Message], keep_last: int) -> int:
    """The index of the first message to keep; a tool result is never kept without its tool call."""
    start = max(0, len(messages) - keep_last)
    while 0 < start < len(messages) and messages[start].get("role") == "tool":
        start -= 1
    return start


def _summarize(archived: Sequence[Message], strategy: str, summarizer: Summarizer | None) -> tuple[Message, ...]:
    if strategy not in (Strategy.SUMMARIZE, Strategy.KEEP_LAST):
        words = ", ".join(repr(word.value) for word in Strategy)
        raise InvalidOption(f"strategy must be one of {words}, not {shown(strategy)}", field="strategy", value=strategy)
    if strategy == Strategy.KEEP_LAST or not archived:
        return ()
    if summarizer is None:
        raise InvalidOption("strategy 'summarize' needs a summarizer; pass summarizer=", field="summarizer")
    return ({"role": "system", "content": summarizer(archived)},)


def _compact_by(
    transcript: Transcript, survivors: Sequence[Reminder], compactor: CustomCompactor | None
) -> tuple[Message, ...]:
    if compactor is None:
        raise InvalidOption("strategy 'custom' needs a compactor; pass custom_compactor=", field="custom_compactor")
    messages = read_compacted(compactor(transcript.messages, survivors))
    wrong = fault_in_compacted(transcript.messages, messages)
    if wrong is not None:
        raise InvalidOption(wrong, field="custom_compactor", value=messages)
    return tuple(messages)


# What a compactor may return.


def read_compacted(returned: object) -> Sequence[Message]:
    """The messages in what a compactor returned: a list of messages, a `Transcript`, or a mapping with `messages`.

    Reminder events in it are ignored: which reminders survive was decided before the compactor ran.
    """
    messages = returned
    if isinstance(returned, Transcript):
        messages = returned.messages
    elif isinstance(returned, Mapping):
        messages = returned.get("messages")
    if not isinstance(messages, list | tuple) or not all(isinstance(message, dict) for message in messages):
        raise InvalidOption(
            f"a custom compactor must return a list of messages or a transcript, not {shown(returned)}",
            field="custom_compactor",
            value=returned,
        )
    return messages

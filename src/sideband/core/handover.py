"""Hand reminders and messages over to an agent that keeps a conversation of its own.

A turn is one prompt. What the agent was given stays in its conversation, so it is given once: with the prompt, or while
the turn runs. The session's record `handover` says what is still owed to the agent, so that nothing is lost with the
process that hands it over.
"""

from collections.abc import Container
from copy import deepcopy
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.drain import drained, replaced_once, waiting_at
from sideband.core.events import (
    Checkpoint,
    Compacted,
    Deduped,
    Deferred,
    Event,
    Fired,
    InboxItem,
    Injected,
    QueuedMessage,
    Recorded,
    RequestCommitted,
    Started,
)
from sideband.core.lifecycle import audited, plan_compaction
from sideband.core.live import LiveItem
from sideband.core.reminder import Reminder
from sideband.core.seams import Mode, Seam
from sideband.core.state import Decided, SessionState
from sideband.core.trust import Provenance
from sideband.core.turn import close_turn, idled

RECORD: Final = "handover"
ROLE: Final = "user"
VIA: Final = "proxy"


class Owed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record `handover`.

    `messages` are delivered user messages that the agent does not have yet. `given` are reminders that it has, and that no
    committed turn has shown. `again` are reminders that it had before it compacted its conversation.
    """

    messages: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


class GivenReminder(NamedTuple):
    """A reminder for the agent. `turns` is the number of turns that it holds for; None until it is withdrawn."""

    id: str
    reminder: Reminder
    provenance: Provenance
    turns: int | None


class GivenMessage(NamedTuple):
    """A user message for the agent."""

    id: str
    content: tuple[dict[str, Any], ...]


Given: TypeAlias = GivenReminder | GivenMessage


class OpenedPrompt(NamedTuple):
    """The number of a turn, and what its prompt hands over, in order."""

    turn: int
    given: tuple[Given, ...]


class NotStarted(Enum):
    """Why the turn of a prompt was not opened."""

    CLOSED = auto()
    """The session is closed or deleted."""
    LEFT_OPEN = auto()
    """A process that died has left a turn open; settle it first."""


def owed(state: SessionState) -> Owed:
    """What the record `handover` says; without the record, nothing is owed."""
    try:
        return msgspec.convert(state.records.get(RECORD, {}), Owed)
    except msgspec.ValidationError:
        return Owed()


def _recorded(before: Owed, after: Owed) -> tuple[Event, ...]:
    if after == before:
        return ()
    return (Recorded(name=RECORD, value=None if after == Owed() else msgspec.to_builtins(after)),)


# The prompt.


def open_prompt(
    state: SessionState, *, in_front: bool = True, withheld: Container[str] = ()
) -> Decided[OpenedPrompt | NotStarted]:
    """Start the turn of a prompt: drain the inbox, and record what the prompt hands over before any byte of it leaves.

    Without `in_front` the prompt goes to the agent as it is, and everything waits for the next one. `withheld` are items
    on their way to the agent that it has not answered yet.
    """
    if state.closed or state.deleted:
        return Decided((), NotStarted.CLOSED)
    if state.running or state.request is not None:
        return Decided((), NotStarted.LEFT_OPEN)
    turn, before = state.live.turn + 1, owed(state)
    taken: tuple[InboxItem, ...] = ()
    if in_front:
        taken = (*waiting_at(state, Seam.ITERATION_START), *state.inbox.waiting(None))
    events = tuple(replaced_once(event for item in taken for event in drained(state, item, Seam.ITERATION_START)))
    replaced = frozenset(event.replaced_id for event in events if isinstance(event, Deduped))
    messages = tuple(item for item in taken if isinstance(item, QueuedMessage))
    fired: list[Event] = []
    given: list[Given] = []
    for item in state.live:
        if item.id not in replaced and item.id not in withheld:
            event, text = _shown(state, item, turn, before, in_front=in_front)
            fired.extend(event)
            given.extend(text)
    for injected in events:
        if isinstance(injected, Injected):
            fired.append(_fired(injected.reminder, injected.provenance, turn))
            given.append(_given(injected.reminder, injected.provenance))
    if in_front:
        given.extend(_messages(state, before, withheld))
        given.extend(GivenMessage(item.id, deepcopy(item.content)) for item in messages)
    checkpoint = Checkpoint(turn=state.live.turn, seam=Seam.ITERATION_START, ids=tuple(item.id for item in taken))
    after = msgspec.structs.replace(before, messages=(*before.messages, *(item.id for item in messages)))
    return Decided(
        (
            Started(),
            *events,
            *((checkpoint,) if taken else ()),
            *_recorded(before, after),
            RequestCommitted(turn=turn),
            *fired,
        ),
        OpenedPrompt(turn, tuple(given)),
    )


def _shown(
    state: SessionState, item: LiveItem, turn: int, before: Owed, *, in_front: bool
) -> tuple[tuple[Event, ...], tuple[Given, ...]]:
    """How the turn of a prompt shows a live reminder: the event, and the text that the prompt hands over."""
    current = state.live.current(item)
    if item.first_turn is not None and item.id not in before.again:
        return (Fired(reminder_id=item.id, turn=turn, rendered_role=ROLE, carried=True, via=VIA),), ()
    if item.id in before.given:
        return (_fired(current, item.provenance, turn),), ()
    if in_front:
        return (_fired(current, item.provenance, turn),), (_given(current, item.provenance),)
    if item.first_turn is not None:
        return (Deferred(reminder_id=item.id, turn=turn, provenance=item.provenance),), ()
    return (), ()


def _fired(reminder: Reminder, provenance: Provenance, turn: int) -> Fired:
    return Fired(
        reminder_id=reminder.id, turn=turn, rendered_role=ROLE, reminder=reminder, provenance=provenance, via=VIA
    )


def _given(reminder: Reminder, provenance: Provenance) -> GivenReminder:
    return GivenReminder(reminder.id, reminder, deepcopy(provenance), reminder.ttl_turns)


def _messages(state: SessionState, before: Owed, withheld: Container[str]) -> list[GivenMessage]:
    wanted = {message_id: None for message_id in before.messages if message_id not in withheld}
    return [
        GivenMessage(message["id"], tuple(deepcopy(message["content"])))
        for message in state.messages
        if message.get("id") in wanted
    ]


def close_prompt(state: SessionState, *, handed: Container[str], status: str) -> Decided[None]:
    """The agent has answered the prompt, which handed over `handed`: end the turn and what ends with it.

    If another program has ended the turn meanwhile, only what the agent has is recorded, so that it is not handed over
    again.
    """
    request, before = state.request, owed(state)
    if request is None or not state.running:
        kept = () if state.closed or state.deleted else _recorded(before, _had(state, before, handed))
        return Decided((*kept, *(idled(state, status) if state.running else ())), None)
    on_record = state.inbox.waiting(Mode.AUDIT_ONLY)
    checkpoint = Checkpoint(turn=request.turn, seam=Seam.LOOP_EXIT, ids=tuple(item.id for item in on_record))
    ended = close_turn(state, reply=None, usage=None).events
    after = Owed(
        messages=tuple(item_id for item_id in before.messages if item_id not in handed),
        given=tuple(item_id for item_id in before.given if item_id in state.live and item_id not in request.settling),
        again=tuple(item_id for item_id in before.again if item_id in state.live and item_id not in handed),
    )
    return Decided(
        (
            *ended,
            *(audited(item, turn=request.turn) for item in on_record),
            *((checkpoint,) if on_record else ()),
            *_recorded(before, after),
            *idled(state, status),
        ),
        None,
    )


def _had(state: SessionState, before: Owed, handed: Container[str]) -> Owed:
    """What is owed to an agent that has `handed`, which no committed turn has shown."""
    unshown = (item.id for item in state.live if item.id in handed and item.first_turn is None)
    return Owed(
        messages=tuple(item_id for item_id in before.messages if item_id not in handed),
        given=(*before.given, *(item_id for item_id in unshown if item_id not in before.given)),
        again=tuple(item_id for item_id in before.again if item_id not in handed),
    )


# While the turn runs.


def next_item(state: SessionState, *, tool_runs: bool) -> tuple[InboxItem, Seam] | None:
    """The item that is handed over next while the turn runs, and the seam that drains it; None if nothing waits.

    An interrupt is handed over at once, everything else only while a tool runs.
    """
    for seam in (Seam.PRE_TOOL_DISPATCH, Seam.POST_TOOL_DISPATCH) if tool_runs else (Seam.PRE_TOOL_DISPATCH,):
        for item in waiting_at(state, seam):
            return item, seam
    return None


def take_next(state: SessionState, *, tool_runs: bool) -> Decided[Given | None]:
    """Drain the next item, to be handed over while the turn runs; None if nothing waits or no turn runs."""
    request, following = state.request, next_item(state, tool_runs=tool_runs)
    if following is None or request is None or state.closed or not state.running:
        return Decided((), None)
    item, seam = following
    events = tuple(drained(state, item, seam, turn=request.turn))
    checkpoint = Checkpoint(turn=state.live.turn, seam=seam, ids=(item.id,))
    if isinstance(item, QueuedMessage):
        before = owed(state)
        after = msgspec.structs.replace(before, messages=(*before.messages, item.id))
        return Decided((*events, checkpoint, *_recorded(before, after)), GivenMessage(item.id, deepcopy(item.content)))
    injected = next(event for event in events if isinstance(event, Injected))
    return Decided((*events, checkpoint), _given(injected.reminder, injected.provenance))


def confirm(state: SessionState, item_id: str) -> Decided[None]:
    """The agent has an item that was handed over while the turn ran; a reminder counts as shown in that turn.

    If the turn has ended meanwhile, the next turn shows it, and its prompt does not hand it over again.
    """
    before, item, request = owed(state), state.live.get(item_id), state.request
    if item_id in before.messages:
        after = msgspec.structs.replace(before, messages=tuple(each for each in before.messages if each != item_id))
        return Decided(_recorded(before, after), None)
    if item is None or item.first_turn is not None or item_id in before.given or state.closed:
        return Decided((), None)
    after = msgspec.structs.replace(before, given=(*before.given, item_id))
    fired = () if request is None else (_fired(state.live.current(item), item.provenance, request.turn),)
    return Decided((*fired, *_recorded(before, after)), None)


def compact_given(state: SessionState) -> Decided[None]:
    """The agent has compacted its conversation: of the reminders that it had, only preserved ones stay, to be given again.

    What it does not have yet is left alone.
    """
    if state.closed or state.deleted:
        return Decided((), None)
    before = owed(state)
    settling = () if state.request is None else state.request.settling
    had = frozenset(
        item.id for item in state.live if item.first_turn is not None or item.id in settling or item.id in before.given
    )
    events, survivors = plan_compaction(state, among=had)
    kept = tuple(reminder.id for reminder in survivors if reminder.preserve_on_compact)
    after = msgspec.structs.replace(before, again=kept, given=())
    compacted = Compacted(turn=state.live.turn, archived_messages=0)
    return Decided((*events, compacted, *_recorded(before, after)), None)

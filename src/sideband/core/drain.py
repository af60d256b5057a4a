"""Drain the inbox at a seam, and start a turn from it."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sideband.core.accept import refuse_closed, versioned_id
from sideband.core.events import (
    Checkpoint,
    Deduped,
    Event,
    InboxItem,
    InjectAccepted,
    QueuedMessage,
    QueuedReminder,
    ResultRecorded,
    Started,
)
from sideband.core.lifecycle import audited, delivered, go_live
from sideband.core.messages import ToolCall, interrupted_message
from sideband.core.seams import DRAINS, MAX_SKIPPED_BATCHES, Mode, Seam
from sideband.core.state import Decided, SessionState
from sideband.core.turn import COMPLETED, idled


def drain(
    state: SessionState,
    seam: Seam,
    *,
    calls: Sequence[ToolCall] = (),
    closing: bool = False,
    starting: bool = False,
    reminders_only: bool = False,
    added_from: int | None = None,
) -> Decided[tuple[str, ...]]:
    """Take what this seam takes, in the order in which the model reads it; return the ids.

    At `pre_tool_dispatch` a drain that takes something skips the batch: every one of `calls` gets the status
    `interrupted`. With `closing`, a drain that takes nothing makes the session idle in the same commit, unless reminders
    became live from the place `added_from` on: then it returns their ids. With `starting`, a drain that takes something
    makes an idle session run. With `reminders_only`, user messages stay in the inbox.
    """
    taken = waiting_at(state, seam)
    if reminders_only:
        taken = tuple(item for item in taken if isinstance(item, QueuedReminder))
    if not taken:
        added = tuple(item.id for item in state.live if added_from is not None and item.place >= added_from)
        return Decided(idled(state, COMPLETED) if closing and not added else (), added)
    skipped = seam is Seam.PRE_TOOL_DISPATCH
    events: list[Event] = []
    if starting and not state.running:
        events.append(Started())
    if skipped:
        # Results come before the drained items: nothing may stand between a call and its result.
        events.extend(_interrupted(calls, taken))
    events.extend(replaced_once(event for item in taken for event in drained(state, item, seam)))
    ids = tuple(item.id for item in taken)
    events.append(Checkpoint(turn=state.live.turn, seam=seam, ids=ids, dispatch_skipped=skipped))
    return Decided(events, ids)


def skip(state: SessionState, calls: Sequence[ToolCall]) -> Decided[bool]:
    """Let a queued interrupt skip the batch without draining it; return whether one did.

    For a run that sends no further request: the interrupt stays in the inbox for the next run.
    """
    interrupts = waiting_at(state, Seam.PRE_TOOL_DISPATCH)
    if not interrupts:
        return Decided((), value=False)
    checkpoint = Checkpoint(turn=state.live.turn, seam=Seam.PRE_TOOL_DISPATCH, ids=(), dispatch_skipped=True)
    return Decided((*_interrupted(calls, interrupts), checkpoint), value=True)


def waiting_at(state: SessionState, seam: Seam) -> tuple[InboxItem, ...]:
    """The items that this seam drains, in the order in which the model reads them."""
    inbox = state.inbox
    if not inbox or (seam is Seam.PRE_TOOL_DISPATCH and state.skipped_batches >= MAX_SKIPPED_BATCHES):
        return ()
    found = [item for mode in DRAINS[seam] for item in inbox.waiting(mode)]
    if state.permission_open:
        found = [item for item in found if not _held_for_permission(item)]
    # User messages come after the reminders of the same drain, so that the model reads them last.
    return (
        *(item for item in found if isinstance(item, QueuedReminder)),
        *(item for item in found if isinstance(item, QueuedMessage)),
    )


def _held_for_permission(item: InboxItem) -> bool:
    steers = isinstance(item, QueuedMessage) and item.waits_in is Mode.FINISH_STEP
    return steers or item.waits_in is Mode.INTERRUPT_IMMEDIATE


def _interrupted(calls: Sequence[ToolCall], taken: Sequence[InboxItem]) -> list[ResultRecorded]:
    messages = [interrupted_message(call, taken) for call in calls]
    return [
        ResultRecorded(call_id=call.id, status=message["status"], message=message)
        for call, message in zip(calls, messages, strict=True)
    ]


def drained(state: SessionState, item: InboxItem, seam: Seam, *, turn: int | None = None) -> Sequence[Event]:
    """The events by which an item leaves the inbox at a seam; `turn` is the first that can show it (None: the next)."""
    if item.waits_in is Mode.AUDIT_ONLY:
        return (audited(item, turn=state.live.turn),)
    if isinstance(item, QueuedMessage):
        return (delivered(item),)
    reminder = msgspec.structs.replace(item.reminder, fired_at_turn=state.next_turn if turn is None else turn)
    return go_live(state, reminder, item.provenance, seam=seam, versions_of=versioned_id(item))


def replaced_once(events: Iterable[Event]) -> Iterator[Event]:
    """The events without a second end of one reminder.

    Two items of a drain may replace the same live reminder: one of its key, and a newer version of it with another key.
    """
    ended: set[str] = set()
    for event in events:
        if isinstance(event, Deduped):
            if event.replaced_id in ended:
                continue
            ended.add(event.replaced_id)
        yield event


# Starting a turn.


def startable(state: SessionState, *, even_held: bool = False, steers: bool = False) -> QueuedMessage | None:
    """The message that may start a turn now; None if the session runs, is closed, or has no such message.

    That is the first queued message. After a cancel the queue is held; `even_held` disregards that. With `steers`, a
    message that was meant for an earlier turn may start one too.
    """
    if state.running or state.closed or (state.queue_held and not even_held):
        return None
    modes = (None, Mode.INTERRUPT_IMMEDIATE, Mode.FINISH_STEP) if steers else (None,)
    waiting = (item for mode in modes for item in state.inbox.waiting(mode))
    return next((item for item in waiting if isinstance(item, QueuedMessage)), None)


def start_queued(state: SessionState, *, even_held: bool = False, provided: str | None = None) -> Decided[bool]:
    """Let the first queued message start a turn if the session is idle; return whether one did.

    After a cancel the queue is held; `even_held` starts the message all the same. With `provided`, nothing starts unless
    the message with this id is still queued.
    """
    first = startable(state, even_held=even_held)
    if first is None or (provided is not None and state.inbox.get(provided) is None):
        return Decided((), value=False)
    return Decided(_started(first), value=True)


def start_message(state: SessionState, message_id: str) -> Decided[bool]:
    """Let this queued message start a turn; return False if it was withdrawn meanwhile."""
    message = state.inbox.get(message_id)
    if not isinstance(message, QueuedMessage) or state.running:
        return Decided((), value=False)
    return Decided(_started(message), value=True)


def start_with(state: SessionState, message: QueuedMessage) -> Decided[None]:
    """Accept this message and let it start a turn at once, before the queue."""
    refuse_closed(state)
    return Decided((InjectAccepted(item=message), *_started(message)), None)


def _started(message: QueuedMessage) -> tuple[Event, ...]:
    return Started(message_id=message.id), delivered(message)


def wake(state: SessionState) -> Decided[None]:
    """Make an idle session run without a new message, if there is anything for the model to answer.

    A queued message that may start a turn comes first.
    """
    inbox = state.inbox
    starts_by_message = inbox.waiting(None) and not state.queue_held
    is_asked = has_question(state) or any(inbox.waiting(mode) for mode in DRAINS[Seam.ITERATION_START])
    if state.running or state.closed or starts_by_message or not is_asked:
        return Decided((), None)
    return Decided((Started(),), None)


def has_question(state: SessionState) -> bool:
    """Whether a request has anything to answer: a message or a result without a reply, or a reminder.

    The reminder must be one that no turn has shown. A summary asks nothing.
    """
    is_unanswered = bool(state.messages) and state.messages[-1].get("role") in ("user", "tool")
    return is_unanswered or any(item.first_turn is None for item in state.live)


def wakes_daemon(item: InboxItem) -> bool:
    """Whether this item is an interrupt, which wakes an idle daemon at once.

    A queued message wakes it, too, by starting a turn.
    """
    return item.waits_in is Mode.INTERRUPT_IMMEDIATE

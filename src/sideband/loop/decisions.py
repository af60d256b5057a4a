"""What the commit points of a running session decide: each reads the state inside the commit, and changes nothing."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from sideband.core import lifecycle
from sideband.core.drain import Drain, drain
from sideband.core.errors import UnknownSession
from sideband.core.events import Cancelled, Checkpoint, Event, ResultRecorded, Started
from sideband.core.items import InboxItem, QueuedReminder
from sideband.core.lifecycle import OpenRequest
from sideband.core.limits import Limits
from sideband.core.pending import live_beside
from sideband.core.reminder import Reminder
from sideband.core.room import Room, check_room
from sideband.core.seams import Mode, Seam
from sideband.core.state import SessionState
from sideband.core.trust import Provenance
from sideband.loop.messages import interrupted_message, read_call, unfinished_message
from sideband.ports import Message, Plan, ToolCall, ToolStatus

# Builds a request from the state of a commit: a new one, or once more the one that was left open.
Build: TypeAlias = Callable[[SessionState, OpenRequest | None], Plan]


def refuse_closed(state: SessionState) -> None:
    """Nothing more is accepted by a session that has ended."""
    if state.closed:
        raise UnknownSession("the session is closed and accepts nothing more")


# Seams.


class Taken(NamedTuple):
    """What a seam took, and what is written down of it."""

    items: tuple[InboxItem, ...]
    events: tuple[Event, ...]


def take(state: SessionState, seam: Seam, *, closing: bool, starting: bool, calls: Sequence[ToolCall]) -> Taken:
    """Take what this seam takes; see `Conversation.drain`."""
    drained = _drained(state, seam, closing=closing)
    woken = (Started(),) if starting and drained.taken and not state.running else ()
    # The results come first: nothing may stand between a call and its result.
    skipped = _interrupted(calls, drained.taken) if drained.dispatch_skipped else ()
    return Taken(drained.taken, (*woken, *skipped, *drained.events))


def skip(state: SessionState, calls: Sequence[ToolCall]) -> tuple[Event, ...]:
    """An interrupt keeps the calls from running and waits on."""
    drained = _drained(state, Seam.PRE_TOOL_DISPATCH)
    if not drained.dispatch_skipped:
        return ()
    checked = Checkpoint(turn=state.live.turn, seam=Seam.PRE_TOOL_DISPATCH, ids=(), dispatch_skipped=True)
    return (*_interrupted(calls, drained.taken), checked)


def _drained(state: SessionState, seam: Seam, *, closing: bool = False) -> Drain:
    return drain(
        state.inbox,
        state.live,
        seam,
        next_turn=state.next_turn,
        skipped_batches=state.skipped_batches,
        permission_open=state.permission_open,
        closing=closing,
    )


def _interrupted(calls: Sequence[ToolCall], taken: Sequence[InboxItem]) -> tuple[Event, ...]:
    return tuple(recorded(call, interrupted_message(call, taken)) for call in calls)


def wake(state: SessionState) -> tuple[Event, ...]:
    """A session begins to run by itself, if it has anything to say; a message that waits for its turn comes first."""
    waits = state.inbox.waiting(None) and not state.queue_held
    return () if state.running or state.closed or waits or not _may_speak(state) else (Started(),)


def _may_speak(state: SessionState) -> bool:
    inbox = state.inbox
    return bool(state.messages or len(state.live) or inbox.count_in(Room.MESSAGES) or inbox.count_in(Room.REMINDERS))


# Turns.


class Opened(msgspec.Struct, frozen=True):
    """A request that is on record and may leave; `events` is what is written down of it."""

    turn: int
    attempt: int
    plan: Plan
    events: tuple[Event, ...] = ()


def open_request(state: SessionState, build: Build) -> Opened:
    """A new request; or the one that was left open, if it would be the same again."""
    left, turn = state.request, state.live.turn + 1
    if left is not None and left.route and left.messages == len(state.messages):
        plan, attempt = build(state, left), left.attempt + 1
        if plan.route == left.route:
            return Opened(turn, attempt, plan, lifecycle.repeat_request(turn, attempt=attempt))
    plan = build(state, None)
    events = lifecycle.open_request(
        turn, plan.shown, plan.left_out, plan.unusable, route=plan.route, fragments=plan.fragments, head=plan.head
    )
    return Opened(turn, 1, plan, events if left is None else (*voided(state), *events))


def archived(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages at the beginning were replaced: all but the tail that both have."""
    if list(before) == list(after):
        return 0
    kept = 0
    while kept < min(len(before), len(after)) and before[-1 - kept] == after[-1 - kept]:
        kept += 1
    return max(1, len(before) - kept)


# What is open when a turn ends before its time.


def cancelled(state: SessionState, *, hold_queue: bool) -> Iterable[Event]:
    """The turn ends at somebody's word. A session that is closed has no turn any more."""
    if state.closed:
        return
    yield from voided(state)
    yield from unfinished(state, ToolStatus.CANCELLED)
    yield Cancelled(hold_queue=hold_queue)


def voided(state: SessionState) -> Iterable[Event]:
    """The open request came to nothing."""
    return () if state.request is None else lifecycle.void_turn(state.request)


def unfinished(
    state: SessionState, status: ToolStatus, *, except_for: Callable[[str], bool] = lambda _name: False
) -> Iterable[Event]:
    """Every call without a result gets one."""
    for call in map(read_call, state.open_calls.values()):
        if not except_for(call.name):
            yield recorded(call, unfinished_message(call, status))


def recorded(call: ToolCall, message: Message) -> ResultRecorded:
    """The result of a call."""
    return ResultRecorded(call_id=call.id, status=message["status"], message=message)


# Reminders from this process.


def inject(state: SessionState, reminder: Reminder, provenance: Provenance, limits: Limits) -> tuple[Event, ...]:
    """What a hook or a provider says is live at once, if there is room for it."""
    refuse_closed(state)
    item = QueuedReminder(reminder=reminder, mode=Mode.FINISH_STEP, provenance=provenance)
    live = live_beside(state.live, provenance, reminder.dedupe_key)
    check_room(state.inbox, item, limits, live=live)
    return lifecycle.inject(state.live, reminder, provenance)

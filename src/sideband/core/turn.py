"""The turn and the run around it: request, reply, results, cancellation, recovery, and the end of the session."""

from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.accept import expired, refuse_closed
from sideband.core.errors import SessionBusy, shown
from sideband.core.events import (
    Begun,
    Cancelled,
    Closed,
    Closing,
    Deferred,
    Deleted,
    Dropped,
    DropReason,
    Equipped,
    Event,
    ExpiryReason,
    Fired,
    Idled,
    InboxItem,
    InjectRevoked,
    PermissionAsked,
    PermissionReplied,
    QueuedMessage,
    Recorded,
    RequestCommitted,
    ResultRecorded,
    Started,
    TurnCommitted,
    TurnVoided,
    Usage,
)
from sideband.core.ledger import Fragment, RequestHead
from sideband.core.lifecycle import audited, delivered
from sideband.core.messages import Message, ToolCall, ToolStatus, read_call, unfinished_message
from sideband.core.seams import Mode
from sideband.core.state import Basis, Decided, OpenRequest, SessionState

# The statuses of a run that the core decides; `LoopStatus` has all of them.
COMPLETED: Final = "completed"
CANCELLED: Final = "cancelled"

_NO_RESULTS: Final[Mapping[str, Message]] = MappingProxyType({})
_NO_RECORDS: Final[Mapping[str, Any]] = MappingProxyType({})


# Requests.


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A reminder as one request carries it."""

    reminder_id: str
    rendered_role: str
    carried: bool = False


class Unusable(NamedTuple):
    """A live reminder that no request of this route can show."""

    reminder_id: str
    reason: DropReason


class OpenedTurn(NamedTuple):
    """The number of the turn whose request may leave now, that of the attempt, and the id of the reply to come."""

    turn: int
    attempt: int
    reply_id: str


class NotOpened(Enum):
    """Why a planned request was not committed."""

    ENDED = auto()
    """The run is over: the session was closed, or its turn was cancelled."""
    STALE = auto()
    """The session changed after the request was planned; plan again."""


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal records of a request.

    `shown` are the reminders in it, `left_out` those that exceed its budget, and `unusable` those that this route can
    never show. `route` and `fragments` go into the ledger: what the request was built for, and the text it carries in
    addition to the messages, in order. `head` describes the route so that the request can be rebuilt later (None: it is
    already on record, or the model does not provide it).
    """

    shown: tuple[Shown, ...] = ()
    left_out: tuple[str, ...] = ()
    unusable: tuple[Unusable, ...] = ()
    route: str = ""
    fragments: tuple[Fragment, ...] = ()
    head: RequestHead | None = None


def repeatable_request(state: SessionState) -> OpenRequest | None:
    """The open request, if it can be sent again as it was because no message was added since."""
    left = state.request
    return left if left is not None and left.route and left.messages == len(state.messages) else None


def open_request(
    state: SessionState, basis: Basis, planned: PlannedRequest, *, repeats: bool, reply_id: str = ""
) -> Decided[OpenedTurn | NotOpened]:
    """Record what a planned request shows, before any byte of it leaves.

    `basis` is that of the state the request was planned from. `repeats` sends the open request again as it was; otherwise
    an open request is voided, and the reply will have the id `reply_id`. Reminders that can never be shown end here.
    """
    if state.closed or not state.running:
        return Decided((), NotOpened.ENDED)
    if state.basis != basis:
        return Decided((), NotOpened.STALE)
    turn = state.live.turn + 1
    if repeats and state.request is not None:
        attempt = state.request.attempt + 1
        opened = OpenedTurn(turn, attempt, state.request.reply_id)
        return Decided((RequestCommitted(turn=turn, attempt=attempt),), opened)
    events = (
        *_voided(state),
        RequestCommitted(
            turn=turn, route=planned.route, fragments=planned.fragments, head=planned.head, reply_id=reply_id
        ),
        *(_unusable(state, entry) for entry in planned.unusable),
        *(_fired(state, entry, turn) for entry in planned.shown),
        *(_deferred(state, reminder_id, turn) for reminder_id in planned.left_out),
    )
    return Decided(events, OpenedTurn(turn, 1, reply_id))


def drop_unusable(state: SessionState, unusable: Iterable[Unusable]) -> Decided[None]:
    """End reminders that can never be shown, when there is no request to end them with."""
    return Decided([_unusable(state, entry) for entry in unusable if entry.reminder_id in state.live], None)


def _unusable(state: SessionState, entry: Unusable) -> Event:
    item = state.live.get(entry.reminder_id)
    return Dropped(
        reminder_id=entry.reminder_id,
        reason=entry.reason,
        dedupe_key=None if item is None else item.reminder.dedupe_key,
        provenance=None if item is None else item.provenance,
    )


def _fired(state: SessionState, entry: Shown, turn: int) -> Event:
    item = None if entry.carried else state.live.get(entry.reminder_id)
    return Fired(
        reminder_id=entry.reminder_id,
        turn=turn,
        rendered_role=entry.rendered_role,
        carried=entry.carried,
        reminder=None if item is None else state.live.current(item),
        provenance=None if item is None else item.provenance,
    )


def _deferred(state: SessionState, reminder_id: str, turn: int) -> Event:
    item = state.live.get(reminder_id)
    return Deferred(reminder_id=reminder_id, turn=turn, provenance=None if item is None else item.provenance)


def repeat_request(state: SessionState, turn: int, *, attempt: int) -> Decided[bool]:
    """Record another attempt at the open request; return False if its turn was voided meanwhile."""
    if state.request is None or state.request.turn != turn:
        return Decided((), value=False)
    return Decided((RequestCommitted(turn=turn, attempt=attempt),), value=True)


def close_turn(state: SessionState, *, reply: Message | None, usage: Usage | None) -> Decided[bool]:
    """Commit the reply and end the reminders whose last turn this was; return False if the turn was voided meanwhile."""
    request, live = state.request, state.live
    if request is None:
        return Decided((), value=False)
    ending = [item for item in live.due(request.turn) if item.id not in request.left_out]
    for reminder_id in request.settling:
        item = live.get(reminder_id)
        if item is not None and item.first_turn is None and item.reminder.ttl_turns == 1:
            ending.append(item)
    ending.sort(key=lambda item: item.place)
    ended = [expired(item, ExpiryReason.TTL, turn=request.turn) for item in ending]
    if reply is not None and request.reply_id:
        reply = {"role": reply["role"], "id": request.reply_id, **reply}
    return Decided((TurnCommitted(turn=request.turn, reply=reply, usage=usage), *ended), value=True)


def void_turn(state: SessionState) -> Decided[None]:
    """The open request failed for good: its reminders count as not shown, and its number is used again."""
    return Decided(_voided(state), None)


def _voided(state: SessionState) -> tuple[Event, ...]:
    return () if state.request is None else (TurnVoided(turn=state.request.turn),)


# Tool results and permissions.


def record_result(state: SessionState, call: ToolCall, message: Message) -> Decided[bool]:
    """Record the result of a call; return False if the call has one already, because it was cancelled."""
    is_open = call.id in state.open_calls
    return Decided((_result(call, message),) if is_open else (), value=is_open)


def _result(call: ToolCall, message: Message) -> ResultRecorded:
    return ResultRecorded(call_id=call.id, status=message["status"], message=message)


def _unfinished(
    state: SessionState,
    status: ToolStatus,
    *,
    repeatable: Container[str] = (),
    results: Mapping[str, Message] = _NO_RESULTS,
) -> Iterator[Event]:
    """A result for every open call, except calls of tools that may run again; `results` are those that are known."""
    for call in map(read_call, state.open_calls.values()):
        if call.name not in repeatable:
            yield _result(call, results.get(call.id) or unfinished_message(call, status))


def ask_permission(state: SessionState, call_id: str) -> Decided[bool]:
    """Record that permission is asked for a call; return False if the call was cancelled meanwhile."""
    is_open = call_id in state.open_calls
    return Decided((PermissionAsked(request_id=call_id),) if is_open else (), value=is_open)


def answer_permission(state: SessionState, request_id: str) -> Decided[None]:
    answered = request_id in state.permissions
    return Decided((PermissionReplied(request_id=request_id),) if answered else (), None)


# The run.


def equip(state: SessionState, equipped: Equipped, *, records: Mapping[str, Any]) -> Decided[tuple[str, ...]]:
    """Record the options of a run and the records it sets; return the ids that the last run had and this one lacks.

    What is on record already is not written again.
    """
    events = recorded(state, records)
    if (state.equipped, state.closing, state.hold_queue) == (equipped.ids, equipped.closing, equipped.hold_queue):
        return Decided(events, ())
    return Decided((equipped, *events), tuple(known for known in state.equipped if known not in equipped.ids))


def recover(state: SessionState, *, repeatable: Container[str], resume: bool = False) -> Decided[None]:
    """End what a process that died left open.

    Its tool calls get the status `unknown`, except calls of `repeatable` tools, and with `resume` those that wait for
    permission. Its request stays open: if nothing is
    said before the next request, that one repeats it. With `resume` the session stays running, so that the turn goes on.
    """
    # A call that waits for permission has not run, so a turn that goes on asks again.
    asked = state.permissions if resume else ()
    events: list[Event] = [
        event
        for event in _unfinished(state, ToolStatus.UNKNOWN, repeatable=repeatable)
        if not (isinstance(event, ResultRecorded) and event.call_id in asked)
    ]
    events.extend(PermissionReplied(request_id=request_id) for request_id in state.permissions if not resume)
    if state.running and not resume:
        events.append(Idled())
    return Decided(events, None)


def cancel(
    state: SessionState,
    *,
    hold_queue: bool | None = None,
    message_id: str | None = None,
    results: Mapping[str, Message] = _NO_RESULTS,
) -> Decided[bool]:
    """End the turn and return whether there was one; the inbox stays as it is.

    `message_id` limits this to one prompt. The first one of an idle session is started and cancelled in one commit, so
    that it never starts a turn later. A prompt that waits for another turn is withdrawn, and that turn goes on.
    `hold_queue` lets the queue wait for the next message (None: as the run was begun). `results` are the results of open
    calls that the caller knows.
    """
    if state.closed:
        return Decided((), value=False)
    cancelled = Cancelled(hold_queue=state.hold_queue if hold_queue is None else hold_queue)
    waiting = None if message_id is None else state.inbox.get(message_id)
    if isinstance(waiting, QueuedMessage):
        first = next(iter(state.inbox.waiting(None)), None)
        if state.running or waiting is not first:
            return Decided((InjectRevoked(message_id=waiting.id, provenance=waiting.provenance),), value=True)
        started = (Started(message_id=waiting.id), delivered(waiting))
        ended = _ended(state, cancelled, without={waiting.id})
        return Decided((*_left_open(state), *started, *ended), value=True)
    if message_id not in (None, state.prompt):
        return Decided((), value=False)
    events = _left_open(state, results)
    if state.running:
        # A session that is idle already must not get a second event: it would hold the next prompt.
        events.extend(_ended(state, cancelled))
    return Decided(events, value=bool(events))


def cancel_run(
    state: SessionState,
    *,
    prompt: str | None,
    hold_queue: bool | None = None,
    results: Mapping[str, Message] = _NO_RESULTS,
) -> Decided[bool]:
    """End the turn of a run; of a run that has not begun its turn, end the `prompt` that would start it."""
    begins = not state.running and prompt is not None and state.inbox.get(prompt) is not None
    return cancel(state, message_id=prompt if begins else None, hold_queue=hold_queue, results=results)


def _left_open(state: SessionState, results: Mapping[str, Message] = _NO_RESULTS) -> list[Event]:
    """The end of an open request and of open calls."""
    return [*_voided(state), *_unfinished(state, ToolStatus.CANCELLED, results=results)]


def idle(state: SessionState, *, status: str) -> Decided[None]:
    """End a run without a closing drain: it failed, or was asked to stop between turns."""
    return Decided(idled(state, status) if state.running else (), None)


def idled(state: SessionState, status: str) -> tuple[Event, ...]:
    """The events that make a running session idle, with what is to happen at a run's end of this status."""
    return _ended(state, Idled(status=status))


def finish(state: SessionState, *, closing: Closing, results: Mapping[str, Message] = _NO_RESULTS) -> Decided[bool]:
    """End the session for good, whether its turn runs, waits or has not begun; return False if it is over already.

    `closing` is what happens, whatever the last run was begun with. `results` are the results of open calls that the
    caller knows.
    """
    if state.closed or not state.exists:
        return Decided((), value=False)
    ended = _ended(state, Cancelled(), closing=msgspec.structs.replace(closing, ends=True))
    return Decided((*_left_open(state, results), *ended), value=True)


def _ended(
    state: SessionState,
    end: Idled | Cancelled,
    *,
    without: AbstractSet[str] = frozenset(),
    closing: Closing | None = None,
) -> tuple[Event, ...]:
    """The events of an end. `closing` is what happens with it (None: what the run was begun with)."""
    closing = closing or state.closing.get(CANCELLED if isinstance(end, Cancelled) else end.status)
    if closing is None:
        return (end,)
    records = recorded(state, closing.records)
    if not closing.ends:
        return (*records, end)
    # Observers get the ends of all items before the record that tells them of the end.
    on_record = state.inbox.waiting(Mode.AUDIT_ONLY)
    reason, without = DropReason.TASK_FINISHED, without | {item.id for item in on_record}
    return (
        *(audited(item, turn=state.live.turn) for item in on_record),
        *_emptied(state, reason, without=without),
        *records,
        end,
        Closed(reason=reason),
    )


def settle(state: SessionState, *, status: str, records: Mapping[str, Any] = _NO_RECORDS) -> Decided[None]:
    """Leave nothing of a run open, and set these named records of the session.

    This does nothing if the run left no request, no call, no running mark and no new record. The queue is not held,
    because no user has cancelled the turn: another process may go on with what is queued.
    """
    ended = idled(state, status) if state.running else ()
    changed = () if state.closed else recorded(state, records)
    return Decided((*_left_open(state), *changed, *ended), None)


def finish_call(state: SessionState, *, status: str) -> Decided[None]:
    """End a single model call: a request without a reply is voided, and tool calls are not run."""
    ended = (Idled(status=status),) if state.running else ()
    return Decided((*_left_open(state), *ended), None)


def close(state: SessionState, *, reason: DropReason = DropReason.SESSION_CLOSED) -> Decided[None]:
    """End the session and everything it still has. Nothing changes if it is closed or was deleted."""
    if state.closed or state.deleted:
        return Decided((), None)
    return Decided((*_voided(state), *_emptied(state, reason), Closed(reason=reason)), None)


def _emptied(state: SessionState, reason: DropReason, *, without: Container[str] = ()) -> Iterator[Event]:
    """The end of every queued item, except those in `without`, and of every live reminder."""
    for mode in (*Mode, None):
        yield from (_dropped(item, reason) for item in state.inbox.waiting(mode) if item.id not in without)
    for item in state.live:
        yield expired(item, ExpiryReason.CLEARED, turn=state.live.turn)


def _dropped(item: InboxItem, reason: DropReason) -> Event:
    if isinstance(item, QueuedMessage):
        return InjectRevoked(message_id=item.id, reason=reason, provenance=item.provenance)
    return Dropped(reminder_id=item.id, reason=reason, dedupe_key=item.reminder.dedupe_key, provenance=item.provenance)


# Beginning, deleting and named records.


def begin(state: SessionState, *, attributes: Mapping[str, Any], messages: tuple[Message, ...] = ()) -> Decided[bool]:
    """Begin a session with these records, without those that are None, and these messages.

    Return False if it exists already.
    """
    if state.exists:
        return Decided((), value=False)
    present = {name: value for name, value in attributes.items() if value is not None}
    return Decided((Begun(attributes=present, messages=messages),), value=True)


def delete(state: SessionState) -> Decided[bool]:
    """End a session and empty its state; return False if there is none."""
    if not state.exists:
        return Decided((), value=False)
    return Decided((*close(state).events, Deleted()), value=True)


def record(state: SessionState, records: Mapping[str, Any], *, only_new: bool = False) -> Decided[None]:
    """Set named records of the session; None removes one. A record that has the value already is not written again.

    With `only_new`, `SessionBusy` if one of them is set already.
    """
    refuse_closed(state)
    taken = next((name for name in records if name in state.records), None) if only_new else None
    if taken is not None:
        raise SessionBusy(f"the record {shown(taken)} is set already", field="records", value=taken)
    return Decided(recorded(state, records), None)


def recorded(state: SessionState, records: Mapping[str, Any]) -> tuple[Event, ...]:
    """The events that set these records."""
    changed = {name: value for name, value in records.items() if state.records.get(name) != value}
    return tuple(Recorded(name=name, value=value) for name, value in changed.items())

"""The turn and the run around it: request, reply, results, cancellation, recovery, and the end of the session."""

from collections.abc import Container, Iterator, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

import msgspec

from sideband.core.accept import expired, refuse_closed
from sideband.core.events import (
    Begun,
    Cancelled,
    Closed,
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
    PermissionReplied,
    QueuedMessage,
    Recorded,
    RequestCommitted,
    ResultRecorded,
    TurnCommitted,
    TurnVoided,
    Usage,
)
from sideband.core.ledger import Fragment, RequestHead
from sideband.core.messages import Message, ToolCall, ToolStatus, read_call, unfinished_message
from sideband.core.seams import Mode
from sideband.core.state import Basis, Decided, OpenRequest, SessionState

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


def record_result(state: SessionState, call: ToolCall, message: Message) -> Decided[None]:
    """Record the result of a call; a second result of the same call is ignored."""
    return Decided((_result(call, message),) if call.id in state.open_calls else (), None)


def _result(call: ToolCall, message: Message) -> ResultRecorded:
    return ResultRecorded(call_id=call.id, status=message["status"], message=message)


def _unfinished(state: SessionState, status: ToolStatus, *, repeatable: Container[str] = ()) -> Iterator[Event]:
    """A result for every open call, except calls of tools that may run again."""
    for call in map(read_call, state.open_calls.values()):
        if call.name not in repeatable:
            yield _result(call, unfinished_message(call, status))


def answer_permission(state: SessionState, request_id: str) -> Decided[None]:
    answered = request_id in state.permissions
    return Decided((PermissionReplied(request_id=request_id),) if answered else (), None)


# The run.


def equip(state: SessionState, ids: tuple[str, ...]) -> Decided[tuple[str, ...]]:
    """Record the ids of a run's hooks and providers; return those that the last run had and this one lacks."""
    if state.equipped == ids:
        return Decided((), ())
    return Decided((Equipped(ids=ids),), tuple(known for known in state.equipped if known not in ids))


def recover(state: SessionState, *, repeatable: Container[str]) -> Decided[None]:
    """End what a process that died left open.

    Its tool calls get the status `unknown`, except calls of `repeatable` tools. Its request stays open: if nothing is
    said before the next request, that one repeats it.
    """
    events: list[Event] = [*_unfinished(state, ToolStatus.UNKNOWN, repeatable=repeatable)]
    events.extend(PermissionReplied(request_id=request_id) for request_id in state.permissions)
    if state.running:
        events.append(Idled())
    return Decided(events, None)


def cancel(state: SessionState, *, hold_queue: bool) -> Decided[None]:
    """End the turn; the inbox stays as it is. A closed session has no turn to end."""
    if state.closed:
        return Decided((), None)
    cancelled = Cancelled(hold_queue=hold_queue)
    return Decided((*_voided(state), *_unfinished(state, ToolStatus.CANCELLED), cancelled), None)


def idle(state: SessionState) -> Decided[None]:
    """End a run without a closing drain: it failed, or was asked to stop between turns."""
    return Decided((Idled(),) if state.running else (), None)


def settle(state: SessionState, *, hold_queue: bool) -> Decided[None]:
    """Leave nothing of a run open. This does nothing if the run left no request, no call and no running mark."""
    if state.request is not None or state.open_calls:
        return cancel(state, hold_queue=hold_queue)
    return idle(state)


def finish_call(state: SessionState) -> Decided[None]:
    """End a single model call: a request without a reply is voided, and tool calls are not run."""
    return Decided((*_voided(state), *_unfinished(state, ToolStatus.CANCELLED), Idled()), None)


def close(state: SessionState, *, reason: DropReason = DropReason.SESSION_CLOSED) -> Decided[None]:
    """End the session and everything it still has; a second close changes nothing."""
    if state.closed:
        return Decided((), None)
    queued = (item for mode in (*Mode, None) for item in state.inbox.waiting(mode))
    dropped = (_dropped(item, reason) for item in queued)
    cleared = (expired(item, ExpiryReason.CLEARED, turn=state.live.turn) for item in state.live)
    return Decided((*_voided(state), *dropped, *cleared, Closed(reason=reason)), None)


def _dropped(item: InboxItem, reason: DropReason) -> Event:
    if isinstance(item, QueuedMessage):
        return InjectRevoked(message_id=item.id, reason=reason, provenance=item.provenance)
    return Dropped(reminder_id=item.id, reason=reason, dedupe_key=item.reminder.dedupe_key, provenance=item.provenance)


# Beginning, deleting and named records.


def begin(state: SessionState, *, attributes: Mapping[str, Any], messages: tuple[Message, ...] = ()) -> Decided[bool]:
    """Begin a session with these records and messages; return False if it exists already."""
    if state.exists:
        return Decided((), value=False)
    return Decided((Begun(attributes=dict(attributes), messages=messages),), value=True)


def delete(state: SessionState) -> Decided[bool]:
    """End a session and empty its state; return False if there is none."""
    if not state.exists:
        return Decided((), value=False)
    return Decided((*close(state).events, Deleted()), value=True)


def record(state: SessionState, records: Mapping[str, Any]) -> Decided[None]:
    """Set named records of the session; None removes one. A record that has the value already is not written again."""
    refuse_closed(state)
    return Decided(recorded(state, records), None)


def recorded(state: SessionState, records: Mapping[str, Any]) -> tuple[Event, ...]:
    """The events that set these records."""
    changed = {name: value for name, value in records.items() if state.records.get(name) != value}
    return tuple(Recorded(name=name, value=value) for name, value in changed.items())

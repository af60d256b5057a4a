"""The turn and the run around it: request, reply, results, cancellation, recovery, and the end of the session."""

from collections.abc import Container, Iterable, Iterator
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from sideband.core.events import (
    Cancelled,
    Closed,
    Deferred,
    Dropped,
    DropReason,
    Equipped,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    Idled,
    InjectRevoked,
    PermissionReplied,
    QueuedMessage,
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
    """The number of the turn whose request may leave now, and of the attempt."""

    turn: int
    attempt: int


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
    state: SessionState, basis: Basis, planned: PlannedRequest, *, repeats: bool
) -> Decided[OpenedTurn | NotOpened]:
    """Record what a planned request shows, before any byte of it leaves.

    `basis` is that of the state the request was planned from. `repeats` sends the open request again as it was; otherwise
    an open request is voided. Reminders that can never be shown end here.
    """
    if state.closed or not state.running:
        return Decided((), NotOpened.ENDED)
    if state.basis != basis:
        return Decided((), NotOpened.STALE)
    turn = state.live.turn + 1
    if repeats and state.request is not None:
        attempt = state.request.attempt + 1
        return Decided((RequestCommitted(turn=turn, attempt=attempt),), OpenedTurn(turn, attempt))
    events = (
        *_voided(state),
        RequestCommitted(turn=turn, route=planned.route, fragments=planned.fragments, head=planned.head),
        *(Dropped(reminder_id=entry.reminder_id, reason=entry.reason) for entry in planned.unusable),
        *(
            Fired(reminder_id=entry.reminder_id, turn=turn, rendered_role=entry.rendered_role, carried=entry.carried)
            for entry in planned.shown
        ),
        *(Deferred(reminder_id=reminder_id, turn=turn) for reminder_id in planned.left_out),
    )
    return Decided(events, OpenedTurn(turn, 1))


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
    expired = [Expired(reminder_id=item.id, reason=ExpiryReason.TTL, turn=request.turn) for item in ending]
    return Decided((TurnCommitted(turn=request.turn, reply=reply, usage=usage), *expired), value=True)


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
    dropped: Iterable[Event] = (
        InjectRevoked(message_id=item.id, reason=reason)
        if isinstance(item, QueuedMessage)
        else Dropped(reminder_id=item.id, reason=reason)
        for item in queued
    )
    cleared = (Expired(reminder_id=item.id, reason=ExpiryReason.CLEARED, turn=state.live.turn) for item in state.live)
    return Decided((*_voided(state), *dropped, *cleared, Closed()), None)

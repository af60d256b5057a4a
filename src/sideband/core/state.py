"""The state of one session as plain data, and the shape of a decision.

A decision is a pure function `f(state, …) -> Decided(events, value)`. It reads the state and changes nothing; the store
commits its events, and `sideband.core.apply` is the only code that changes a state.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from sideband.core.events import Event, InboxItem, QueuedReminder
from sideband.core.inbox import Inbox
from sideband.core.ledger import Fragment, Ledger, RequestHead
from sideband.core.live import LiveIndex
from sideband.core.reminder import Reminder
from sideband.core.trust import Grant, Provenance

ValueT = TypeVar("ValueT")
_ValueT_co = TypeVar("_ValueT_co", covariant=True)


class Decided(NamedTuple, Generic[_ValueT_co]):
    """The events to commit and the value for the caller.

    A store may decide on another thread, so `value` must hold no reference into the state.
    """

    events: Sequence[Event]
    value: _ValueT_co


class OpenRequest(msgspec.Struct, kw_only=True):
    """A request that was committed and has no reply yet.

    `settling` lists the reminders whose record changes when the reply is committed: those shown for the first time, and
    those shown again after the budget had left them out. `messages` is the length of the conversation when the request
    was committed; while the length is unchanged, the request can be sent again as it was.
    """

    turn: int
    attempt: int = 1
    route: str = ""
    fragments: tuple[Fragment, ...] = ()
    messages: int = 0
    settling: dict[str, None] = {}
    left_out: dict[str, None] = {}


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An `audit_only` reminder after it was recorded."""

    reminder: Reminder
    provenance: Provenance


class Basis(NamedTuple):
    """The parts of the state that a request is planned from.

    A request is planned outside the commit and committed only if the session still has the same basis. Accepting an item
    changes no part of it, so a flood of accepts causes no re-planning.
    """

    turn: int
    window: int
    messages: int
    next_place: int
    live: int
    request: tuple[int, int] | None
    route: str


class SessionState:
    """What a session knows. Every field except `attended` is rebuilt by folding the session's events.

    `attended` says whether a process holds the session's lease; the store sets it before each decision. A session that is
    `running` but not `attended` was left behind by a process that died.
    """

    def __init__(self) -> None:
        self.attended = False
        self.inbox = Inbox()
        self.live = LiveIndex()
        self.audit: list[AuditRecord] = []
        self.messages: list[dict[str, Any]] = []
        self.open_calls: dict[str, dict[str, Any]] = {}
        self.request: OpenRequest | None = None
        self.running = False
        self.closed = False
        self.queue_held = False
        self.skipped_batches = 0
        self.window = 0
        self.ledger = Ledger()
        self.head: RequestHead | None = None
        self.permissions: dict[str, None] = {}
        self.grants: list[Grant] = []
        self.equipped: tuple[str, ...] = ()

    @property
    def next_turn(self) -> int:
        """The number of the first request that can show a reminder that becomes live now."""
        return (self.live.turn if self.request is None else self.request.turn) + 1

    @property
    def permission_open(self) -> bool:
        return bool(self.permissions)

    @property
    def basis(self) -> Basis:
        request, head = self.request, self.head
        return Basis(
            self.live.turn,
            self.window,
            len(self.messages),
            self.live.next_place,
            len(self.live),
            None if request is None else (request.turn, request.attempt),
            "" if head is None else head.route,
        )


Decision: TypeAlias = Callable[[SessionState], Decided[ValueT]]


# What callers are shown of a session.


class PendingState(StrEnum):
    QUEUED = "queued"
    LIVE = "live"


class Pending(NamedTuple):
    """A queued or live reminder as it stands now; `place` counts from 0 within its state."""

    state: PendingState
    place: int
    reminder: Reminder
    provenance: Provenance


class Waiting(NamedTuple):
    """An item of the inbox and its position in it, counted from 0; `kind` is `reminder` or `user`."""

    position: int
    kind: str
    item: InboxItem


def pending(state: SessionState) -> tuple[Pending, ...]:
    """Copies of every queued and every live reminder."""
    queued = [item for item in state.inbox.items() if isinstance(item, QueuedReminder)]
    live = state.live
    return deepcopy(
        (
            *(Pending(PendingState.QUEUED, place, item.reminder, item.provenance) for place, item in enumerate(queued)),
            *(
                Pending(PendingState.LIVE, place, live.current(item), item.provenance)
                for place, item in enumerate(live)
            ),
        )
    )


def waiting(state: SessionState) -> tuple[Waiting, ...]:
    """Copies of the items of the inbox, in acceptance order."""
    return tuple(
        Waiting(position, "reminder" if isinstance(item, QueuedReminder) else "user", deepcopy(item))
        for position, item in enumerate(state.inbox.items())
    )

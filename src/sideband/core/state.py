"""The state of one session as plain data, and the shape of a decision.

A decision is a pure function `f(state, …) -> Decided(events, value)`. It reads the state and changes nothing; the store
commits its events, and `sideband.core.apply` is the only code that changes a state.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from sideband.core.events import Closing, DropReason, Event, InboxItem, QueuedReminder
from sideband.core.inbox import Inbox, Receipt
from sideband.core.ledger import Fragment, Ledger, RequestHead
from sideband.core.live import LiveIndex
from sideband.core.reminder import Reminder
from sideband.core.seams import InjectMode, Mode
from sideband.core.trust import IN_PROCESS, Grant, Provenance, may_touch

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
    was committed; while the length is unchanged, the request can be sent again as it was. `reply_id` will be the id of
    the reply.
    """

    turn: int
    attempt: int = 1
    route: str = ""
    fragments: tuple[Fragment, ...] = ()
    messages: int = 0
    settling: dict[str, None] = {}
    left_out: dict[str, None] = {}
    reply_id: str = ""


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
    """What a session knows. Every field except `attended` and `receipts` is rebuilt by folding the session's events.

    The store sets these two before each decision. `attended` says whether a process holds the session's lease; a session
    that is `running` but not `attended` was left behind by a process that died. `receipts` has an entry for every
    caller-supplied id that the commit named, with None for an id that was not used yet.

    `exists` is true from the first event on. A session that was deleted and not begun again is `deleted` and does not
    exist. `closed_reason` is None while the session is open. `prompt` is the id of the message that started the running
    turn; empty if none did.
    """

    def __init__(self) -> None:
        self.attended = False
        self.receipts: Mapping[str, Receipt | None] = {}
        self.exists = False
        self.deleted = False
        self.records: dict[str, Any] = {}
        self.inbox = Inbox()
        self.live = LiveIndex()
        self.audit: list[AuditRecord] = []
        self.messages: list[dict[str, Any]] = []
        self.open_calls: dict[str, dict[str, Any]] = {}
        self.request: OpenRequest | None = None
        self.running = False
        self.prompt = ""
        self.closed_reason: DropReason | None = None
        self.queue_held = False
        self.skipped_batches = 0
        self.window = 0
        self.ledger = Ledger()
        self.head: RequestHead | None = None
        self.permissions: dict[str, None] = {}
        self.grants: list[Grant] = []
        self.equipped: tuple[str, ...] = ()
        self.closing: dict[str, Closing] = {}
        self.hold_queue = True

    @property
    def closed(self) -> bool:
        return self.closed_reason is not None

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
    """A queued or live reminder as it stands now; `place` counts from 0 within its state.

    `mode` is None for a live reminder, which no seam drains any more.
    """

    state: PendingState
    place: int
    reminder: Reminder
    provenance: Provenance
    mode: Mode | None = None


class Waiting(NamedTuple):
    """An item of the inbox and its position in it, counted from 0; `kind` is `reminder` or `user`."""

    position: int
    kind: str
    mode: Mode | InjectMode
    item: InboxItem


def pending(state: SessionState, viewer: Provenance = IN_PROCESS) -> tuple[Pending, ...]:
    """Copies of every queued and every live reminder that the viewer may see."""
    queued = [item for item in _visible(state, viewer) if isinstance(item, QueuedReminder)]
    live = [item for item in state.live if may_touch(viewer, item.provenance.namespace)]
    return deepcopy(
        (
            *(
                Pending(PendingState.QUEUED, place, item.reminder, item.provenance, item.mode)
                for place, item in enumerate(queued)
            ),
            *(
                Pending(PendingState.LIVE, place, state.live.current(item), item.provenance)
                for place, item in enumerate(live)
            ),
        )
    )


def waiting(state: SessionState, viewer: Provenance = IN_PROCESS) -> tuple[Waiting, ...]:
    """Copies of the items of the inbox that the viewer may see, in acceptance order."""
    return tuple(
        Waiting(position, "reminder" if isinstance(item, QueuedReminder) else "user", item.mode, deepcopy(item))
        for position, item in enumerate(_visible(state, viewer))
    )


def _visible(state: SessionState, viewer: Provenance) -> list[InboxItem]:
    return [item for item in state.inbox.items() if may_touch(viewer, item.provenance.namespace)]

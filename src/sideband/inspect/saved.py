"""The requests of a saved session, rebuilt from its journal: as they were sent, or as another model would get them."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from sideband.core.apply import fold
from sideband.core.drain import drain, start_queued
from sideband.core.errors import InvalidOption, NothingToAnswer, StoreDamaged, shown
from sideband.core.events import (
    Compacted,
    Deferred,
    Dropped,
    DropReason,
    Event,
    RequestCommitted,
    TurnCommitted,
    TurnVoided,
)
from sideband.core.ledger import Fragment, Ledger, RequestHead
from sideband.core.live import LiveIndex
from sideband.core.seams import Seam
from sideband.core.state import SessionState
from sideband.inspect.request import Break, Subject, Told
from sideband.inspect.sessions import stored_session
from sideband.render.plan import Plan
from sideband.render.profiles import Placement, Profile
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from sideband.store.inspector import Inspector, Replay, StoredSession, UnreadableSession


class Making(NamedTuple):
    """How requests are built.

    `model` is written `transport:model`; `is_own` if this is how the session itself builds them.
    """

    model: str
    renderer: Renderer
    is_own: bool = False


# Chooses how to build a request, given its recorded head (None: none was recorded).
Make = Callable[[RequestHead | None], Making]


class RequestOutcome(StrEnum):
    ANSWERED = "answered"
    VOID = "void"
    OPEN = "open"
    """Sent, without a reply so far."""
    COMING = "coming"
    """Not sent yet."""


class Saved(NamedTuple):
    """A request of a session; `exact` if every byte is as it was sent.

    If `has_head` is false, the system text and the tools of the request were not recorded. `since` is the first turn
    that was replayed if earlier turns are pruned (None: the whole session was replayed).
    """

    session_id: str
    making: Making
    subject: Subject
    outcome: RequestOutcome
    exact: bool
    has_head: bool
    since: int | None = None


def saved_request(store: Inspector, make: Make, *, session: str | None, turn: int | None, coming: bool) -> Saved:
    """The request of a session (None: the only one) and a turn (None: the last), or the next one; nothing is written."""
    stored = stored_session(store, session)
    try:
        return _coming(store, stored, make) if coming else _past(store, stored, turn, make)
    except UnreadableSession as error:
        raise StoreDamaged(f"session {shown(stored.session_id)} cannot be read: {error}") from error


def recorded_making(head: RequestHead, placement: Placement | None = None) -> Making | None:
    """How the session built its requests, optionally with another placement.

    None if the record was written by a version whose options this version cannot read.
    """
    try:
        rendering = msgspec.convert(head.rendering, _Rendering)
    except msgspec.ValidationError:
        return None
    renderer = Renderer(
        rendering.profile,
        model=head.model.partition(":")[2],
        placement=placement or rendering.placement,
        max_output_tokens=rendering.max_output_tokens,
        parameters=rendering.parameters,
    )
    return Making(head.model, renderer, is_own=renderer.placement is rendering.placement)


class _Rendering(msgspec.Struct, kw_only=True):
    profile: Profile
    placement: Placement
    max_output_tokens: int | None = None
    parameters: dict[str, Any] = {}


# Recorded requests.


class _Sent:
    """A recorded request with its outcome, and the reminders that it left out or dropped."""

    def __init__(self, committed: RequestCommitted, head: RequestHead | None) -> None:
        self.committed = committed
        self.head = head
        self.outcome = RequestOutcome.OPEN
        self.left_out: list[str] = []
        self.dropped: dict[str, DropReason] = {}


def _requests(replay: Replay) -> list[_Sent]:
    """Every request that was sent; retries are not counted."""
    requests: list[_Sent] = []
    for event in replay:
        if isinstance(event, RequestCommitted) and event.attempt == 1:
            requests.append(_Sent(event, _head_of(event.route, event.head or replay.state.head)))
            continue
        if not requests:
            continue
        match event:
            case Deferred(reminder_id=reminder_id):
                requests[-1].left_out.append(reminder_id)
            case Dropped(reminder_id=reminder_id, reason=reason):
                requests[-1].dropped[reminder_id] = reason
            case TurnCommitted():
                requests[-1].outcome = RequestOutcome.ANSWERED
            case TurnVoided():
                requests[-1].outcome = RequestOutcome.VOID
            case _:
                pass
    return requests


def _head_of(route: str, head: RequestHead | None) -> RequestHead | None:
    """The recorded head, if it is that of this route."""
    return head if head is not None and head.route == route else None


class _Course:
    """A replay of a session, with its own ledger or with the ledger that another way of building requests produces."""

    def __init__(self, stored: StoredSession, replay: Replay, making: Making) -> None:
        self.state = replay.state
        self._session_id = stored.session_id
        self._replay = replay
        self._making = making
        self._other: Ledger | None = None if making.is_own else Ledger()
        self._open: Plan | None = None
        self._messages = 0
        self._last_route = ""
        self._sent = 0

    def run(self, *, before: int | None = None) -> None:
        """Replay up to the request with this index, exclusive (None: replay everything)."""
        for event in self._replay:
            if isinstance(event, RequestCommitted) and event.attempt == 1:
                if self._sent == before:
                    return
                self._sent += 1
                if self._other is not None:
                    self._open = self._planned(event)
                    self._messages = len(self.state.messages)
            elif isinstance(event, TurnCommitted):
                self._answer()
            elif isinstance(event, Compacted) and self._other is not None:
                self._other.clear()

    def _planned(self, sent: RequestCommitted) -> Plan | None:
        """This request as the other way builds it; None if it would say nothing, so that none would have been sent."""
        try:
            return self._making.renderer.render(self.view(sent, sent.head or self.state.head))
        except NothingToAnswer:
            return None

    def _answer(self) -> None:
        if self._other is None:
            self._last_route = "" if self.state.request is None else self.state.request.route
        elif self._open is not None:
            self._other.join(self._open.route, self._open.fragments, self._messages)
            self._last_route = self._open.route

    @property
    def ledger(self) -> Ledger:
        return self.state.ledger if self._other is None else self._other

    def view(
        self, sent: RequestCommitted | None, head: RequestHead | None, *, again: tuple[Fragment, ...] | None = None
    ) -> RequestView:
        """The input of the renderer for the request at this point of the replay."""
        state = self.state
        head = head if sent is None else _head_of(sent.route, head)
        return RequestView(
            turn=state.live.turn + 1,
            system="" if head is None else head.system,
            system_after="" if head is None else head.system_after,
            messages=state.messages,
            tools=() if head is None else head.tools,
            live=state.live,
            session_id=self._session_id,
            window=state.window,
            ledger=self.ledger,
            again=again,
        )

    def subject(self, view: RequestView, sent: _Sent | None = None) -> Subject:
        """The request at this point of the replay, and the same request without reminders."""
        silent = msgspec.structs.replace(view.ledger, fragments=[], standing={})
        # Without its reminders there may be nothing to answer, so this is no new request.
        bare = msgspec.structs.replace(view, live=LiveIndex(turn=view.turn - 1), ledger=silent, again=())
        return Subject(
            view,
            bare,
            tuple(Told(item.reminder, item.provenance, item.provenance.requested) for item in view.live),
            broken=self._broken(self._making.renderer.render(view).route),
            left_out=() if sent is None else tuple(sent.left_out),
            dropped={} if sent is None else sent.dropped,
        )

    def _broken(self, route: str) -> Break | None:
        if self.ledger.route == route or not self.state.live.turn:
            return None
        return Break.COMPACTION if self._last_route == route else Break.ROUTE


# A request that was sent.


def _past(store: Inspector, stored: StoredSession, turn: int | None, make: Make) -> Saved:
    place, sent = _found(stored, _requests(Replay(store, stored)), turn)
    making = make(sent.head)
    course = _Course(stored, Replay(store, stored), making)
    since = course.state.next_turn if stored.pruned_through else None
    course.run(before=place)
    as_sent = course.view(sent.committed, sent.head, again=sent.committed.fragments)
    exact = making.is_own and making.renderer.render(as_sent).route == sent.committed.route
    view = as_sent if exact else msgspec.structs.replace(as_sent, again=None)
    subject = course.subject(view, sent if making.is_own else None)
    return Saved(stored.session_id, making, subject, sent.outcome, exact, sent.head is not None, since)


def _found(stored: StoredSession, requests: list[_Sent], turn: int | None) -> tuple[int, _Sent]:
    """The request of this turn and its index; if a void turn's number was used again, the last request of that number."""
    session = f"session {shown(stored.session_id)}"
    if not requests:
        why = (
            "the kept part of its journal holds no request" if stored.pruned_through else "no request has been sent yet"
        )
        raise InvalidOption(f"{session} has no recorded request: {why}; --next shows the next one", field="session")
    turns = [sent.committed.turn for sent in requests]
    wanted = turns[-1] if turn is None else turn
    if wanted not in turns:
        raise InvalidOption(
            f"{session} has no recorded request of turn {wanted}; recorded are turns {min(turns)} to {max(turns)}",
            field="turn",
            value=turn,
        )
    place = max(place for place, other in enumerate(turns) if other == wanted)
    return place, requests[place]


# The next request.


def _coming(store: Inspector, stored: StoredSession, make: Make) -> Saved:
    requests = _requests(Replay(store, stored))
    head = requests[-1].head if requests else Replay(store, stored).state.head
    making = make(head)
    course = _Course(stored, Replay(store, stored), making)
    course.run()
    _refuse_unknowable(stored, course.state)
    fold(_drained(course.state), course.state)
    if not (course.state.messages or len(course.state.live)):
        raise InvalidOption(
            f"session {shown(stored.session_id)} has no message and no reminder yet, so there is no request to show",
            field="session",
        )
    subject = course.subject(course.view(None, head))
    return Saved(stored.session_id, making, subject, RequestOutcome.COMING, exact=False, has_head=head is not None)


def _refuse_unknowable(stored: StoredSession, state: SessionState) -> None:
    session = f"session {shown(stored.session_id)}"
    if state.closed:
        raise InvalidOption(f"{session} is closed: it will send no further request", field="next")
    if state.request is not None:
        raise InvalidOption(
            f"the request of turn {state.request.turn} in {session} has no reply yet; omit --next to see it",
            field="next",
        )
    if state.open_calls:
        raise InvalidOption(
            f"tools of {session} are still running; the next request depends on their results", field="next"
        )


def _drained(state: SessionState) -> Iterator[Event]:
    """The events by which the loop would drain the inbox before the next request."""
    yield from start_queued(state).events
    yield from drain(state, Seam.ITERATION_START).events

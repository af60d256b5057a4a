"""The requests of a saved session, rebuilt from its journal: as they were sent, or as another model would get them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeGuard

import msgspec

from sideband.core.apply import fold
from sideband.core.drain import drain, start_queued
from sideband.core.errors import InvalidOption, NothingToAnswer, StoreDamaged, shown
from sideband.core.events import (
    Begun,
    Compacted,
    Deferred,
    Deleted,
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
from sideband.render.profiles import Placement, Profile, Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from sideband.runtime.requests import renderer_of
from sideband.store.inspector import Inspector, Replay, StoredSession, UnreadableSession

# The model that stands for a wire if no model is given.
TYPICAL_MODELS: Final[Mapping[Wire, str]] = MappingProxyType(
    {
        Wire.ANTHROPIC: "anthropic:claude-opus-5-5",
        Wire.OPENAI_CHAT: "openai-chat:gpt-6-sol",
        Wire.OPENAI_RESPONSES: "openai:gpt-6-sol",
        Wire.GEMINI: "google:gemini-4-argon",
        Wire.GENERIC: "openai-compatible:any",
    }
)


class Making(NamedTuple):
    """How requests are built.

    `model` is written `transport:model`; `is_own` if this is how the session itself builds them. `bare` is a second
    renderer, for the same requests without reminders (None: `renderer` builds these, too).
    """

    model: str
    renderer: Renderer
    is_own: bool = False
    bare: Renderer | None = None


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
    that was replayed if earlier turns are pruned (None: the whole session was replayed). `compacted` if the conversation
    was compacted since the last reply.
    """

    session_id: str
    making: Making
    subject: Subject
    outcome: RequestOutcome
    exact: bool
    has_head: bool
    since: int | None = None
    compacted: bool = False


def saved_request(store: Inspector, make: Make, *, session: str | None, turn: int | None, coming: bool) -> Saved:
    """The request of a session (None: the only one) and a turn (None: the last), or the next one; nothing is written."""
    return request_of(store, stored_session(store, session), make, turn=turn, coming=coming)


def request_of(store: Inspector, stored: StoredSession, make: Make, *, turn: int | None, coming: bool) -> Saved:
    """The request of a turn (None: the last), or the next one."""
    with _readable(stored):
        if coming:
            return _coming(store, stored, make)
        sent = _found(stored, _requests(Replay(store, stored)), turn)
        return next(_visited(store, stored, [(sent, [make(sent.head)])]))()


def saved_requests(
    store: Inspector, stored: StoredSession, make: Make, *, after: int = 0, limit: int | None = None
) -> Iterator[Saved]:
    """The last request of each turn after `after`, at most `limit` of them (None: all), from one replay of the session.

    A request that `make` would not have sent, because it would say nothing, is left out. Explain each request before
    the next is taken: its views read the state of the replay, which then changes.
    """
    with _readable(stored):
        last = {sent.committed.turn: sent for sent in _requests(Replay(store, stored))}
        wanted = [sent for turn, sent in last.items() if turn > after][:limit]
        # Requests of one route share their renderers, which encode only what is new in each of them.
        makings: dict[str | None, Making] = {}
        for sent in wanted:
            if sent.route not in makings:
                makings[sent.route] = make(sent.head)
        yield from _said(_visited(store, stored, [(sent, [makings[sent.route]]) for sent in wanted]))


def compared_request(
    store: Inspector, stored: StoredSession, makings: Callable[[RequestHead | None], Sequence[Making]], *, turn: int
) -> Iterator[Saved]:
    """The request of a turn, built in each of these ways in which it says something, from one replay of the session.

    The order is that of `makings`, which gets the recorded head (None: none was recorded).
    """
    with _readable(stored):
        sent = _found(stored, _requests(Replay(store, stored)), turn)
        yield from _said(_visited(store, stored, [(sent, makings(sent.head))]))


@contextmanager
def _readable(stored: StoredSession) -> Iterator[None]:
    try:
        yield
    except UnreadableSession as error:
        raise StoreDamaged(f"session {shown(stored.session_id)} cannot be read: {error}") from error


# How requests are built.


def chosen_making(
    head: RequestHead | None,
    *,
    model: str | None = None,
    placement: Placement | None = None,
    profiles: Path | None = None,
) -> Making:
    """How a model builds requests (None: the model that the head names, or else a typical one).

    `profiles` is a file with the user's rows. Without it, the recorded options are used if the model is that of the
    head; `placement` overrides the recorded placement, or that of the profile.
    """
    if head is not None and model in (None, head.model):
        recorded = recorded_making(head, placement) if profiles is None else None
        if recorded is not None:
            return recorded
        model = head.model
    model = model or TYPICAL_MODELS[Wire.ANTHROPIC]
    renderer, bare = (renderer_of(model, placement=placement, profiles=profiles) for _ in range(2))
    return Making(model, renderer, bare=bare)


def recorded_making(head: RequestHead, placement: Placement | None = None) -> Making | None:
    """How the session built its requests, optionally with another placement.

    None if the record was written by a version whose options this version cannot read.
    """
    try:
        rendering = msgspec.convert(head.rendering, _Rendering)
    except msgspec.ValidationError:
        return None
    renderer, bare = (
        Renderer(
            rendering.profile,
            model=head.model.partition(":")[2],
            placement=placement or rendering.placement,
            max_output_tokens=rendering.max_output_tokens,
            parameters=rendering.parameters,
        )
        for _ in range(2)
    )
    return Making(head.model, renderer, is_own=renderer.placement is rendering.placement, bare=bare)


class _Rendering(msgspec.Struct, kw_only=True):
    profile: Profile
    placement: Placement
    max_output_tokens: int | None = None
    parameters: dict[str, Any] = {}


# Recorded requests.


class _Sent:
    """A recorded request with its outcome, and the reminders that it left out or dropped.

    `place` is how many requests are before it in the journal.
    """

    def __init__(self, place: int, committed: RequestCommitted, head: RequestHead | None) -> None:
        self.place = place
        self.committed = committed
        self.head = head
        self.outcome = RequestOutcome.OPEN
        self.left_out: list[str] = []
        self.dropped: dict[str, DropReason] = {}

    @property
    def route(self) -> str | None:
        """The route of its head; None if no head was recorded."""
        return None if self.head is None else self.head.route


def _requests(replay: Replay) -> list[_Sent]:
    """Every request that was sent; retries are not counted, and neither is what a deleted session sent."""
    requests: list[_Sent] = []
    place = 0
    for event in replay:
        if _is_request(event):
            requests.append(_Sent(place, event, _head_of(event.route, event.head or replay.state.head)))
            place += 1
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
            case Begun() | Deleted():
                requests.clear()
            case _:
                pass
    return requests


def _is_request(event: Event) -> TypeGuard[RequestCommitted]:
    """Whether the event is a request that is not a retry."""
    return isinstance(event, RequestCommitted) and event.attempt == 1


def _head_of(route: str, head: RequestHead | None) -> RequestHead | None:
    """The recorded head, if it is that of this route."""
    return head if head is not None and head.route == route else None


class _Branch:
    """What was sent up to some point of a replay, by the session itself or in another way from the beginning.

    Another way has its own ledger, so it has to build every request. The replay tells a branch of the events.
    """

    def __init__(self, stored: StoredSession, state: SessionState, making: Making) -> None:
        self.making = making
        self.compacted = False
        self._state = state
        self._session_id = stored.session_id
        first = state.next_turn
        # A deleted session is pruned, too; one that was begun again under its name is replayed from its first turn.
        self._since = first if stored.pruned_through and first > 1 else None
        self._other: Ledger | None = None if making.is_own else Ledger()
        self._open: Plan | None = None
        self._messages = 0
        self._last_route = ""

    def follow(self, event: Event) -> None:
        """Note an event that has not been applied to the state yet."""
        match event:
            case RequestCommitted(attempt=1) if self._other is not None:
                self._open = self._planned(event)
                self._messages = len(self._state.messages)
            case TurnCommitted():
                self.compacted = False
                self._answer()
            case Compacted():
                self.compacted = True
                self._forget()
            case Begun() | Deleted():
                self.compacted = False
                self._forget()
            case _:
                pass

    def _planned(self, sent: RequestCommitted) -> Plan | None:
        """This request as the other way builds it; None if it would say nothing, so that none would have been sent."""
        try:
            return self.making.renderer.render(self.view(sent, sent.head or self._state.head))
        except NothingToAnswer:
            return None

    def _answer(self) -> None:
        if self._other is None:
            self._last_route = "" if self._state.request is None else self._state.request.route
        elif self._open is not None:
            self._other.join(self._open.route, self._open.fragments, self._messages)
            self._last_route = self._open.route

    def _forget(self) -> None:
        if self._other is not None:
            self._other.clear()

    @property
    def ledger(self) -> Ledger:
        return self._state.ledger if self._other is None else self._other

    def view(
        self, sent: RequestCommitted | None, head: RequestHead | None, *, again: tuple[Fragment, ...] | None = None
    ) -> RequestView:
        """The input of the renderer for the request at this point of the replay."""
        state = self._state
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

    def saved(self, sent: _Sent) -> Saved:
        """The recorded request at this point of the replay."""
        is_own = self.making.is_own
        view = self.view(sent.committed, sent.head, again=sent.committed.fragments if is_own else None)
        route = self.making.renderer.render(view).route
        exact = is_own and route == sent.committed.route
        if is_own and not exact:
            view = msgspec.structs.replace(view, again=None)
        subject = self._subject(view, route)
        if is_own:
            subject = subject._replace(left_out=tuple(sent.left_out), dropped=sent.dropped)
        return Saved(
            self._session_id,
            self.making,
            subject,
            sent.outcome,
            exact,
            has_head=sent.head is not None,
            since=self._since,
            compacted=self.compacted,
        )

    def coming(self, head: RequestHead | None) -> Saved:
        """The request that would be sent at this point of the replay."""
        view = self.view(None, head)
        return Saved(
            self._session_id,
            self.making,
            self._subject(view, self.making.renderer.render(view).route),
            RequestOutcome.COMING,
            exact=False,
            has_head=head is not None,
            compacted=self.compacted,
        )

    def _subject(self, view: RequestView, route: str) -> Subject:
        """The request of this view, and the same request without reminders."""
        silent = msgspec.structs.replace(view.ledger, fragments=[], standing={})
        # Without its reminders there may be nothing to answer, so this is no new request.
        bare = msgspec.structs.replace(view, live=LiveIndex(turn=view.turn - 1), ledger=silent, again=())
        told = tuple(Told(item.reminder, item.provenance, item.provenance.requested) for item in view.live)
        return Subject(view, bare, told, broken=self._broken(route))

    def _broken(self, route: str) -> Break | None:
        if self.ledger.route == route or not self._state.live.turn:
            return None
        return Break.COMPACTION if self._last_route == route else Break.ROUTE


# Requests that were sent.


def _visited(
    store: Inspector, stored: StoredSession, wanted: Iterable[tuple[_Sent, Sequence[Making]]]
) -> Iterator[Callable[[], Saved]]:
    """Replay the session, and stop at each of these requests once for each way in which it is to be built.

    What is yielded builds it; it raises `NothingToAnswer` if the request would say nothing.
    """
    left = {sent.place: (sent, makings) for sent, makings in wanted}
    replay = Replay(store, stored)
    every = {making: None for _, makings in left.values() for making in makings}
    branches = {making: _Branch(stored, replay.state, making) for making in every}
    place = 0
    for event in replay if left else ():
        if _is_request(event):
            if place in left:
                sent, makings = left.pop(place)
                yield from (partial(branches[making].saved, sent) for making in makings)
                if not left:
                    return
            place += 1
        for branch in branches.values():
            branch.follow(event)


def _said(visited: Iterable[Callable[[], Saved]]) -> Iterator[Saved]:
    """Those that say something."""
    for build in visited:
        try:
            saved = build()
        except NothingToAnswer:
            continue
        yield saved


def _found(stored: StoredSession, requests: list[_Sent], turn: int | None) -> _Sent:
    """The request of this turn (None: the last); if a void turn's number was used again, the last one of that number."""
    session = f"session {shown(stored.session_id)}"
    if not requests:
        why = (
            "the kept part of its journal holds no request" if stored.pruned_through else "no request has been sent yet"
        )
        raise InvalidOption(
            f"{session} has no recorded request: {why}; only the next one can be shown", field="session"
        )
    by_turn = {sent.committed.turn: sent for sent in requests}
    wanted = requests[-1].committed.turn if turn is None else turn
    if wanted not in by_turn:
        raise InvalidOption(
            f"{session} has no recorded request of turn {wanted}; recorded are turns {min(by_turn)} to {max(by_turn)}",
            field="turn",
            value=turn,
        )
    return by_turn[wanted]


# The next request.


def _coming(store: Inspector, stored: StoredSession, make: Make) -> Saved:
    past = Replay(store, stored)
    requests = _requests(past)
    head = requests[-1].head if requests else past.state.head
    replay = Replay(store, stored)
    state = replay.state
    branch = _Branch(stored, state, make(head))
    for event in replay:
        branch.follow(event)
    _refuse_unknowable(stored, state)
    fold(_drained(state), state)
    if not (state.messages or len(state.live)):
        raise InvalidOption(
            f"session {shown(stored.session_id)} has no message and no reminder yet, so there is no request to show",
            field="session",
        )
    return branch.coming(head)


def _refuse_unknowable(stored: StoredSession, state: SessionState) -> None:
    session = f"session {shown(stored.session_id)}"
    if state.closed:
        raise InvalidOption(f"{session} is closed: it will send no further request", field="next")
    if state.request is not None:
        raise InvalidOption(
            f"the request of turn {state.request.turn} in {session} has no reply yet; show that request instead of the next one",
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

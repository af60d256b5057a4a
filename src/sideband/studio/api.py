"""The HTTP API: one table of operations, from which the routes and the OpenAPI document are made."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Meta
from starlette.responses import Response
from starlette.routing import Route

from sideband import __version__
from sideband.core.errors import (
    CursorExpired,
    InvalidOption,
    ReminderError,
    SessionBusy,
    UnknownMessage,
    UnknownSession,
    shown,
)
from sideband.core.masking import mask_text
from sideband.core.reminder import Source
from sideband.core.surfaces import Case, Surface, spelled
from sideband.core.topic import KINDS, TopicRecord
from sideband.core.updates import ResultUpdate, TurnUpdate, UpdateKind, Viewer
from sideband.inspect.conversation import PendingItem, message_text, pending_items
from sideband.inspect.memory import inspect_memory
from sideband.inspect.requests import (
    RequestDocument,
    compared_requests,
    inspectable_models,
    request_document,
    request_rows,
)
from sideband.inspect.sessions import inspect_store
from sideband.inspect.timeline import Timeline, read_timeline
from sideband.inspect.update_json import reminder_json, sender_json
from sideband.protocols.http import HttpRefusal
from sideband.protocols.wire import InjectedReminder
from sideband.recall.facts import DEFAULT_NAMESPACE, MAX_FACTS, fact_document
from sideband.runtime.facts import recall_facts, store_fact
from sideband.runtime.permission import answer
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.runtime.system import moment
from sideband.runtime.updates import topic
from sideband.studio.auth import COOKIE_SECONDS, Gate
from sideband.studio.operations import SSE, ApiRefusal, Call, Endpoint, Operation
from sideband.studio.runs import SERVICE, SERVICE_RECORD, NoModel, StudioRuns
from sideband.studio.session_cards import LISTED, TITLE_RECORD, SessionCard, SessionCards, session_card, session_cards
from sideband.studio.shapes import (
    BeginRequest,
    CancelAnswer,
    CancelRequest,
    ClearAnswer,
    ClearRequest,
    EventsAnswer,
    FactAnswer,
    FactRequest,
    FactsAnswer,
    InjectRequest,
    LinkAnswer,
    LoginRequest,
    MessageAnswer,
    NoBody,
    PendingAnswer,
    PendingRow,
    PermissionRequest,
    PromptRequest,
    RemindAnswer,
    RemovedAnswer,
    ReplaceRequest,
    RequestsAnswer,
    ResultAnswer,
    RevokeRequest,
    ServerInfo,
    StatusAnswer,
)
from sideband.studio.stream import EventStream, Streams, frame

_ValueT = TypeVar("_ValueT")
# The largest number that a store can look for.
_LARGEST: Final = 2**62
_MAX_DIGITS: Final = len(str(_LARGEST))
_MAX_EVENTS: Final = 1_000


_NO_MODEL: Final = HttpRefusal(
    409,
    "No model is configured, so the session cannot answer. Start the server with --model anthropic:NAME, openai:NAME or "
    "local:, or set ANTHROPIC_API_KEY or OPENAI_API_KEY.",
    "no_model",
)
_NO_REHEARSAL: Final = HttpRefusal(409, "This server has no rehearsal; start it with `sideband serve`.", "no_rehearsal")
_TOO_MANY_STREAMS: Final = HttpRefusal(429, "Too many event streams are open; close some of them.", "rate_limited")


class Rehearsals(Protocol):
    """Plays rehearsals."""

    async def start(self) -> str:
        """Begin one, and return the id of its session."""


class Api:
    """What the operations act on."""

    def __init__(
        self,
        store: Store,
        *,
        store_url: str,
        runs: StudioRuns,
        streams: Streams,
        gate: Gate,
        url: str,
        workspace: str,
        model: str | None,
        rehearsals: Rehearsals | None,
    ) -> None:
        self.store = store
        self.store_url = store_url
        self.runs = runs
        self.streams = streams
        self.gate = gate
        self.url = url
        self.workspace = workspace
        self.model = model
        self.rehearsals = rehearsals
        # Rendering requests takes a while, and blocks other Python code.
        self._inspecting = asyncio.Semaphore(1)

    async def session(self, call: Call) -> Session:
        """The session that a request names; `UnknownSession` if there is none."""
        session_id = call.path["id"]
        session = await self.store.find(session_id)
        if session is None:
            raise UnknownSession(f"there is no session {shown(session_id)}", field="id", value=session_id)
        return session

    async def producer(self, call: Call) -> Producer:
        return self.producer_of(await self.session(call), call)

    def producer_of(self, session: Session, call: Call) -> Producer:
        return Producer(session, call.sender, surface=Surface.HTTP, source=Source.BRIDGE)

    async def inspect(self, session: Session, look: Callable[[Any], _ValueT]) -> _ValueT:
        """Read what the store holds of a session, in a thread."""

        def looking() -> _ValueT:
            with inspect_store(self.store_url) as found:
                return look(found)

        async with self._inspecting:
            if self.store_url == "memory:":
                return await asyncio.to_thread(look, await inspect_memory(self.store.journal, session.id))
            return await asyncio.to_thread(looking)


# Sessions.


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[int, Meta(ge=1, le=_LARGEST)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = LISTED


async def _info(api: Api, _call: Call) -> ServerInfo:
    return ServerInfo(
        version=__version__,
        store=mask_text(api.store_url),
        workspace=api.workspace,
        rehearsal=api.rehearsals is not None,
        models=inspectable_models(),
        model=api.model,
    )


async def _sessions(api: Api, call: Call) -> SessionCards:
    return await session_cards(api.store, before=call.query.before, limit=call.query.limit)


async def _begin(api: Api, call: Call) -> SessionCard:
    given: BeginRequest = call.body
    title = (given.title or "").strip()
    if not title.isprintable():
        raise InvalidOption(f"title must consist of printable characters, not {shown(title)}", field="title")
    if given.prompt is not None and api.model is None:
        raise ApiRefusal(_NO_MODEL)
    records = {SERVICE_RECORD: SERVICE, "cwd": api.workspace, TITLE_RECORD: title or None}
    try:
        session = await api.store.begin(attributes=records, prompt=given.prompt, sender=call.sender)
    except ReminderError as error:
        # The store calls what it queues the content.
        error.field = error.field and error.field.replace("content", "prompt", 1)
        raise
    if given.prompt is not None:
        await api.runs.begin(session)
    return await _card(api, session.id)


async def _card(api: Api, session_id: str) -> SessionCard:
    card = await session_card(api.store, session_id)
    if card is None:
        raise UnknownSession(f"there is no session {shown(session_id)}", field="id", value=session_id)
    return card


async def _one(api: Api, call: Call) -> SessionCard:
    return await _card(api, (await api.session(call)).id)


class TimelineQuery(msgspec.Struct, frozen=True, kw_only=True):
    turns: Annotated[int, Meta(ge=1, le=100_000, description="Only the last turns.")] | None = None


async def _timeline(api: Api, call: Call) -> Timeline:
    session = await api.session(call)
    return await read_timeline(session, viewer=Viewer(provenance=call.sender), turns=call.query.turns)


async def _transcript(api: Api, call: Call) -> msgspec.Raw:
    return msgspec.Raw((await (await api.session(call)).transcript()).to_json().encode())


async def _pending(api: Api, call: Call) -> PendingAnswer:
    session = await api.session(call)
    items = (await api.store.journal.read(session.id, lambda state: [*pending_items(state)])).value
    return PendingAnswer(session=session.id, pending=[*map(_pending_row, items)])


def _pending_row(item: PendingItem) -> PendingRow:
    return PendingRow(
        state=item.state.value,
        position=item.position,
        kind=item.kind,
        id=item.id,
        sender=sender_json(item.provenance),
        mode=item.mode,
        text=None if item.reminder is not None else item.text,
        reminder=None if item.reminder is None else reminder_json(item.reminder),
    )


class ResultQuery(msgspec.Struct, frozen=True, kw_only=True):
    turn: Annotated[int, Meta(ge=1, description="The turn of the call; without, the last call of this id.")] | None = (
        None
    )


async def _result(api: Api, call: Call) -> ResultAnswer:
    session, call_id = await api.session(call), call.path["callId"]
    after, turn, found = 0, 0, None
    while True:
        try:
            past = session.updates(Viewer(provenance=call.sender), after=after, follow=False)
            async with aclosing(past):
                async for update in past:
                    if isinstance(update, TurnUpdate) and update.kind is UpdateKind.TURN_COMMITTED:
                        turn = update.turn
                    elif isinstance(update, ResultUpdate) and update.call_id == call_id:
                        found = update if call.query.turn in (None, turn) else found
            break
        except CursorExpired as expired:
            after = expired.oldest
    if found is None:
        raise ApiRefusal(HttpRefusal(404, f"There is no result of the call {shown(call_id)}.", "not_found"))
    return ResultAnswer(text=message_text(found.message))


# Telling a session something.


async def _prompt(api: Api, call: Call) -> MessageAnswer:
    session, given = await api.session(call), call.body
    prompt = partial(api.producer_of(session, call).prompt, given.content, meta=given.meta)
    try:
        return MessageAnswer(message_id=await api.runs.accept(session, prompt, must_run=True))
    except NoModel:
        raise ApiRefusal(_NO_MODEL) from None


async def _inject(api: Api, call: Call) -> MessageAnswer:
    session, given = await api.session(call), call.body
    inject = partial(api.producer_of(session, call).inject, given.content, mode=given.mode, meta=given.meta)
    # A message with another mode starts no turn.
    accepting = api.runs.accept(session, inject) if given.mode == "queue" else inject()
    return MessageAnswer(message_id=await accepting)


async def _remind(api: Api, call: Call) -> RemindAnswer:
    accepted = await (await api.producer(call)).remind(call.body)
    return RemindAnswer(
        reminder_id=accepted.reminder_id,
        deduped_count=accepted.deduped_count,
        accepted_at=moment(accepted.accepted_at),
        requested=_camel(accepted.requested),
        effective=_camel(accepted.effective),
    )


def _camel(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    return {spelled(name, Case.CAMEL): value for name, value in fields.items()} or None


async def _revoke(api: Api, call: Call) -> StatusAnswer:
    return StatusAnswer(status=await (await api.producer(call)).revoke(call.body.id))


async def _replace(api: Api, call: Call) -> StatusAnswer:
    given: ReplaceRequest = call.body
    producer = await api.producer(call)
    if (given.body is None) is (given.content is None):
        raise InvalidOption("give either body, for a reminder, or content, for a message", field="body")
    if given.body is not None:
        await producer.replace_reminder(given.id, given.body)
    elif given.content is not None:
        await producer.replace_message(given.id, given.content)
    return StatusAnswer(status="replaced")


async def _clear(api: Api, call: Call) -> ClearAnswer:
    given: ClearRequest = call.body
    if given.id is None and given.tag is None and given.dedupe_key is None:
        raise InvalidOption("give an id, a tag or a dedupeKey to select reminders by", field="id")
    removed = await (await api.producer(call)).clear(id=given.id, tag=given.tag, dedupe_key=given.dedupe_key)
    return ClearAnswer(removed_count=removed)


async def _cancel(api: Api, call: Call) -> CancelAnswer:
    session = await api.session(call)
    cancelled = await session.cancel(call.body.message_id)
    waiting = await api.producer_of(session, call).waiting()
    return CancelAnswer(cancelled=cancelled, waiting=[entry.item.id for entry in waiting])


async def _permission(api: Api, call: Call) -> None:
    session, request_id = await api.session(call), call.path["requestId"]
    given: PermissionRequest = call.body
    try:
        tool = await answer(session, request_id, allow=given.allow)
    except UnknownMessage:
        raise ApiRefusal(
            HttpRefusal(404, f"The permission {shown(request_id)} is not asked for any more.", "not_found")
        ) from None
    except SessionBusy:
        raise ApiRefusal(HttpRefusal(409, "Another answer was given first; it counts.", "already_answered")) from None
    if given.allow and given.always and tool is not None:
        api.runs.allow(session.id, tool)


# Events.


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, le=_LARGEST)] = 0
    kind: Annotated[str, Meta(description="Only kinds that begin with this.")] = ""
    limit: Annotated[int, Meta(ge=1, le=_MAX_EVENTS)] = _MAX_EVENTS


async def _session_events(api: Api, call: Call) -> object:
    return await _events(api, call, (await api.session(call)).id)


async def _store_events(api: Api, call: Call) -> object:
    return await _events(api, call, None)


async def _events(api: Api, call: Call, session_id: str | None) -> object:
    query: EventsQuery = call.query
    if not any(name.startswith(query.kind) for name in KINDS.values()):
        raise InvalidOption(f"no kind of event begins with {shown(query.kind)}", field="kind", value=query.kind)
    if SSE in call.headers.get("accept", ""):
        if api.streams.is_full:
            raise ApiRefusal(_TOO_MANY_STREAMS)
        after = _last_event_id(call, query.after)
        frames = api.streams.until_stopped(_topic_frames(api.store, session_id, query.kind, after))
        return EventStream(frames, api.streams.stopping)
    records: list[TopicRecord] = []
    reading = topic(api.store.journal, session_id=session_id, kind_prefix=query.kind, after=query.after, follow=False)
    async with aclosing(reading):
        async for record in reading:
            records.append(record)
            if len(records) > query.limit:
                break
    more, kept = len(records) > query.limit, records[: query.limit]
    return EventsAnswer(
        events=[msgspec.to_builtins(record) for record in kept], last=kept[-1].seq if kept else query.after, more=more
    )


async def _topic_frames(store: Store, session_id: str | None, kind: str, after: int) -> AsyncGenerator[bytes, None]:
    try:
        reading = topic(store.journal, session_id=session_id, kind_prefix=kind, after=after)
        async with aclosing(reading):
            async for record in reading:
                yield frame("event", record, sequence=record.seq)
    except CursorExpired as expired:
        yield frame("expired", {"oldest": expired.oldest})


def _last_event_id(call: Call, after: int) -> int:
    """Where a client goes on: after the event that it had last, or else where it asks to begin."""
    given = call.headers.get("last-event-id", "")
    return min(int(given), _LARGEST) if _is_number(given) else after


def _is_number(text: str) -> bool:
    """Whether this is a number that a store may have given."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True):
    session: Annotated[str, Meta(description="The session to follow; without, only the list of sessions.")] | None = (
        None
    )
    after: Annotated[int, Meta(ge=0, le=_LARGEST, description="The cursor to begin after.")] = 0


async def _stream(api: Api, call: Call) -> EventStream:
    if api.streams.is_full:
        raise ApiRefusal(_TOO_MANY_STREAMS)
    name = call.query.session
    session = None if name is None else await api.session(call._replace(path={"id": name}))
    after = _last_event_id(call, call.query.after)
    return EventStream(api.streams.follow(session, call.sender, after=after), api.streams.stopping)


# Requests to models.


class RowsQuery(msgspec.Struct, frozen=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, le=_LARGEST, description="Only turns after this one.")] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class RequestQuery(msgspec.Struct, frozen=True, kw_only=True):
    model: Annotated[str, Meta(description="For another model than that of the session.")] | None = None
    placement: Annotated[str, Meta(description="`native`, `tail` or `seed`.")] | None = None


async def _requests(api: Api, call: Call) -> RequestsAnswer:
    session, query = await api.session(call), call.query
    rows = await api.inspect(
        session, lambda store: request_rows(store, session=session.id, after=query.after, limit=query.limit)
    )
    return RequestsAnswer(requests=rows)


async def _request(api: Api, call: Call) -> RequestDocument:
    session, query, turn = await api.session(call), call.query, call.path["turn"]
    is_next = turn == "next"
    number = None if is_next else _turn(turn)
    return await api.inspect(
        session,
        lambda store: request_document(
            store, session=session.id, turn=number, coming=is_next, model=query.model, placement=query.placement
        ),
    )


async def _compared(api: Api, call: Call) -> RequestsAnswer:
    session, turn = await api.session(call), _turn(call.path["turn"])
    return RequestsAnswer(
        requests=await api.inspect(session, lambda store: compared_requests(store, session=session.id, turn=turn))
    )


def _turn(text: str) -> int:
    if not (_is_number(text) and 0 < int(text) <= _LARGEST):
        raise InvalidOption(f"turn must be a number from 1 on, or 'next', not {shown(text)}", field="turn", value=text)
    return int(text)


# Facts.


class FactsQuery(msgspec.Struct, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="Only facts that are recalled for this text, best first.")] | None = None
    namespace: str | None = None


class NamespaceQuery(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str | None = None


async def _facts(api: Api, call: Call) -> FactsAnswer:
    wanted: FactsQuery = call.query
    if wanted.query is not None:
        where = wanted.namespace or DEFAULT_NAMESPACE
        recalled = await recall_facts(
            store=api.store, query=wanted.query, namespace=wanted.namespace, max_facts=MAX_FACTS
        )
        return FactsAnswer(facts=[{"namespace": where, **fact_document(entry.fact)} for entry in recalled])
    book = await api.store.fact_book()
    names = book.namespaces if wanted.namespace is None else (wanted.namespace,)
    return FactsAnswer(
        facts=[{"namespace": name, **fact_document(fact)} for name in names for fact in book.facts(name)]
    )


async def _add_fact(api: Api, call: Call) -> FactAnswer:
    given: FactRequest = call.body
    stored = await store_fact(
        store=api.store,
        kind=given.kind,
        claim=given.claim.strip(),
        confidence=given.confidence,
        namespace=DEFAULT_NAMESPACE if given.namespace is None else given.namespace,
    )
    return FactAnswer(id=stored.fact.id, refreshed=stored.refreshed)


async def _remove_fact(api: Api, call: Call) -> RemovedAnswer:
    return RemovedAnswer(removed=await api.store.forget_fact(call.path["id"], namespace=call.query.namespace))


# The rehearsal, and logging in.


async def _rehearse(api: Api, _call: Call) -> SessionCard:
    if api.rehearsals is None:
        raise ApiRefusal(_NO_REHEARSAL)
    return await _card(api, await api.rehearsals.start())


async def _link(api: Api, _call: Call) -> LinkAnswer:
    return LinkAnswer(url=login_url(api.url, api.gate))


def login_url(url: str, gate: Gate) -> str:
    """An address that logs a browser in, once. The code is in the fragment, which browsers do not send to servers."""
    return f"{url}/#login={gate.new_code()}"


async def _log_in(api: Api, call: Call) -> Response:
    refusal = api.gate.log_in(call.body.code)
    if refusal is not None:
        raise ApiRefusal(refusal)
    answered = Response(status_code=204)
    answered.set_cookie(
        api.gate.cookie_name,
        api.gate.new_cookie(),
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="strict",
        path="/",
    )
    return answered


_STREAMED: Final = (
    "`update`: an update of the session, whose id is its cursor; `session`: a session of the store, at the start and when it "
    "has changed; `text`: a piece of the reply that is being written, with `replyId` and `attempt`; `expired`: updates after "
    "the cursor are no longer kept, read the timeline and continue after its cursor; `ping`: nothing has happened for 15 "
    "seconds. With the header `Last-Event-ID`, the stream continues after that update."
)
_FOLLOWED: Final = "`event`: an event of the topic, whose id is its sequence; `expired` and `ping` as in /api/stream."
_SESSION: Final = "/api/sessions/{id}"
OPERATIONS: Final = (
    Operation("GET", "/api/info", "What this server is", _info, answer=ServerInfo),
    Operation("GET", "/api/sessions", "List the sessions", _sessions, query=PageQuery, answer=SessionCards),
    Operation("POST", "/api/sessions", "Begin a session", _begin, body=BeginRequest, answer=SessionCard, status=201),
    Operation("GET", _SESSION, "One session", _one, answer=SessionCard),
    Operation(
        "GET",
        f"{_SESSION}/timeline",
        "The turns, messages and reminders of a session, and the cursor that the event stream continues",
        _timeline,
        query=TimelineQuery,
        answer=Timeline,
    ),
    Operation("GET", f"{_SESSION}/transcript", "The conversation as it stands now", _transcript, answer=dict[str, Any]),
    Operation("GET", f"{_SESSION}/pending", "What is queued, and the live reminders", _pending, answer=PendingAnswer),
    Operation(
        "GET",
        f"{_SESSION}/results/{{callId}}",
        "The whole output of a tool",
        _result,
        query=ResultQuery,
        answer=ResultAnswer,
    ),
    Operation(
        "POST", f"{_SESSION}/prompt", "Send the next user message", _prompt, body=PromptRequest, answer=MessageAnswer
    ),
    Operation(
        "POST",
        f"{_SESSION}/inject",
        "Send a user message into the running turn, or queue it",
        _inject,
        body=InjectRequest,
        answer=MessageAnswer,
    ),
    Operation(
        "POST",
        f"{_SESSION}/remind",
        "Send a reminder",
        _remind,
        body=InjectedReminder,
        answer=RemindAnswer,
        is_raw=True,
    ),
    Operation(
        "POST",
        f"{_SESSION}/revoke",
        "Revoke a queued reminder or message",
        _revoke,
        body=RevokeRequest,
        answer=StatusAnswer,
    ),
    Operation(
        "POST",
        f"{_SESSION}/replace",
        "Replace the text of a queued reminder or message",
        _replace,
        body=ReplaceRequest,
        answer=StatusAnswer,
    ),
    Operation("POST", f"{_SESSION}/clear", "End reminders", _clear, body=ClearRequest, answer=ClearAnswer),
    Operation("POST", f"{_SESSION}/cancel", "End the turn", _cancel, body=CancelRequest, answer=CancelAnswer),
    Operation(
        "POST",
        f"{_SESSION}/permissions/{{requestId}}",
        "Answer a question for permission",
        _permission,
        body=PermissionRequest,
        status=204,
    ),
    Operation(
        "GET",
        f"{_SESSION}/events",
        "The events of a session, without bodies and with secrets masked",
        _session_events,
        query=EventsQuery,
        answer=EventsAnswer,
        events=_FOLLOWED,
    ),
    Operation(
        "GET",
        "/api/events",
        "The events of all sessions",
        _store_events,
        query=EventsQuery,
        answer=EventsAnswer,
        events=_FOLLOWED,
    ),
    Operation(
        "GET",
        "/api/stream",
        "Follow a session and the list of sessions",
        _stream,
        query=StreamQuery,
        events=_STREAMED,
    ),
    Operation(
        "GET",
        f"{_SESSION}/requests",
        "The requests that the session has sent to its model",
        _requests,
        query=RowsQuery,
        answer=RequestsAnswer,
    ),
    Operation(
        "GET",
        f"{_SESSION}/requests/{{turn}}",
        "One request in full, as it was sent or as another model would get it; `next` is the one to come",
        _request,
        query=RequestQuery,
        answer=RequestDocument,
    ),
    Operation(
        "GET",
        f"{_SESSION}/requests/{{turn}}/compare",
        "The request of a turn for other models and placements",
        _compared,
        answer=RequestsAnswer,
    ),
    Operation("GET", "/api/facts", "List or recall facts", _facts, query=FactsQuery, answer=FactsAnswer),
    Operation("POST", "/api/facts", "Store a fact", _add_fact, body=FactRequest, answer=FactAnswer, status=201),
    Operation("DELETE", "/api/facts/{id}", "Remove a fact", _remove_fact, query=NamespaceQuery, answer=RemovedAnswer),
    Operation("POST", "/api/rehearsal", "Begin a rehearsal", _rehearse, body=NoBody, answer=SessionCard, status=201),
    Operation("POST", "/api/links", "Make a one-time link for a browser", _link, body=NoBody, answer=LinkAnswer),
    Operation(
        "POST", "/api/login", "Exchange a link for a cookie", _log_in, body=LoginRequest, status=204, is_open=True
    ),
)


def routes(api: Api) -> list[Route]:
    """The routes of all operations; those of one path are in one route, which refuses other methods."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    limit = api.store.limits.frame_bytes
    return [Route(path, Endpoint(api, operations, api.gate, limit=limit)) for path, operations in by_path.items()]

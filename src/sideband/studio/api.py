"""The handlers of the HTTP API; `routes.py` says which operation has which handler."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec
from starlette.responses import Response

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
from sideband.inspect.history import read_timeline
from sideband.inspect.memory import inspect_memory
from sideband.inspect.requests import (
    RequestDocument,
    compared_requests,
    inspectable_models,
    request_document,
    request_rows,
)
from sideband.inspect.sessions import inspect_store
from sideband.inspect.timeline import Timeline
from sideband.inspect.update_json import reminder_json, sender_json
from sideband.protocols.http import HttpRefusal
from sideband.recall.facts import DEFAULT_NAMESPACE, MAX_FACTS, fact_document
from sideband.runtime.facts import recall_facts, store_fact
from sideband.runtime.permission import answer
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.runtime.system import moment
from sideband.runtime.updates import topic
from sideband.studio.auth import COOKIE_SECONDS, Gate
from sideband.studio.operations import SSE, ApiCall, ApiRefusal
from sideband.studio.runs import SERVICE, SERVICE_RECORD, NoModel, StudioRuns
from sideband.studio.session_cards import (
    REHEARSAL_RECORD,
    TITLE_RECORD,
    SessionCard,
    SessionCards,
    session_card,
    session_cards,
)
from sideband.studio.shapes import (
    LARGEST,
    BeginRequest,
    CancelAnswer,
    ClearAnswer,
    ClearRequest,
    EventsAnswer,
    EventsQuery,
    FactAnswer,
    FactRequest,
    FactsAnswer,
    FactsQuery,
    LinkAnswer,
    MessageAnswer,
    PendingAnswer,
    PendingRow,
    PermissionVerdict,
    RemindAnswer,
    RemovedAnswer,
    ReplaceRequest,
    RequestsAnswer,
    ResultAnswer,
    ServerInfo,
    StatusAnswer,
)
from sideband.studio.stream import EventStream, Streams, frame

_ValueT = TypeVar("_ValueT")
_MAX_DIGITS: Final = len(str(LARGEST))


_NO_MODEL: Final = HttpRefusal(
    409,
    "No model is configured, so the session cannot answer. Start the server with --model anthropic:NAME, openai:NAME or "
    "local:, or set ANTHROPIC_API_KEY or OPENAI_API_KEY.",
    "no_model",
)
_ENDED_REHEARSAL: Final = HttpRefusal(
    409,
    "The server that played this rehearsal has ended, and its workspace is gone. Begin another rehearsal.",
    "rehearsal_ended",
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

    async def session(self, call: ApiCall) -> Session:
        """The session that a request names; `UnknownSession` if there is none."""
        session_id = call.path["id"]
        session = await self.store.find(session_id)
        if session is None:
            raise UnknownSession(f"there is no session {shown(session_id)}", field="id", value=session_id)
        return session

    async def producer(self, call: ApiCall) -> Producer:
        return self.producer_of(await self.session(call), call)

    def producer_of(self, session: Session, call: ApiCall) -> Producer:
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


async def info(api: Api, _call: ApiCall) -> ServerInfo:
    return ServerInfo(
        version=__version__,
        store=mask_text(api.store_url),
        workspace=api.workspace,
        rehearsal=api.rehearsals is not None,
        models=inspectable_models(),
        model=api.model,
    )


async def sessions(api: Api, call: ApiCall) -> SessionCards:
    return await session_cards(api.store, before=call.query.before, limit=call.query.limit)


async def begin(api: Api, call: ApiCall) -> SessionCard:
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


async def session_info(api: Api, call: ApiCall) -> SessionCard:
    return await _card(api, (await api.session(call)).id)


async def timeline(api: Api, call: ApiCall) -> Timeline:
    session = await api.session(call)
    return await read_timeline(session, viewer=Viewer(provenance=call.sender), turns=call.query.turns)


async def transcript(api: Api, call: ApiCall) -> msgspec.Raw:
    return msgspec.Raw((await (await api.session(call)).transcript()).to_json().encode())


async def pending(api: Api, call: ApiCall) -> PendingAnswer:
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


async def tool_result(api: Api, call: ApiCall) -> ResultAnswer:
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


async def prompt(api: Api, call: ApiCall) -> MessageAnswer:
    session, given = await api.session(call), call.body
    prompt = partial(api.producer_of(session, call).prompt, given.content, meta=given.meta)
    try:
        return MessageAnswer(message_id=await api.runs.accept(session, prompt, must_run=True))
    except NoModel:
        is_rehearsal = (await session.records()).get(REHEARSAL_RECORD) is True
        raise ApiRefusal(_ENDED_REHEARSAL if is_rehearsal else _NO_MODEL) from None


async def inject(api: Api, call: ApiCall) -> MessageAnswer:
    session, given = await api.session(call), call.body
    inject = partial(api.producer_of(session, call).inject, given.content, mode=given.mode, meta=given.meta)
    # A message with another mode starts no turn.
    accepting = api.runs.accept(session, inject) if given.mode == "queue" else inject()
    return MessageAnswer(message_id=await accepting)


async def remind(api: Api, call: ApiCall) -> RemindAnswer:
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


async def revoke(api: Api, call: ApiCall) -> StatusAnswer:
    return StatusAnswer(status=await (await api.producer(call)).revoke(call.body.id))


async def replace(api: Api, call: ApiCall) -> StatusAnswer:
    given: ReplaceRequest = call.body
    producer = await api.producer(call)
    if (given.body is None) is (given.content is None):
        raise InvalidOption("give either body, for a reminder, or content, for a message", field="body")
    if given.body is not None:
        await producer.replace_reminder(given.id, given.body)
    elif given.content is not None:
        await producer.replace_message(given.id, given.content)
    return StatusAnswer(status="replaced")


async def clear(api: Api, call: ApiCall) -> ClearAnswer:
    given: ClearRequest = call.body
    if given.id is None and given.tag is None and given.dedupe_key is None:
        raise InvalidOption("give an id, a tag or a dedupeKey to select reminders by", field="id")
    removed = await (await api.producer(call)).clear(id=given.id, tag=given.tag, dedupe_key=given.dedupe_key)
    return ClearAnswer(removed_count=removed)


async def cancel(api: Api, call: ApiCall) -> CancelAnswer:
    session = await api.session(call)
    cancelled = await session.cancel(call.body.message_id)
    waiting = await api.producer_of(session, call).waiting()
    return CancelAnswer(cancelled=cancelled, waiting=[entry.item.id for entry in waiting])


async def answer_permission(api: Api, call: ApiCall) -> None:
    session, request_id = await api.session(call), call.path["requestId"]
    given: PermissionVerdict = call.body
    try:
        await answer(session, request_id, allow=given.allow, always=given.always)
    except UnknownMessage:
        raise ApiRefusal(
            HttpRefusal(404, f"The permission {shown(request_id)} is not asked for any more.", "not_found")
        ) from None
    except SessionBusy:
        raise ApiRefusal(HttpRefusal(409, "Another answer was given first; it counts.", "already_answered")) from None


# Events.


async def session_events(api: Api, call: ApiCall) -> object:
    return await _events(api, call, (await api.session(call)).id)


async def store_events(api: Api, call: ApiCall) -> object:
    return await _events(api, call, None)


async def _events(api: Api, call: ApiCall, session_id: str | None) -> object:
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


def _last_event_id(call: ApiCall, after: int) -> int:
    """Where a client goes on: after the event that it had last, or else where it asks to begin."""
    given = call.headers.get("last-event-id", "")
    return min(int(given), LARGEST) if _is_number(given) else after


def _is_number(text: str) -> bool:
    """Whether this is a number that a store may have given."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


async def stream(api: Api, call: ApiCall) -> EventStream:
    if api.streams.is_full:
        raise ApiRefusal(_TOO_MANY_STREAMS)
    name = call.query.session
    session = None if name is None else await api.session(call._replace(path={"id": name}))
    after = _last_event_id(call, call.query.after)
    return EventStream(api.streams.follow(session, call.sender, after=after), api.streams.stopping)


# Requests to models.


async def requests(api: Api, call: ApiCall) -> RequestsAnswer:
    session, query = await api.session(call), call.query
    rows = await api.inspect(
        session, lambda store: request_rows(store, session=session.id, after=query.after, limit=query.limit)
    )
    return RequestsAnswer(requests=rows)


async def request(api: Api, call: ApiCall) -> RequestDocument:
    session, query, turn = await api.session(call), call.query, call.path["turn"]
    is_next = turn == "next"
    number = None if is_next else _turn(turn)
    look = partial(
        request_document,
        session=session.id,
        turn=number,
        coming=is_next,
        model=query.model,
        placement=query.placement,
        # A script has no format of its own.
        otherwise=None if api.model is None or api.model.startswith("scripted:") else api.model,
    )
    return await _of_turn(api.inspect(session, look))


async def compare_requests(api: Api, call: ApiCall) -> RequestsAnswer:
    session, turn = await api.session(call), _turn(call.path["turn"])
    rows = api.inspect(session, lambda store: compared_requests(store, session=session.id, turn=turn))
    return RequestsAnswer(requests=await _of_turn(rows))


def _turn(text: str) -> int:
    if not (_is_number(text) and 0 < int(text) <= LARGEST):
        raise InvalidOption(f"turn must be a number from 1 on, not {shown(text)}", field="turn", value=text)
    return int(text)


async def _of_turn(looking: Awaitable[_ValueT]) -> _ValueT:
    """What is found of a turn; a turn without a recorded request is refused with 404."""
    try:
        return await looking
    except InvalidOption as error:
        if error.field != "turn":
            raise
        raise ApiRefusal(HttpRefusal(404, str(error).removeprefix(f"{error.code}: "), "not_found")) from None


# Facts.


async def facts(api: Api, call: ApiCall) -> FactsAnswer:
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


async def add_fact(api: Api, call: ApiCall) -> FactAnswer:
    given: FactRequest = call.body
    stored = await store_fact(
        store=api.store,
        kind=given.kind,
        claim=given.claim.strip(),
        confidence=given.confidence,
        namespace=DEFAULT_NAMESPACE if given.namespace is None else given.namespace,
    )
    return FactAnswer(id=stored.fact.id, refreshed=stored.refreshed)


async def remove_fact(api: Api, call: ApiCall) -> RemovedAnswer:
    return RemovedAnswer(removed=await api.store.forget_fact(call.path["id"], namespace=call.query.namespace))


# The rehearsal, and logging in.


async def rehearse(api: Api, _call: ApiCall) -> SessionCard:
    if api.rehearsals is None:
        raise ApiRefusal(_NO_REHEARSAL)
    return await _card(api, await api.rehearsals.start())


async def new_link(api: Api, _call: ApiCall) -> LinkAnswer:
    return LinkAnswer(url=login_url(api.url, api.gate))


def login_url(url: str, gate: Gate) -> str:
    """An address that logs a browser in, once. The code is in the fragment, which browsers do not send to servers."""
    return f"{url}/#login={gate.new_code()}"


async def log_in(api: Api, call: ApiCall) -> Response:
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

"""The operations of the HTTP API: one table, from which the routes and the OpenAPI document are made."""

from typing import Any, Final

from starlette.routing import Route

from sideband.inspect.requests import RequestDocument
from sideband.inspect.timeline import Timeline
from sideband.protocols.wire import InjectedReminder
from sideband.studio import api
from sideband.studio.operations import ApiEndpoint, Operation
from sideband.studio.session_cards import SessionCard, SessionCards
from sideband.studio.shapes import (
    BeginRequest,
    CancelAnswer,
    CancelRequest,
    ClearAnswer,
    ClearRequest,
    EventsAnswer,
    EventsQuery,
    FactAnswer,
    FactRequest,
    FactsAnswer,
    FactsQuery,
    InjectRequest,
    LinkAnswer,
    LoginRequest,
    MessageAnswer,
    NamespaceQuery,
    NoBody,
    PageQuery,
    PendingAnswer,
    PermissionVerdict,
    PromptRequest,
    RemindAnswer,
    RemovedAnswer,
    ReplaceRequest,
    RequestQuery,
    RequestsAnswer,
    ResultAnswer,
    ResultQuery,
    RevokeRequest,
    RowsQuery,
    ServerInfo,
    StatusAnswer,
    StreamQuery,
    TimelineQuery,
)

_STREAMED: Final = (
    "`update`: an update of the session, whose id is its cursor; `session`: a session of the store, at the start and when it "
    "has changed; `text`: a piece of the reply that is being written, with `replyId` and `attempt`; `expired`: updates after "
    "the cursor are no longer kept, read the timeline and continue after its cursor; `ping`: nothing has happened for 15 "
    "seconds. With the header `Last-Event-ID`, the stream continues after that update."
)
_FOLLOWED: Final = "`event`: an event of the topic, whose id is its sequence; `expired` and `ping` as in /api/stream."
_SESSION: Final = "/api/sessions/{id}"
OPERATIONS: Final = (
    Operation("GET", "/api/info", "What this server is", api.info, answer=ServerInfo),
    Operation("GET", "/api/sessions", "List the sessions", api.sessions, query=PageQuery, answer=SessionCards),
    Operation("POST", "/api/sessions", "Begin a session", api.begin, body=BeginRequest, answer=SessionCard, status=201),
    Operation("GET", _SESSION, "One session", api.session_info, answer=SessionCard),
    Operation(
        "GET",
        f"{_SESSION}/timeline",
        "The turns, messages and reminders of a session, and the cursor that the event stream continues",
        api.timeline,
        query=TimelineQuery,
        answer=Timeline,
    ),
    Operation(
        "GET", f"{_SESSION}/transcript", "The conversation as it stands now", api.transcript, answer=dict[str, Any]
    ),
    Operation(
        "GET", f"{_SESSION}/pending", "What is queued, and the live reminders", api.pending, answer=PendingAnswer
    ),
    Operation(
        "GET",
        f"{_SESSION}/results/{{callId}}",
        "The whole output of a tool",
        api.tool_result,
        query=ResultQuery,
        answer=ResultAnswer,
    ),
    Operation(
        "POST", f"{_SESSION}/prompt", "Send the next user message", api.prompt, body=PromptRequest, answer=MessageAnswer
    ),
    Operation(
        "POST",
        f"{_SESSION}/inject",
        "Send a user message into the running turn, or queue it",
        api.inject,
        body=InjectRequest,
        answer=MessageAnswer,
    ),
    Operation(
        "POST",
        f"{_SESSION}/remind",
        "Send a reminder",
        api.remind,
        body=InjectedReminder,
        answer=RemindAnswer,
        is_raw=True,
    ),
    Operation(
        "POST",
        f"{_SESSION}/revoke",
        "Revoke a queued reminder or message",
        api.revoke,
        body=RevokeRequest,
        answer=StatusAnswer,
    ),
    Operation(
        "POST",
        f"{_SESSION}/replace",
        "Replace the text of a queued reminder or message",
        api.replace,
        body=ReplaceRequest,
        answer=StatusAnswer,
    ),
    Operation("POST", f"{_SESSION}/clear", "End reminders", api.clear, body=ClearRequest, answer=ClearAnswer),
    Operation("POST", f"{_SESSION}/cancel", "End the turn", api.cancel, body=CancelRequest, answer=CancelAnswer),
    Operation(
        "POST",
        f"{_SESSION}/permissions/{{requestId}}",
        "Answer a question for permission",
        api.answer_permission,
        body=PermissionVerdict,
        status=204,
    ),
    Operation(
        "GET",
        f"{_SESSION}/events",
        "The events of a session, without bodies and with secrets masked",
        api.session_events,
        query=EventsQuery,
        answer=EventsAnswer,
        events=_FOLLOWED,
    ),
    Operation(
        "GET",
        "/api/events",
        "The events of all sessions",
        api.store_events,
        query=EventsQuery,
        answer=EventsAnswer,
        events=_FOLLOWED,
    ),
    Operation(
        "GET",
        "/api/stream",
        "Follow a session and the list of sessions",
        api.stream,
        query=StreamQuery,
        events=_STREAMED,
    ),
    Operation(
        "GET",
        f"{_SESSION}/requests",
        "The requests that the session has sent to its model",
        api.requests,
        query=RowsQuery,
        answer=RequestsAnswer,
    ),
    Operation(
        "GET",
        f"{_SESSION}/requests/{{turn}}",
        "One request in full, as it was sent or as another model would get it; `next` is the one to come",
        api.request,
        query=RequestQuery,
        answer=RequestDocument,
    ),
    Operation(
        "GET",
        f"{_SESSION}/requests/{{turn}}/compare",
        "The request of a turn for other models and placements",
        api.compare_requests,
        answer=RequestsAnswer,
    ),
    Operation("GET", "/api/facts", "List or recall facts", api.facts, query=FactsQuery, answer=FactsAnswer),
    Operation("POST", "/api/facts", "Store a fact", api.add_fact, body=FactRequest, answer=FactAnswer, status=201),
    Operation(
        "DELETE", "/api/facts/{id}", "Remove a fact", api.remove_fact, query=NamespaceQuery, answer=RemovedAnswer
    ),
    Operation("POST", "/api/rehearsal", "Begin a rehearsal", api.rehearse, body=NoBody, answer=SessionCard, status=201),
    Operation("POST", "/api/links", "Make a one-time link for a browser", api.new_link, body=NoBody, answer=LinkAnswer),
    Operation(
        "POST", "/api/login", "Exchange a link for a cookie", api.log_in, body=LoginRequest, status=204, is_open=True
    ),
)


def routes(subject: api.Api) -> list[Route]:
    """The routes of all operations on `subject`; those of one path are in one route, which refuses other methods."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    limit = subject.store.limits.frame_bytes
    return [
        Route(path, ApiEndpoint(subject, operations, subject.gate, limit=limit)) for path, operations in by_path.items()
    ]

"""The bodies of requests to the HTTP API and of its answers."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sideband.core.seams import InjectMode
from sideband.inspect.requests import InspectableModel, RequestRow
from sideband.protocols.wire import (
    DedupedCount,
    Extension,
    MintedId,
    RemovedCount,
    SelectedId,
    SelectedKey,
    SelectedTag,
)
from sideband.recall.facts import FactKind
from sideband.studio.session_cards import LISTED

LARGEST: Final = 2**62
"""The largest number that a store can look for."""
MAX_EVENTS: Final = 1_000


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request; null reads as absent."""


class ApiQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters in the query of a request."""


class ApiAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The body of an answer; a field that would be null is left out."""


Content = Annotated[
    str | list[dict[str, Any]], Meta(description="The text of the message, or a list of content blocks.")
]
WaitingId = Annotated[str, Meta(description="The id of a reminder or a message that waits.")]


# Errors.


class ApiFault(ApiAnswer, frozen=True, kw_only=True):
    """Why a request was refused. `code` is explained by `sideband explain CODE`."""

    reason: str
    message: str
    code: str | None = None
    field: str | None = None
    id: str | None = None
    retry_after_ms: int | None = None
    oldest: Annotated[int, Meta(description="The cursor to continue after, with a gap.")] | None = None


class ApiError(ApiAnswer, frozen=True, kw_only=True):
    """A refused request has changed nothing."""

    error: ApiFault


# Sessions.


class ServerInfo(ApiAnswer, frozen=True, kw_only=True):
    """What the server is. `model` is that of its sessions; without it, they cannot be prompted."""

    version: str
    store: str
    workspace: str
    rehearsal: bool
    models: list[InspectableModel]
    model: str | None = None


class BeginRequest(ApiRequest, frozen=True, kw_only=True):
    """A new session; with a prompt, it starts working at once."""

    title: Annotated[str, Meta(max_length=200)] | None = None
    prompt: Content | None = None


class PendingRow(ApiAnswer, frozen=True, kw_only=True):
    """A queued or live item. `reminder` is the record of a reminder, `text` that of a message."""

    state: str
    position: int
    kind: str
    id: str
    sender: dict[str, Any]
    mode: str | None = None
    text: str | None = None
    reminder: dict[str, Any] | None = None


class PendingAnswer(ApiAnswer, frozen=True, kw_only=True):
    """The inbox in the order of acceptance, then the live reminders."""

    session: str
    pending: list[PendingRow]


class EventsAnswer(ApiAnswer, frozen=True, kw_only=True):
    """Events of the topic; `more` if there are more after `last`."""

    events: list[dict[str, Any]]
    last: Annotated[int, Meta(ge=0)]
    more: bool


class ResultAnswer(ApiAnswer, frozen=True, kw_only=True):
    """The whole output of a tool."""

    text: str


class RequestsAnswer(ApiAnswer, frozen=True, kw_only=True):
    """Requests to models, oldest first."""

    requests: list[RequestRow]


# Telling a session something.


class PromptRequest(ApiRequest, frozen=True, kw_only=True):
    """The next message of the user, for a session that is idle."""

    content: Content
    meta: Extension | None = msgspec.field(default=None, name="_meta")


class InjectRequest(ApiRequest, frozen=True, kw_only=True):
    """A message of the user, for a session that may be running."""

    content: Content
    # Read as any text, because an unknown word has an error of its own.
    mode: Annotated[
        str,
        Meta(
            description="`steer` reaches the running turn, `queue` starts the next one.",
            extra_json_schema={"enum": [*InjectMode]},
        ),
    ] = InjectMode.STEER
    meta: Extension | None = msgspec.field(default=None, name="_meta")


class MessageAnswer(ApiAnswer, frozen=True, kw_only=True):
    """The id of an accepted message."""

    message_id: MintedId


class RemindAnswer(ApiAnswer, frozen=True, kw_only=True):
    """An accepted reminder. `requested` and `effective` hold the hints that were lowered."""

    reminder_id: MintedId
    deduped_count: DedupedCount
    accepted_at: Annotated[str, Meta(description="RFC 3339, in UTC.")]
    requested: dict[str, Any] | None = None
    effective: dict[str, Any] | None = None


class RevokeRequest(ApiRequest, frozen=True, kw_only=True):
    """Withdraws what waits in the inbox."""

    id: WaitingId


class ReplaceRequest(ApiRequest, frozen=True, kw_only=True):
    """Replaces the `body` of a waiting reminder, or the `content` of a waiting message."""

    id: WaitingId
    body: str | None = None
    content: Content | None = None


class StatusAnswer(ApiAnswer, frozen=True, kw_only=True):
    """What has happened: `revoked`, `already_revoked` or `replaced`."""

    status: str


class ClearRequest(ApiRequest, frozen=True, kw_only=True):
    """Ends the queued and live reminders that match all given selectors; at least one is needed."""

    id: SelectedId | None = None
    tag: SelectedTag | None = None
    dedupe_key: SelectedKey | None = None


class ClearAnswer(ApiAnswer, frozen=True, kw_only=True):
    """How many reminders have ended."""

    removed_count: RemovedCount


class CancelRequest(ApiRequest, frozen=True, kw_only=True):
    """Ends the turn that runs; with `messageId`, only if this message started it."""

    message_id: str | None = None


class CancelAnswer(ApiAnswer, frozen=True, kw_only=True):
    """Whether a turn was ended, and the ids of what stays in the inbox."""

    cancelled: bool
    waiting: list[str]


class PermissionVerdict(ApiRequest, frozen=True, kw_only=True):
    """The answer to a question of the agent; with `always`, the tool is not asked for again in this session."""

    allow: bool
    always: bool = False


# Facts, links.


class FactRequest(ApiRequest, frozen=True, kw_only=True):
    """A fact that agents recall."""

    # The words and bounds are checked where facts are read, which has better messages.
    kind: Annotated[str, Meta(extra_json_schema={"enum": [*FactKind]})]
    claim: Annotated[str, Meta(extra_json_schema={"minLength": 1})]
    confidence: Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})] = 1.0
    namespace: str | None = None


class FactAnswer(ApiAnswer, frozen=True, kw_only=True):
    """The id of a stored fact; `refreshed` if the store had one of the same content."""

    id: str
    refreshed: bool


class FactsAnswer(ApiAnswer, frozen=True, kw_only=True):
    """Facts with their namespaces."""

    facts: list[dict[str, Any]]


class RemovedAnswer(ApiAnswer, frozen=True, kw_only=True):
    """Whether there was such a fact."""

    removed: bool


class LinkAnswer(ApiAnswer, frozen=True, kw_only=True):
    """An address that logs a browser in, once."""

    url: str


class LoginRequest(ApiRequest, frozen=True, kw_only=True):
    """The code of a one-time link."""

    code: str


class NoBody(ApiRequest, frozen=True, kw_only=True):
    """An empty object."""


# The parameters of queries.


class PageQuery(ApiQuery, frozen=True, kw_only=True):
    before: Annotated[int, Meta(ge=1, le=LARGEST)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = LISTED


class TimelineQuery(ApiQuery, frozen=True, kw_only=True):
    turns: Annotated[int, Meta(ge=1, le=100_000, description="Only the last turns.")] | None = None


class ResultQuery(ApiQuery, frozen=True, kw_only=True):
    turn: Annotated[int, Meta(ge=1, description="The turn of the call; without, the last call of this id.")] | None = (
        None
    )


class EventsQuery(ApiQuery, frozen=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, le=LARGEST)] = 0
    kind: Annotated[str, Meta(description="Only kinds that begin with this.")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = MAX_EVENTS


class StreamQuery(ApiQuery, frozen=True, kw_only=True):
    session: Annotated[str, Meta(description="The session to follow; without, only the list of sessions.")] | None = (
        None
    )
    after: Annotated[int, Meta(ge=0, le=LARGEST, description="The cursor to begin after.")] = 0


class RowsQuery(ApiQuery, frozen=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, le=LARGEST, description="Only turns after this one.")] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class RequestQuery(ApiQuery, frozen=True, kw_only=True):
    model: Annotated[str, Meta(description="For another model than that of the session.")] | None = None
    placement: Annotated[str, Meta(description="`native`, `tail` or `seed`.")] | None = None


class FactsQuery(ApiQuery, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="Only facts that are recalled for this text, best first.")] | None = None
    namespace: str | None = None


class NamespaceQuery(ApiQuery, frozen=True, kw_only=True):
    namespace: str | None = None

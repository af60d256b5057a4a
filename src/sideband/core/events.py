"""The events of a session's journal, and the records they hold: inbox items and token usage.

The names of the classes and of their fields are the format on disk.
"""

from enum import StrEnum
from typing import Any

import msgspec

from sideband.core.ledger import Fragment, RequestHead
from sideband.core.reminder import Reminder
from sideband.core.seams import INJECT_CLASS, InjectMode, Mode, Seam
from sideband.core.trust import Grant, Provenance

# What events hold.


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a request; `prompt_tokens` counts the whole prompt, cached or not.

    Of these, `cached_tokens` were read from the provider's cache and `written_tokens` were written to it.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            written_tokens=self.written_tokens + other.written_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


class QueuedReminder(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="reminder"
):
    """A reminder in the inbox. `caller_id` and `fingerprint` recognise an idempotent repeat of the request.

    `version` counts the payloads that the caller has sent under one `caller_id`. `accepted_at` is in milliseconds since
    the epoch; 0 in records of earlier versions of Sideband.
    """

    reminder: Reminder
    mode: Mode
    provenance: Provenance
    caller_id: str | None = None
    fingerprint: str | None = None
    deduped_count: int = 0
    accepted_at: int = 0
    version: int = 1

    @property
    def id(self) -> str:
        return self.reminder.id

    @property
    def waits_in(self) -> Mode | None:
        return self.mode

    @property
    def effective(self) -> dict[str, Any]:
        """The values of the fields that the sender's ceiling lowered."""
        requested = self.provenance.requested
        if not requested:
            return {}
        return {field: self.mode if field == "mode" else getattr(self.reminder, field) for field in requested}


class QueuedMessage(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="user"
):
    """A user message in the inbox. Replacing it keeps its id and position and increments `revision`."""

    message_id: str
    content: tuple[dict[str, Any], ...]
    mode: InjectMode
    provenance: Provenance
    revision: int = 1
    accepted_at: int = 0

    @property
    def id(self) -> str:
        return self.message_id

    @property
    def waits_in(self) -> Mode | None:
        """The mode in which seams drain it; None if it waits until the session is idle."""
        return INJECT_CLASS[self.mode]


InboxItem = QueuedReminder | QueuedMessage


class ExpiryReason(StrEnum):
    TTL = "ttl"
    CLEARED = "cleared"
    COMPACTION = "compaction"


class DropReason(StrEnum):
    """Why an item was refused, or ended other than by expiry, clearing, dedupe or revocation."""

    INVALID = "invalid"
    CAPABILITY_MISMATCH = "capability_mismatch"
    TOO_LARGE = "too_large"
    UNDECLARED_CAPABILITY = "undeclared_capability"
    RATE_LIMITED = "rate_limited"
    TOO_MANY_PENDING = "too_many_pending"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    NOT_PERMITTED = "not_permitted"
    SESSION_CLOSED = "session_closed"
    TASK_FINISHED = "task_finished"


class Closing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens when a run becomes idle with a certain status: these records are set, and `ends` closes the session."""

    records: dict[str, Any] = {}
    ends: bool = False


class Boundary(StrEnum):
    """The boundary at which a reminder ended, if that was not the end of a turn."""

    PRE_COMPACT = "pre_compact"


def _tag(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="event", tag=_tag):
    """The base of all events. The tag on disk is the name of the class in snake_case.

    Fields with their default value are not written, so the defaults are part of the format and must never change.
    Events hold all that observers are told, so that they can be replayed without the state. A `provenance` of None, and
    an empty id or status, come from earlier versions of Sideband, which did not record it.
    """


# Reminders.


class Queued(Record, frozen=True, kw_only=True):
    """A reminder was accepted into the inbox."""

    item: QueuedReminder


class Replaced(Record, frozen=True, kw_only=True):
    """The body of a queued reminder was replaced; `item` is its new version, with the same id and position."""

    item: QueuedReminder


class Injected(Record, frozen=True, kw_only=True):
    """A reminder became live. `seam` is where it was drained; None if it did not come from the inbox."""

    reminder: Reminder
    provenance: Provenance
    seam: Seam | None = None


class Inherited(Record, frozen=True, kw_only=True):
    """A copy of a parent's reminder became live in a sub-agent."""

    reminder: Reminder
    provenance: Provenance
    sub_agent_id: str


class Fired(Record, frozen=True, kw_only=True):
    """A reminder is shown in the request of a turn; this becomes final when the turn is committed.

    `carried` means that its text was already part of the history, so the request got no new bytes; then the event has no
    `reminder` and no `provenance`. `via` is `proxy` if Sideband handed it to an agent that makes the request itself.
    """

    reminder_id: str
    turn: int
    rendered_role: str
    carried: bool = False
    reminder: Reminder | None = None
    provenance: Provenance | None = None
    via: str = ""


class Deferred(Record, frozen=True, kw_only=True):
    """The budget left a live reminder out of the request of a turn."""

    reminder_id: str
    turn: int
    provenance: Provenance | None = None


class Deduped(Record, frozen=True, kw_only=True):
    """A reminder was replaced by a newer one with the same dedupe key. `provenance` is that of the newer one."""

    replaced_id: str
    replacing_id: str
    dedupe_key: str
    boundary: Boundary | None = None
    provenance: Provenance | None = None


class Expired(Record, frozen=True, kw_only=True):
    """A reminder ended because of its TTL, a clear, or a compaction."""

    reminder_id: str
    reason: ExpiryReason
    turn: int
    boundary: Boundary | None = None
    dedupe_key: str | None = None
    provenance: Provenance | None = None


class Revoked(Record, frozen=True, kw_only=True):
    """A queued reminder was withdrawn."""

    reminder_id: str
    dedupe_key: str | None = None
    provenance: Provenance | None = None


class Dropped(Record, frozen=True, kw_only=True):
    """A reminder was refused or discarded.

    With `at_the_door` it was never accepted, so the event does not concern an accepted reminder with the same id.
    Several refusals of one sender are one event with their `count`.
    """

    reminder_id: str
    reason: DropReason
    at_the_door: bool = False
    count: int = 1
    dedupe_key: str | None = None
    provenance: Provenance | None = None


class AuditRecorded(Record, frozen=True, kw_only=True):
    """An `audit_only` reminder was recorded at loop exit; no request ever shows it."""

    reminder: Reminder
    provenance: Provenance
    turn: int


class ProviderEvaluated(Record, frozen=True, kw_only=True):
    """A provider ran. `error` is the message if it failed; `skipped` says why its reminders were left out."""

    provider_id: str
    event_name: str
    fired: bool
    error: str | None = None
    skipped: str | None = None


# User messages.


class InjectAccepted(Record, frozen=True, kw_only=True):
    """A user message was accepted into the inbox."""

    item: QueuedMessage


class InjectDelivered(Record, frozen=True, kw_only=True):
    """A user message was drained into the conversation; with `audit_only` it was only recorded."""

    message_id: str
    content: tuple[dict[str, Any], ...]
    audit_only: bool = False
    provenance: Provenance | None = None


class InjectRevoked(Record, frozen=True, kw_only=True):
    """A queued message was withdrawn. `reason` is None if its sender or a controller revoked it."""

    message_id: str
    reason: DropReason | None = None
    provenance: Provenance | None = None


class InjectReplaced(Record, frozen=True, kw_only=True):
    """The content of a queued message was replaced."""

    message_id: str
    content: tuple[dict[str, Any], ...]
    revision: int
    provenance: Provenance | None = None


# Turns.


class RequestCommitted(Record, frozen=True, kw_only=True):
    """The request of a turn is about to be sent. The same commit holds its `Fired` and `Deferred` events.

    `route` names the model, profile, tools and system text; `fragments` is the reminder text in the request. A further
    attempt sends the same request and does not repeat `fragments`. `head` describes the route; None if it was recorded
    before or the model does not describe it. `reply_id` becomes the id of the reply; a further attempt keeps it.
    """

    turn: int
    attempt: int = 1
    route: str = ""
    fragments: tuple[Fragment, ...] = ()
    head: RequestHead | None = None
    reply_id: str = ""


class TurnCommitted(Record, frozen=True, kw_only=True):
    """A turn got its reply. `reply` and `usage` are None if only the reminders are tracked, not the conversation."""

    turn: int
    reply: dict[str, Any] | None = None
    usage: Usage | None = None


class TurnVoided(Record, frozen=True, kw_only=True):
    """The open request failed: nothing in it counts as shown, and the number of the turn is used again."""

    turn: int


class Compacted(Record, frozen=True, kw_only=True):
    """The first `archived_messages` messages were replaced; `messages` is the new conversation.

    `messages` is None if only the reminders are tracked, not the conversation.
    """

    turn: int
    archived_messages: int
    messages: tuple[dict[str, Any], ...] | None = None


class ResultRecorded(Record, frozen=True, kw_only=True):
    """A tool call ended; `message` is the result that the model gets."""

    call_id: str
    status: str
    message: dict[str, Any]


class Checkpoint(Record, frozen=True, kw_only=True):
    """A drain took items or skipped a tool batch."""

    turn: int
    seam: Seam
    ids: tuple[str, ...]
    dispatch_skipped: bool = False


# The run and the session.


class Begun(Record, frozen=True, kw_only=True):
    """The session was begun explicitly, with these records and messages."""

    attributes: dict[str, Any] = {}
    messages: tuple[dict[str, Any], ...] = ()


class Recorded(Record, frozen=True, kw_only=True):
    """A named record of the session was set; None removes it."""

    name: str
    value: Any = None


class Started(Record, frozen=True, kw_only=True):
    """The session began to run. `message_id` is the message that started it; empty if none did."""

    message_id: str = ""


class Idled(Record, frozen=True, kw_only=True):
    """The run ended and the session is idle, for example because the closing drain took nothing.

    `status` says how the run ended; it is empty for a run that a dead process left behind.
    """

    status: str = ""


class Cancelled(Record, frozen=True, kw_only=True):
    """A client cancelled the turn; with `hold_queue`, queued messages wait until the next message."""

    hold_queue: bool = True


class PermissionAsked(Record, frozen=True, kw_only=True):
    request_id: str


class PermissionReplied(Record, frozen=True, kw_only=True):
    request_id: str


class Granted(Record, frozen=True, kw_only=True):
    """The operator raised a ceiling for one producer."""

    grant: Grant


class Equipped(Record, frozen=True, kw_only=True):
    """A run began with other values of these options than the last one; `ids` lists all hooks and providers.

    `closing` and `hold_queue` (whether queued messages wait after a cancel) are recorded for a cancel by another process.
    """

    ids: tuple[str, ...]
    closing: dict[str, Closing] = {}
    hold_queue: bool = True


class Closed(Record, frozen=True, kw_only=True):
    """The session was closed; it accepts nothing more."""

    reason: DropReason = DropReason.SESSION_CLOSED


class Deleted(Record, frozen=True, kw_only=True):
    """The session was deleted: nothing is left of its state."""


Event = (
    Queued
    | Replaced
    | Injected
    | Inherited
    | Fired
    | Deferred
    | Deduped
    | Expired
    | Revoked
    | Dropped
    | AuditRecorded
    | ProviderEvaluated
    | InjectAccepted
    | InjectDelivered
    | InjectRevoked
    | InjectReplaced
    | RequestCommitted
    | TurnCommitted
    | TurnVoided
    | Compacted
    | ResultRecorded
    | Checkpoint
    | Begun
    | Recorded
    | Started
    | Idled
    | Cancelled
    | PermissionAsked
    | PermissionReplied
    | Granted
    | Equipped
    | Closed
    | Deleted
)

"""What happened: the only way state changes, what the journal holds, and what recovery folds.

Journal events carry full values and are private. `topic` projects them onto what observers see, without bodies.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from sideband.core.items import QueuedMessage, QueuedReminder
from sideband.core.ledger import Fragment, RequestHead
from sideband.core.reminder import Reminder
from sideband.core.seams import Seam
from sideband.core.trust import Grant, Provenance
from sideband.core.usage import Usage


class ExpiryReason(StrEnum):
    TTL = "ttl"
    CLEARED = "cleared"
    COMPACTION = "compaction"


class DropReason(StrEnum):
    """Why an item ended without having been cleared, replaced or outlived."""

    INVALID = "invalid"
    CAPABILITY_MISMATCH = "capability_mismatch"
    TOO_LARGE = "too_large"
    UNDECLARED_CAPABILITY = "undeclared_capability"
    RATE_LIMITED = "rate_limited"
    SESSION_CLOSED = "session_closed"
    TASK_FINISHED = "task_finished"


class Boundary(StrEnum):
    """The lifecycle boundary at which a reminder ended, where it was not an ordinary turn."""

    PRE_COMPACT = "pre_compact"


def _tag(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


# No cycle leads through an event, so that the garbage collector need not visit them, however long a journal is.
class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="event", tag=_tag):
    """What all journal events share: each is written under the name of its class.

    What a field is by default is not written, of an event and of all that it holds: a default is for ever.
    """


# Reminders.


class Queued(Record, frozen=True, kw_only=True):
    """Accepted, not yet drained."""

    item: QueuedReminder


class Injected(Record, frozen=True, kw_only=True):
    """Live from now on; `seam` is where it was drained (None: put there by this process)."""

    reminder: Reminder
    provenance: Provenance
    seam: Seam | None = None


class Inherited(Record, frozen=True, kw_only=True):
    """Live from now on, as a copy of what a parent had."""

    reminder: Reminder
    provenance: Provenance
    sub_agent_id: str


class Fired(Record, frozen=True, kw_only=True):
    """Readable in the request of a turn; final once that turn commits. `carried`: no bytes were added for it."""

    reminder_id: str
    turn: int
    rendered_role: str
    carried: bool = False


class Deferred(Record, frozen=True, kw_only=True):
    """Left out of the request of a turn by the budget."""

    reminder_id: str
    turn: int


class Deduped(Record, frozen=True, kw_only=True):
    replaced_id: str
    replacing_id: str
    dedupe_key: str
    boundary: Boundary | None = None


class Expired(Record, frozen=True, kw_only=True):
    reminder_id: str
    reason: ExpiryReason
    turn: int
    boundary: Boundary | None = None


class Revoked(Record, frozen=True, kw_only=True):
    """Withdrawn from the inbox before any drain."""

    reminder_id: str


class Dropped(Record, frozen=True, kw_only=True):
    """`at_the_door`: never accepted; it says nothing of an accepted one of the same id.

    Of many that one source was refused in a row there is one event; it says how many, and whose they were (None: not
    told).
    """

    reminder_id: str
    reason: DropReason
    at_the_door: bool = False
    count: int = 1
    provenance: Provenance | None = None


class AuditRecorded(Record, frozen=True, kw_only=True):
    """Kept for the record at loop exit; no request ever shows it."""

    reminder: Reminder
    provenance: Provenance
    turn: int


class ProviderEvaluated(Record, frozen=True, kw_only=True):
    """`error` is the diagnostic of a provider that failed, `skipped` why what it returned was left out."""

    provider_id: str
    event_name: str
    fired: bool
    error: str | None = None
    skipped: str | None = None


# User messages.


class InjectAccepted(Record, frozen=True, kw_only=True):
    item: QueuedMessage


class InjectDelivered(Record, frozen=True, kw_only=True):
    """Part of the conversation from now on; an audit-only one only of its record."""

    message_id: str
    content: tuple[dict[str, Any], ...]
    audit_only: bool = False


class InjectRevoked(Record, frozen=True, kw_only=True):
    """Withdrawn; `reason` says why where it was not its sender (the session closed)."""

    message_id: str
    reason: DropReason | None = None


class InjectReplaced(Record, frozen=True, kw_only=True):
    message_id: str
    content: tuple[dict[str, Any], ...]
    revision: int


# The session.


class RequestCommitted(Record, frozen=True, kw_only=True):
    """The request of a turn is about to leave; what it shows and leaves out stands in the same commit.

    `route` is what the request is made for, `fragments` what it carries beside the messages; a further attempt sends
    the same, and does not repeat them here. `head` is what the route is, where that is not on record yet (None: it is,
    or the model does not tell).
    """

    turn: int
    attempt: int = 1
    route: str = ""
    fragments: tuple[Fragment, ...] = ()
    head: RequestHead | None = None


class TurnCommitted(Record, frozen=True, kw_only=True):
    """The turn counts; `reply` is the message that answered it, `usage` what that took.

    None where only the lifecycle is kept.
    """

    turn: int
    reply: dict[str, Any] | None = None
    usage: Usage | None = None


class TurnVoided(Record, frozen=True, kw_only=True):
    """The open turn never happened; its number is used again."""

    turn: int


class Compacted(Record, frozen=True, kw_only=True):
    """So many messages at the beginning were replaced; `messages` is what the conversation goes on with.

    None where only the lifecycle is kept.
    """

    turn: int
    archived_messages: int
    messages: tuple[dict[str, Any], ...] | None = None


# The status of a call that an interrupt kept from running.
INTERRUPTED: Final = "interrupted"


class ResultRecorded(Record, frozen=True, kw_only=True):
    """A tool call has ended, in whatever way; `message` is what the model is told of it."""

    call_id: str
    status: str
    message: dict[str, Any]


class Checkpoint(Record, frozen=True, kw_only=True):
    """A drain that took something or skipped a tool batch."""

    turn: int
    seam: Seam
    ids: tuple[str, ...]
    dispatch_skipped: bool = False


class Started(Record, frozen=True, kw_only=True):
    """A turn runs."""


class Idled(Record, frozen=True, kw_only=True):
    """The closing drain took nothing: no turn runs."""


class Cancelled(Record, frozen=True, kw_only=True):
    """The turn ended at a client's word; `hold_queue` keeps queued messages until its next one."""

    hold_queue: bool = True


class PermissionAsked(Record, frozen=True, kw_only=True):
    request_id: str


class PermissionReplied(Record, frozen=True, kw_only=True):
    request_id: str


class Granted(Record, frozen=True, kw_only=True):
    """The operator raised a ceiling for one source."""

    grant: Grant


class Equipped(Record, frozen=True, kw_only=True):
    """A run begins with other hooks and providers than the last one: the ids of all that were registered for it."""

    ids: tuple[str, ...]


class Closed(Record, frozen=True, kw_only=True):
    """Nothing is accepted from now on."""


Event = (
    Queued
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
    | Started
    | Idled
    | Cancelled
    | PermissionAsked
    | PermissionReplied
    | Granted
    | Equipped
    | Closed
)

"""The words that errors go by where no diagnostic has a code for them: what each means, and what to do about it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.core import errors


class Reason(NamedTuple):
    """A word, as `error.reason` has it and the wires send it."""

    word: str
    cause: str
    remedy: str


_REASONS: Final = (
    Reason(
        "unsupported_mode",
        "The mode is none that this way of sending has.",
        "Send one of the modes that the error lists.",
    ),
    Reason(
        "idempotency_conflict",
        "The id was used before, by somebody else or for other words.",
        "Send a new id, or the same reminder as before.",
    ),
    Reason(
        "body_too_large",
        "A body has more bytes than its source may send, or a message more than one message may have.",
        "Shorten it, or put it into a file and say where that is. In your own store, raise body_bytes or frame_bytes "
        "of its Limits.",
    ),
    Reason("not_permitted", "Only the operator may do this.", "Ask the operator, or do without."),
    Reason(
        "not_injectable",
        "The text merely came along, in a tool's output, a file or a page, and that never becomes a reminder.",
        "Let a hook or a provider of your own say it.",
    ),
    Reason(
        "unknown_session",
        "There is no such session for whoever asks, or it is closed.",
        "Look at the name; a closed session is not opened again, so begin another.",
    ),
    Reason(
        "unknown_reminder_id",
        "No reminder of this id waits there for whoever asks.",
        "Session.pending() tells which do; one that is live is ended by Session.clear(id=...).",
    ),
    Reason(
        "unknown_message_id",
        "No message of this id waits there for whoever asks.",
        "Session.waiting() tells which do.",
    ),
    Reason(
        "already_delivered",
        "A turn has taken it, so it can no longer be withdrawn or exchanged.",
        "End a live reminder with Session.clear(id=...); correct a message by another one.",
    ),
    Reason("already_revoked", "It was withdrawn before.", "Send what you want said as a new message."),
    Reason(
        "no_running_turn",
        "A message that steers needs a turn that runs, and none does.",
        "Send it as a prompt, or with mode='queue': it starts the next turn.",
    ),
    Reason(
        "replace_not_supported",
        "What waits cannot be exchanged this way.",
        "Revoke it and send another.",
    ),
    Reason(
        "session_busy",
        "A loop or a call runs on the session, here or in another process.",
        "Wait for its end, or cancel it where it runs. The lease of a process that died lapses by itself.",
    ),
    Reason(
        "too_many_pending",
        "As many reminders, messages or audit records are pending as one session or one source may have. Live "
        "reminders count, too.",
        "The error says what makes room: clear reminders that are live, revoke what waits, or wait for a turn. Give "
        "reminders a ttl_turns or a dedupe_key so that they make room by themselves, or raise pending_per_session of "
        "the store's Limits.",
    ),
    Reason(
        "rate_limited",
        "The source sends faster than it may.",
        "Wait for retry_after_ms and send it again; nothing of it was kept.",
    ),
    Reason(
        "store_refused",
        "What is at this address cannot be opened as a store; nothing there was touched.",
        "Do what the error says; `sideband doctor` tells what is installed.",
    ),
    Reason(
        "store_damaged",
        "The store holds something else than what was written to it.",
        "Restore a backup. `sideband doctor --verify` tells how far the damage goes.",
    ),
    Reason("store_newer", "A newer version of Sideband has written the store.", "Upgrade this one."),
    Reason(
        "store_unavailable",
        "The disk is full or fails, the server cannot be reached, or somebody keeps the file. Nothing was written.",
        "Mend that and try again.",
    ),
    Reason(
        "outcome_unknown",
        "The server or the disk failed during a commit, and whether it was made could not be found out.",
        "Look at the journal once the store works again, before you send the same again.",
    ),
    Reason("store_closed", "The store was closed before.", "Open it again, or use it inside its `async with`."),
    Reason(
        "not_storable",
        "A value cannot be held by a journal, or a name cannot be that of a session.",
        "Send text and numbers that JSON has; a session's name has at most 2,000 bytes.",
    ),
    Reason(
        "lease_lost",
        "Another process runs the session now, or may do so.",
        "Stop; what was committed before is there.",
    ),
    Reason(
        "cursor_lost",
        "A subscriber fell too far behind and was cut off.",
        "Subscribe again with the `after` that the error gives; nothing is missed.",
    ),
    Reason(
        "cursor_expired",
        "What a subscriber asked for is no longer kept.",
        "Go on behind the sequence that the error gives, and keep more with kept_events of open_store.",
    ),
)
REASONS: Final[Mapping[str, Reason]] = MappingProxyType({reason.word: reason for reason in _REASONS})

# Words whose errors carry the code of a diagnostic, which says more.
CODES: Final[Mapping[str, str]] = MappingProxyType(
    {kind.reason: kind.code for kind in errors.ReminderError.__subclasses__() if kind.code is not None}
)

"""One family of errors; each class carries its diagnostic code and the word the wires use for it.

Grouped by who has to act: the caller mends the request, the caller learns that the state has moved on,
or the caller waits.
"""

import reprlib
from typing import ClassVar, Final

SHOWN_CHARACTERS: Final = 80
# A message that lists names stays one that can be read, and sent, however many there are.
MESSAGE_CHARACTERS: Final = 500
# An integer of so many bits has fewer digits than are shown; Python refuses to print one of thousands.
_SHOWN_BITS: Final = 3 * SHOWN_CHARACTERS


class _Quote(reprlib.Repr):
    """Goes by what a value is, where its parent goes by what the type is called; and it measures before it prints."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxother = SHOWN_CHARACTERS

    def repr1(self, x: object, level: int) -> str:
        # The methods called are those of the built-in types: what a subclass made of them may fail.
        match x:
            case str():
                return repr(str.__getitem__(x, slice(SHOWN_CHARACTERS)))
            case bytes():
                return repr(bytes.__getitem__(x, slice(SHOWN_CHARACTERS)))
            case int() if (bits := int.bit_length(x)) > _SHOWN_BITS:
                return f"<integer of {bits} bits>"
            case dict() | list() | tuple() | set() | frozenset() if type(x).__module__ == "builtins":
                return super().repr1(x, level)
            case _:
                return self.repr_instance(x, level)


_QUOTE: Final = _Quote()


def shown(value: object) -> str:
    """A value as an error message quotes it: on one line of ASCII, and short whatever was sent."""
    quoted = _QUOTE.repr(value)[: SHOWN_CHARACTERS + 1]
    text = "".join(letter if " " <= letter <= "~" else ascii(letter)[1:-1] for letter in quoted)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."


class ReminderError(ValueError):
    """Something was refused and nothing has changed.

    `code` is the diagnostic to look up with `sideband explain` (None where there is none), `reason` the word
    sent to a peer; `field` and `value` name what was wrong (None where no single field is to blame).
    """

    code: ClassVar[str | None] = None
    reason: ClassVar[str]

    def __init__(self, message: str, *, field: str | None = None, value: object = None) -> None:
        text = message if self.code is None else f"{self.code}: {message}"
        super().__init__(text if len(text) < MESSAGE_CHARACTERS else f"{text[: MESSAGE_CHARACTERS - 4]}...")
        self.field = field
        self.value = value

    def __reduce__(self) -> tuple[object, ...]:
        # Copied and pickled as it stands: most of the family make their message themselves, from other arguments.
        return _as_it_was, (type(self), *self.args), self.__dict__


def _as_it_was(kind: type[ReminderError], *args: object) -> ReminderError:
    return kind.__new__(kind, *args)


# The request is at fault: the caller mends it.


class UnknownOption(ReminderError):
    """A key no such producer may set."""

    code = "HARN-RMD-001"
    reason = "unknown_option"


class InvalidOption(ReminderError):
    """A known key with a value a strict producer may not give it."""

    code = "HARN-RMD-001"
    reason = "invalid_option"


class InvalidReminder(ReminderError):
    """A payload from a bridge that is not a reminder."""

    code = "HARN-RMD-002"
    reason = "invalid_reminder"


class UnknownPropagate(ReminderError):
    code = "HARN-RMD-005"
    reason = "unknown_propagate"

    def __init__(self, value: object, *, field: str = "propagate") -> None:
        super().__init__(
            f"{field} must be 'all', 'session' or 'none', not {shown(value)}",
            field=field,
            value=value,
        )


class MalformedProviderResult(ReminderError):
    """A provider returned something that looks like a reminder and is none."""

    code = "HARN-RMD-006"
    reason = "malformed_provider_result"


class TooManyProviders(ReminderError):
    code = "HARN-RMD-007"
    reason = "too_many_providers"

    def __init__(self, ids: tuple[str, ...], limit: int) -> None:
        super().__init__(
            f"{len(ids)} providers beyond the canonical ones are enabled, at most {limit} may be: {', '.join(ids)}",
            field="providers",
            value=ids,
        )


class UnsupportedHookEvent(ReminderError):
    code = "HARN-RMD-008"
    reason = "unsupported_hook_event"

    def __init__(self, event: str) -> None:
        super().__init__(
            f"a hook on {event!r} only observes and cannot add reminders",
            field="event",
            value=event,
        )


class UnsupportedMode(ReminderError):
    reason = "unsupported_mode"


class IdempotencyConflict(ReminderError):
    reason = "idempotency_conflict"

    def __init__(self, caller_id: str) -> None:
        super().__init__(
            f"id {shown(caller_id)} was already used for something else; send a new id",
            field="id",
            value=caller_id,
        )


class BodyTooLarge(ReminderError):
    """Of a reminder that is its `body`, of a message its whole `content`."""

    reason = "body_too_large"

    def __init__(self, size: int, limit: int, *, field: str = "body") -> None:
        bounded = "from this source" if field == "body" else "in one message"
        super().__init__(
            f"{field} has {size:,} bytes in UTF-8, at most {limit:,} are accepted {bounded}; "
            "shorten it, or put it into a file and say where that is",
            field=field,
            value=size,
        )
        self.limit = limit


class NotPermitted(ReminderError):
    """The operator alone may do this."""

    reason = "not_permitted"


class NotInjectable(ReminderError):
    """Text that merely came along (tool output, files, pages) never becomes a reminder."""

    reason = "not_injectable"


# The state has moved on, or the thing is not the caller's: both look the same from outside.


class UnknownSession(ReminderError):
    reason = "unknown_session"


class UnknownReminder(ReminderError):
    reason = "unknown_reminder_id"

    def __init__(self, reminder_id: str) -> None:
        super().__init__(f"no reminder {shown(reminder_id)} waits here", field="reminder_id", value=reminder_id)


class UnknownMessage(ReminderError):
    reason = "unknown_message_id"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"no message {shown(message_id)} waits here", field="message_id", value=message_id)


class AlreadyDelivered(ReminderError):
    reason = "already_delivered"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"{shown(item_id)} was already delivered", field="id", value=item_id)


class AlreadyRevoked(ReminderError):
    reason = "already_revoked"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"{shown(item_id)} was already revoked", field="id", value=item_id)


class NoRunningTurn(ReminderError):
    reason = "no_running_turn"

    def __init__(self, mode: str) -> None:
        super().__init__(
            f"no turn is running for {mode!r} to reach; send a prompt, or use 'queue'",
            field="mode",
            value=mode,
        )


class ReplaceNotSupported(ReminderError):
    reason = "replace_not_supported"


class SessionBusy(ReminderError):
    reason = "session_busy"


# There is too much of it: the caller waits.


class TooManyPending(ReminderError):
    reason = "too_many_pending"

    def __init__(
        self, pending: int, limit: int, *, scope: str, remedy: str = "revoke or clear some, or wait for a turn"
    ) -> None:
        super().__init__(
            f"{pending} items of this {scope} are pending, the limit is {limit}; {remedy}",
            field=scope,
            value=pending,
        )
        self.limit = limit


class RateLimited(ReminderError):
    reason = "rate_limited"

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__(f"too many at once from this source; try again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms

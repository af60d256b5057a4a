"""The errors: `ReminderError` if a request is refused, `StoreError` if the store fails.

Each class has the code of its diagnostic and the word that protocols send as the reason. The classes are
grouped by what the caller has to do: correct the request, accept that the state has changed, or wait.
"""

import reprlib
from collections.abc import Iterable
from typing import ClassVar, Final, TypeVar

SHOWN_CHARACTERS: Final = 80
MESSAGE_CHARACTERS: Final = 500

# Larger integers are described, not printed, because Python refuses to print integers of thousands of digits.
_SHOWN_BITS: Final = 3 * SHOWN_CHARACTERS


# Quoting values in messages.


class _Quote(reprlib.Repr):
    """A `repr` that is short for every value and cannot fail.

    `reprlib.Repr` chooses the method by the name of the type, and prints a long value before it cuts it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxother = SHOWN_CHARACTERS

    def repr1(self, x: object, level: int) -> str:
        # Call the methods of the built-in types, because the methods of a subclass may fail.
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
    """The value as an error message quotes it: at most 80 characters of ASCII on one line."""
    quoted = _QUOTE.repr(value)[: SHOWN_CHARACTERS + 1]
    text = "".join(letter if " " <= letter <= "~" else ascii(letter)[1:-1] for letter in quoted)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."


def nearest(value: object, known: Iterable[str]) -> str | None:
    """The known name that resembles the value most; None if none does."""
    from difflib import get_close_matches  # noqa: PLC0415 - only needed for an error message

    near = get_close_matches(value, tuple(known), n=1) if isinstance(value, str) else []
    return near[0] if near else None


def suggestion(value: object, known: Iterable[str], *, kind: str) -> str:
    """What to write instead of an unknown name: the nearest known one, or all of them; `kind` is their plural."""
    names = tuple(known)
    near = nearest(value, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"the {kind} are {', '.join(names)}" if names else f"there are no {kind}"


# Requests that are refused.

_ErrorT = TypeVar("_ErrorT", bound=Exception)


def _rebuild(kind: type[_ErrorT], *args: object) -> _ErrorT:
    return kind.__new__(kind, *args)


class ReminderError(ValueError):
    """A request was refused, and it has changed nothing.

    `code` is the diagnostic that `sideband explain` describes. `reason` is the word that protocols send. `field` and `value` name what was wrong; both are None if it is not a single field.
    """

    code: ClassVar[str]
    reason: ClassVar[str]

    def __init__(self, message: str, *, field: str | None = None, value: object = None) -> None:
        # Our own codes are not part of the message. `sideband explain` also takes the name of the class.
        text = f"{self.code}: {message}" if self.code.startswith("HARN-") else message
        super().__init__(text if len(text) < MESSAGE_CHARACTERS else f"{text[: MESSAGE_CHARACTERS - 4]}...")
        self.field = field
        self.value = value

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call `__init__` with the message, but most subclasses have other parameters.
        return _rebuild, (type(self), *self.args), self.__dict__


# The request is wrong: the caller corrects it.


class UnknownOption(ReminderError):
    """The surface has no such option."""

    code = "HARN-RMD-001"
    reason = "unknown_option"


class InvalidOption(ReminderError):
    """An option has a value of the wrong type or range."""

    code = "HARN-RMD-001"
    reason = "invalid_option"


class InvalidReminder(ReminderError):
    """A payload that came over a protocol is not a valid reminder."""

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
    """A provider returned something that is not a valid reminder."""

    code = "HARN-RMD-006"
    reason = "malformed_provider_result"


class TooManyProviders(ReminderError):
    code = "HARN-RMD-007"
    reason = "too_many_providers"

    def __init__(self, ids: tuple[str, ...], limit: int) -> None:
        super().__init__(
            f"{len(ids)} providers are enabled besides the canonical ones, the limit is {limit}; "
            f"disable some of {', '.join(ids)}",
            field="providers",
            value=ids,
        )


class UnsupportedHookEvent(ReminderError):
    code = "HARN-RMD-008"
    reason = "unsupported_hook_event"

    def __init__(self, event: str) -> None:
        super().__init__(
            f"a hook on {event!r} cannot add reminders, because it only observes another agent's run; "
            "use a session, tool, step or persona hook",
            field="event",
            value=event,
        )


class UnsupportedMode(ReminderError):
    code = "SIDEBAND-201"
    reason = "unsupported_mode"


class IdempotencyConflict(ReminderError):
    code = "SIDEBAND-202"
    reason = "idempotency_conflict"

    def __init__(self, caller_id: str) -> None:
        super().__init__(
            f"id {shown(caller_id)} was already used for another reminder; send a new id",
            field="id",
            value=caller_id,
        )


class BodyTooLarge(ReminderError):
    """The `body` of a reminder or the whole `content` of a message exceeds its limit."""

    code = "SIDEBAND-106"
    reason = "body_too_large"

    def __init__(self, size: int, limit: int, *, field: str = "body") -> None:
        bounded = "from this source" if field.endswith("body") else "in one message"
        super().__init__(
            f"{field} has {size:,} bytes in UTF-8, at most {limit:,} are accepted {bounded}; "
            "shorten it, or write it to a file and send the path",
            field=field,
            value=size,
        )
        self.limit = limit


class NotPermitted(ReminderError):
    """Only the operator may do this."""

    code = "SIDEBAND-203"
    reason = "not_permitted"


class NotInjectable(ReminderError):
    """Text from tool output, files or pages is not accepted as a reminder."""

    code = "SIDEBAND-204"
    reason = "not_injectable"


# The state does not allow it. A caller cannot tell an item that does not exist from one that it does not own.


class UnknownSession(ReminderError):
    code = "SIDEBAND-205"
    reason = "unknown_session"


class TaskFinished(ReminderError):
    """The session was closed because its task has ended."""

    code = "SIDEBAND-213"
    reason = "task_finished"


class UnknownReminder(ReminderError):
    code = "SIDEBAND-206"
    reason = "unknown_reminder_id"

    def __init__(self, reminder_id: str) -> None:
        super().__init__(f"no reminder with id {shown(reminder_id)} is queued", field="reminder_id", value=reminder_id)


class UnknownMessage(ReminderError):
    code = "SIDEBAND-207"
    reason = "unknown_message_id"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"no message with id {shown(message_id)} is queued", field="message_id", value=message_id)


class AlreadyDelivered(ReminderError):
    code = "SIDEBAND-208"
    reason = "already_delivered"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"{shown(item_id)} was already delivered", field="id", value=item_id)


class AlreadyRevoked(ReminderError):
    code = "SIDEBAND-209"
    reason = "already_revoked"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"{shown(item_id)} was already revoked", field="id", value=item_id)


class NoRunningTurn(ReminderError):
    code = "SIDEBAND-210"
    reason = "no_running_turn"

    def __init__(self, mode: str) -> None:
        super().__init__(
            f"mode {mode!r} needs a running turn, and no turn is running; send a prompt, or use mode 'queue'",
            field="mode",
            value=mode,
        )


class NothingToAnswer(ReminderError):
    """A request would say nothing that the model has not answered.

    `unusable` are the live reminders that the route can never show, each with the reason.
    """

    code = "SIDEBAND-217"
    reason = "nothing_to_answer"

    def __init__(self, unusable: tuple[tuple[str, str], ...] = ()) -> None:
        left = f"; {len(unusable)} cannot be shown on this route ({unusable[0][1]})" if unusable else ""
        super().__init__(
            "the conversation has no message that the model has not answered, and no reminder adds text to the request"
            f"{left}; send a message or a reminder first"
        )
        self.unusable = unusable


class ReplaceNotSupported(ReminderError):
    code = "SIDEBAND-211"
    reason = "replace_not_supported"


class SessionBusy(ReminderError):
    code = "SIDEBAND-212"
    reason = "session_busy"


class WrongEventLoop(ReminderError):
    """A store or one of its sessions was used in another event loop than the one in which the store was opened."""

    code = "SIDEBAND-218"
    reason = "wrong_event_loop"

    def __init__(self, *, closed: bool) -> None:
        super().__init__(
            "the store was opened in an event loop that is closed; open it again in this one"
            if closed
            else "the store was opened in another event loop; call it there with asyncio.run_coroutine_threadsafe(), or "
            "open the store in this event loop as well"
        )


# A limit is reached: the caller waits.


class TooManyPending(ReminderError):
    code = "SIDEBAND-214"
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


class TooManyFacts(ReminderError):
    code = "SIDEBAND-215"
    reason = "too_many_facts"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the store has {limit:,} facts, which is its limit; remove some with Store.forget_fact(id), or raise "
            "facts of the store's Limits",
            field="facts",
            value=limit,
        )
        self.limit = limit


class RateLimited(ReminderError):
    code = "SIDEBAND-216"
    reason = "rate_limited"

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__(f"this source sends too fast; try again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms


# Failures of the store.


class StoreError(Exception):
    """The store failed; the request was not wrong. `sideband explain` describes its `code`."""

    code: ClassVar[str]
    reason: ClassVar[str]

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call `__init__` with the message, but some subclasses have other parameters.
        return _rebuild, (type(self), *self.args), self.__dict__


# The store cannot be opened until a person repairs or replaces it.


class StoreRefused(StoreError):
    """The store cannot be opened. It was not changed, and no empty store was created in its place."""

    code = "SIDEBAND-301"
    reason = "store_refused"


class StoreDamaged(StoreRefused):
    """The store holds something other than what was written to it."""

    code = "SIDEBAND-302"
    reason = "store_damaged"


class StoreNewer(StoreRefused):
    """The store was written by a newer version of Sideband."""

    code = "SIDEBAND-303"
    reason = "store_newer"


# A commit failed; it may succeed later.


class StoreUnavailable(StoreError):
    """The disk is full or failed, the server cannot be reached, or another process locked the store for too long."""

    code = "SIDEBAND-304"
    reason = "store_unavailable"


class OutcomeUnknown(StoreError):
    """The server or the disk failed during a commit, and did not recover in time to find out whether it was made."""

    code = "SIDEBAND-305"
    reason = "outcome_unknown"

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place} failed during a commit, and whether it was made cannot be found out now; "
            "read the journal when the store works again"
        )


class StoreClosed(StoreError):
    """The store was used after it was closed."""

    code = "SIDEBAND-306"
    reason = "store_closed"

    def __init__(self) -> None:
        super().__init__("the store is closed; open it again")


class NotStorable(StoreError):
    """A value cannot be written to the journal."""

    code = "SIDEBAND-307"
    reason = "not_storable"


# Another process has the session, or the position in the journal is no longer kept.


class LeaseLost(StoreError):
    """Another process runs the session now, or may do so; this run stops and commits nothing more.

    `why` is the error that prevented the lease from being renewed; None means that another process holds the lease.
    """

    code = "SIDEBAND-308"
    reason = "lease_lost"

    def __init__(self, session_id: str, *, why: object = None) -> None:
        super().__init__(
            f"session {session_id!r} is run by another process now"
            if why is None
            else f"the lease on session {session_id!r} has lapsed, so another process may run it now: {why}"
        )
        self.session_id = session_id


class CursorLost(StoreError):
    """A subscriber was too slow and was cut off; it can resume after `seen`, the last sequence it got."""

    code = "SIDEBAND-309"
    reason = "cursor_lost"

    def __init__(self, seen: int) -> None:
        super().__init__(f"this subscriber was too slow; subscribe again with after={seen}")
        self.seen = seen


class CursorExpired(StoreError):
    """Events after `after` were pruned; the journal is complete after `oldest`."""

    code = "SIDEBAND-310"
    reason = "cursor_expired"

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(
            f"events after {after} are no longer all kept; synchronise again: read the state of the session, then "
            f"subscribe after its cursor (after={oldest} continues with a gap)"
        )
        self.after = after
        self.oldest = oldest

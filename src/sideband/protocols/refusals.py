"""How an error is reported to a peer, and read from one: the code in each protocol, and the details that accompany it."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sideband.core.errors import BodyTooLarge, RateLimited, ReminderError, TooManyFacts, TooManyPending


class Refusal(NamedTuple):
    """The JSON-RPC error codes on ACP and A2A, and the HTTP status."""

    acp: int
    a2a: int
    http: int


_MALFORMED: Final = Refusal(-32602, -32602, 400)
_FORBIDDEN: Final = Refusal(-32602, -32602, 403)
_UNKNOWN: Final = Refusal(-32002, -32001, 404)
_TOO_LATE: Final = Refusal(-32010, -32004, 409)
_TOO_MUCH: Final = Refusal(-32010, -32000, 429)
# Errors in the code or configuration of this side, which a peer cannot fix by changing its request.
_OUR_FAULT: Final = Refusal(-32603, -32603, 500)

REFUSALS: Final[Mapping[str, Refusal]] = MappingProxyType(
    {
        "unknown_option": _MALFORMED,
        "invalid_option": _MALFORMED,
        "invalid_reminder": _MALFORMED,
        "unknown_propagate": _MALFORMED,
        "unsupported_mode": _MALFORMED,
        "idempotency_conflict": _MALFORMED._replace(http=409),
        "not_injectable": _FORBIDDEN,
        "not_permitted": _FORBIDDEN,
        "unknown_session": _UNKNOWN,
        "unknown_reminder_id": _UNKNOWN,
        "unknown_message_id": _UNKNOWN,
        "already_delivered": _TOO_LATE,
        "already_revoked": _TOO_LATE,
        "no_running_turn": _TOO_LATE,
        "nothing_to_answer": _TOO_LATE,
        "replace_not_supported": _TOO_LATE,
        "session_busy": _TOO_LATE,
        "task_finished": _TOO_LATE,
        "too_many_pending": _TOO_MUCH,
        "too_many_facts": _TOO_MUCH,
        "rate_limited": _TOO_MUCH,
        "body_too_large": _TOO_MUCH._replace(http=413),
        "malformed_provider_result": _OUR_FAULT,
        "too_many_providers": _OUR_FAULT,
        "unsupported_hook_event": _OUR_FAULT,
        "wrong_event_loop": _OUR_FAULT,
    }
)

# The refusals that concern one id, with the name of its field; None if the name depends on the method.
_ABOUT: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "unknown_reminder_id": "reminderId",
        "unknown_message_id": "messageId",
        "already_delivered": None,
        "already_revoked": None,
        "idempotency_conflict": None,
    }
)

ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
A2A_DOMAIN: Final = "a2a-protocol.org"
DOMAIN: Final = "sideband"
# The reasons that A2A itself defines for its codes.
_A2A_REASONS: Final[Mapping[int, str]] = MappingProxyType({-32001: "TASK_NOT_FOUND", -32004: "UNSUPPORTED_OPERATION"})


def refusal(error: ReminderError) -> Refusal:
    """The codes of this error in each protocol."""
    return REFUSALS[error.reason]


def error_data(error: ReminderError, *, id_name: str = "id") -> dict[str, Any]:
    """The `data` of a JSON-RPC error: the reason, the code, and if present the field, id and retry delay.

    `id_name` is the parameter with the id in the method that is answered.
    """
    data: dict[str, Any] = {"reason": error.reason, "code": error.code}
    if error.reason in _ABOUT:
        name = _ABOUT[error.reason] or id_name
        data["field"] = name
        # An id that is not a parameter of its own has no name that a member could have.
        data["id" if "." in name else name] = error.value
    elif error.field is not None:
        data["field"] = error.field
    if isinstance(error, RateLimited):
        data["retryAfterMs"] = error.retry_after_ms
    return data


def error_details(error: ReminderError, *, id_name: str = "id") -> list[dict[str, Any]]:
    """The details of an error as A2A defines them: a list of `google.rpc.ErrorInfo`, A2A's own reason first if any."""
    data = error_data(error, id_name=id_name)
    reason = data.pop("reason")
    ours = _error_info(reason.upper(), DOMAIN, {name: str(value) for name, value in data.items()})
    name = _A2A_REASONS.get(refusal(error).a2a)
    return [ours] if name is None else [_error_info(name, A2A_DOMAIN, {}), ours]


def _error_info(reason: str, domain: str, metadata: dict[str, str]) -> dict[str, Any]:
    info: dict[str, Any] = {"@type": ERROR_INFO, "reason": reason, "domain": domain}
    if metadata:
        info["metadata"] = metadata
    return info


# Errors that a peer reports.

_DEFAULT_DELAY_MS: Final = 1_000
_MAX_DIGITS: Final = 9


def _classes(family: type[ReminderError]) -> Iterator[type[ReminderError]]:
    for kind in family.__subclasses__():
        yield kind
        yield from _classes(kind)


_BY_REASON: Final[Mapping[str, type[ReminderError]]] = MappingProxyType(
    {kind.reason: kind for kind in _classes(ReminderError) if kind.__module__ == ReminderError.__module__}
)


def reported_error(reason: object, message: str, data: object) -> ReminderError | None:
    """The error that a peer reports with this reason, as it is raised in this process; None if the reason is unknown.

    `data` is that of `error_data`; its values may be texts, as in an `ErrorInfo`. A limit that the peer does not tell is 0.
    """
    kind = _BY_REASON.get(reason) if isinstance(reason, str) else None
    if kind is None:
        return None
    told: Mapping[str, Any] = data if isinstance(data, dict) else {}
    if issubclass(kind, RateLimited):
        delay = _whole_number(told.get("retryAfterMs"))
        return RateLimited(_DEFAULT_DELAY_MS if delay is None else delay)
    field = told.get("field")
    # The classes word their messages themselves; here the peer has worded it.
    error = kind.__new__(kind)
    ReminderError.__init__(
        error,
        message.removeprefix(f"{kind.code}: "),
        field=field if isinstance(field, str) else None,
        value=told.get(field) if isinstance(field, str) else None,
    )
    if isinstance(error, BodyTooLarge | TooManyPending | TooManyFacts):
        error.limit = _whole_number(told.get("limit")) or 0
    return error


def _whole_number(value: object) -> int | None:
    """A whole number that is not absurdly large; None for anything else."""
    digits = str(value)
    return int(digits) if digits.isdecimal() and len(digits) <= _MAX_DIGITS else None

"""The refusals of a peer as the errors of this project, where the reason is known."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec
from a2a.utils.errors import A2A_ERROR_REASONS, JSON_RPC_ERROR_CODE_MAP

from sideband.core.errors import (
    MESSAGE_CHARACTERS,
    ReminderError,
    UnknownSession,
    shown,
)
from sideband.protocols.a2a.client.failures import PeerFailed, PeerNotUnderstood, PeerUnreachable, TokenRefused
from sideband.protocols.jsonrpc import METHOD_NOT_FOUND, RpcError
from sideband.protocols.refusals import A2A_DOMAIN, DOMAIN, ERROR_INFO, reported_error

_TASK_NOT_FOUND: Final = -32001
UNSUPPORTED_OPERATION: Final = -32004
# The answers of a server that does not have a method, and of one that did not read the request.
_NOT_OFFERED: Final = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_NOT_READ: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
# HTTP+JSON names the errors of A2A instead of giving their codes.
_A2A_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {reason: JSON_RPC_ERROR_CODE_MAP[kind] for kind, reason in A2A_ERROR_REASONS.items()}
)


class NotSupportedByPeer(Exception):
    """The peer does not support what was asked of it, and nothing was changed."""

    code: ClassVar[str] = "SIDEBAND-513"

    def __init__(self, method: str, remedy: str) -> None:
        super().__init__(f"the peer does not support {method}: {remedy}")
        self.method = method


class PeerRefusal(Exception):
    """An answer that refuses a request, as it was sent.

    `code` is that of JSON-RPC, also for an answer of HTTP+JSON (None: the answer is neither). `details` is a list on both
    bindings of A2A.
    """

    def __init__(self, status: int, code: int | None, message: str, details: Any) -> None:  # noqa: ANN401 - any JSON value
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message[:MESSAGE_CHARACTERS]
        self.details = details


# Reading an answer.


def read_refusal(status: int, body: bytes) -> PeerRefusal | None:
    """The refusal in an answer with this status and body; None if the answer refuses nothing."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = None
    error = member(answer, "error")
    code = member(error, "code")
    is_failure = status >= HTTPStatus.MULTIPLE_CHOICES
    message = member(error, "message")
    text = message if isinstance(message, str) and message else f"it answered with HTTP status {status}"
    if isinstance(error, dict) and isinstance(code, int) and ("jsonrpc" in answer or not is_failure):
        return PeerRefusal(status, code, text, error.get("data"))
    if is_failure:
        details = member(error, "details")
        return PeerRefusal(
            status, _A2A_CODES.get(str(member(_error_info(details, A2A_DOMAIN), "reason"))), text, details
        )
    return None


def member(value: object, *names: str) -> Any:  # noqa: ANN401 - any JSON value
    """What these names lead to; None if they lead to nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# Errors.


def refused_by_peer(
    told: PeerRefusal, method: str, task_id: str | None, *, is_extension: bool, is_rpc: bool = True
) -> Exception:
    """The error to raise for a refusal; an `RpcError` if nothing is known of it.

    `is_extension`: the method is one of those for reminders. The proposal answers them with -32004 if the task is unknown.
    """
    ours = _error_info(told.details, DOMAIN)
    known = _known(ours, told.message)
    if known is not None:
        return known
    if told.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return TokenRefused(
            f"the peer refused {method} with HTTP status {told.status}; connect with the token that it knows you by",
            told.status,
        )
    if told.code == METHOD_NOT_FOUND:
        return NotSupportedByPeer(method, "it answered that it does not know the method")
    is_unknown = told.code == _TASK_NOT_FOUND or (is_extension and told.code == UNSUPPORTED_OPERATION and ours is None)
    # On HTTP+JSON the path has the task. On JSON-RPC it is the same for all methods.
    if is_unknown or (is_extension and told.code is None and told.status == HTTPStatus.NOT_FOUND and not is_rpc):
        return UnknownSession(
            f"the peer does not know task {shown(task_id)}: {told.message}", field="task_id", value=task_id
        )
    if told.code is not None:
        return RpcError(told.code, told.message, told.details)
    return _http_failure(told, method, is_extension=is_extension)


def _http_failure(told: PeerRefusal, method: str, *, is_extension: bool) -> PeerFailed | NotSupportedByPeer:
    if is_extension and (told.status in _NOT_OFFERED or told.status == HTTPStatus.NOT_FOUND):
        return NotSupportedByPeer(method, f"it answered with HTTP status {told.status}")
    if told.status in _NOT_READ or told.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return PeerUnreachable(
            f"the peer cannot answer {method} now (HTTP status {told.status}); try again later",
            may_have_arrived=told.status not in _NOT_READ,
        )
    return PeerNotUnderstood(
        f"the peer answered {method} with HTTP status {told.status}; check that the address is that of an A2A agent"
    )


def _known(ours: dict[str, Any] | None, message: str) -> ReminderError | None:
    """The error of this project that an `ErrorInfo` of it names; None if there is none."""
    reason, metadata, field = member(ours, "reason"), member(ours, "metadata"), member(ours, "metadata", "field")
    if isinstance(field, str):
        metadata = {**metadata, "field": field.removeprefix("reminder.")}
    return reported_error(reason.lower() if isinstance(reason, str) else None, message, metadata)


def _error_info(details: object, domain: str) -> dict[str, Any] | None:
    """The `ErrorInfo` of this domain among the details of an error; None if there is none."""
    for detail in details if isinstance(details, Sequence) and not isinstance(details, str) else ():
        if member(detail, "@type") == ERROR_INFO and member(detail, "domain") == domain:
            found: dict[str, Any] = detail
            return found
    return None

"""Translation of SDK and HTTP failures into `ModelError`, which says whether a retry can help."""

import re
from collections.abc import Mapping
from json import JSONDecodeError
from types import MappingProxyType
from typing import Final

import httpx2
import msgspec

from sideband.ports import ModelError

# A service's message is quoted in ours up to this length; it may be the whole error page of a proxy.
QUOTED_CHARACTERS: Final = 500

_STATUS_DIGITS: Final = 3
# The headers that say when to retry, and how many of their units make a second.
_RETRY_HEADERS: Final[Mapping[str, float]] = MappingProxyType({"retry-after-ms": 1_000, "retry-after": 1})
_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)

# Error names that services send in the middle of a stream, when the HTTP status has already been sent.
STATUS_OF: Final[Mapping[str, int]] = MappingProxyType(
    {
        "invalid_request_error": 400,
        "invalid_prompt": 400,
        "context_length_exceeded": 400,
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "conflict_error": 409,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "rate_limit_exceeded": 429,
        "api_error": 500,
        "server_error": 500,
        "internal_error": 500,
        "internal_server_error": 500,
        "service_unavailable": 503,
        "unavailable_error": 503,
        "timeout_error": 504,
        "vector_store_timeout": 504,
        "overloaded_error": 529,
    }
)

# What any SDK client may raise while a reply arrives: a broken connection, or data that is not a valid reply.
COMMON_FAILURES: Final = (
    httpx2.TransportError,
    JSONDecodeError,
    UnicodeDecodeError,
    msgspec.ValidationError,
    RecursionError,
)


def status_named(*words: object) -> int | None:
    """The HTTP status of the first word that is a known error name or a status number, or None."""
    for word in words:
        status = STATUS_OF.get(word) if isinstance(word, str) and not word.isdecimal() else _number(word)
        if status is not None:
            return status
    return None


def _number(word: object) -> int | None:
    number = int(word) if isinstance(word, int) or (isinstance(word, str) and len(word) == _STATUS_DIGITS) else 0
    return number if 400 <= number <= 599 else None  # noqa: PLR2004 - HTTP's error range


def refused(
    service: str, status: int | None, message: object, headers: Mapping[str, str] = MappingProxyType({})
) -> ModelError:
    """The service answered with an error; its headers may say when to retry."""
    answered = f"{service} failed" if status is None else f"{service} answered {status}"
    return ModelError(
        f"{answered}: {' '.join(str(message).split())[:QUOTED_CHARACTERS]}",
        status=status,
        retry_after=_retry_after(headers),
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait before a retry; None if no header gives them as a number."""
    for name, per_second in _RETRY_HEADERS.items():
        if _NUMBER.fullmatch(headers.get(name, "")):
            return float(headers[name]) / per_second
    return None


def cut_off(service: str) -> ModelError:
    """The stream ended before the reply was complete."""
    return ModelError(f"the reply of {service} ended before it was complete", retryable=True)


def unanswered(service: str, why: str) -> ModelError:
    """The reply is complete but contains nothing usable."""
    return ModelError(f"{service} gave no answer: {why}")


def lost(service: str, error: BaseException) -> ModelError:
    """The connection could not be made, or broke."""
    if isinstance(error, httpx2.UnsupportedProtocol):
        return ModelError(f"the address of {service} must begin with http:// or https://")
    if isinstance(error, httpx2.LocalProtocolError):
        # The exception text quotes what could not be sent, possibly the API key.
        return ModelError(f"{service} cannot be reached: the request could not be written", retryable=True)
    timed_out = isinstance(error, httpx2.TimeoutException)
    what = "did not answer in time" if timed_out else "cannot be reached, or the connection broke"
    return ModelError(f"{service} {what}: {str(error) or type(error).__name__}", retryable=True)


def read_failure(service: str, error: Exception) -> ModelError:
    """Translate one of `COMMON_FAILURES`, or another exception that a client raised for an invalid reply."""
    match error:
        case httpx2.TransportError():
            return lost(service, error)
        case JSONDecodeError() | UnicodeDecodeError():
            return cut_off(service)
        case _:
            return ModelError(f"{service} sent an invalid reply: {' '.join(str(error).split())}")

"""What went wrong between a model and us, told as one kind of error that says whether to try again."""

import re
from collections.abc import Mapping
from json import JSONDecodeError
from types import MappingProxyType
from typing import Final

import httpx2
import msgspec

from sideband.ports import ModelError

# A message of a service is quoted in ours, as far as somebody would read it.
QUOTED_CHARACTERS: Final = 500

_STATUS_DIGITS: Final = 3
# Where services say after what time they may be asked again, and in which part of a second.
_PATIENCE: Final[Mapping[str, float]] = MappingProxyType({"retry-after-ms": 1_000, "retry-after": 1})
_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)

# The words by which services name an error in the middle of a reply, when the status has already been sent.
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

# What any client may raise while a reply arrives: the connection breaks, or what came is not what was to come.
COMMON_FAILURES: Final = (
    httpx2.TransportError,
    JSONDecodeError,
    UnicodeDecodeError,
    msgspec.ValidationError,
    RecursionError,
)


def status_named(*words: object) -> int | None:
    """The HTTP status that the first of these stands for, be it a number or a name; None where none is known."""
    for word in words:
        status = STATUS_OF.get(word) if isinstance(word, str) and not word.isdecimal() else _number(word)
        if status is not None:
            return status
    return None


def _number(word: object) -> int | None:
    number = int(word) if isinstance(word, int) or (isinstance(word, str) and len(word) == _STATUS_DIGITS) else 0
    return number if 400 <= number <= 599 else None  # noqa: PLR2004 - HTTP's own


def refused(
    service: str, status: int | None, message: object, headers: Mapping[str, str] = MappingProxyType({})
) -> ModelError:
    """The service has answered that it cannot answer; in the headers it may say for how long."""
    answered = f"{service} failed" if status is None else f"{service} answered {status}"
    # It may be a whole page of some proxy.
    return ModelError(
        f"{answered}: {' '.join(str(message).split())[:QUOTED_CHARACTERS]}",
        status=status,
        retry_after=_patience(headers),
    )


def _patience(headers: Mapping[str, str]) -> float | None:
    """The seconds after which the service may be asked again, where it gives a number of them."""
    for name, parts in _PATIENCE.items():
        if _NUMBER.fullmatch(headers.get(name, "")):
            return float(headers[name]) / parts
    return None


def cut_off(service: str) -> ModelError:
    """The reply ended in the middle."""
    return ModelError(f"the reply of {service} ended before it was complete", retryable=True)


def unanswered(service: str, why: str) -> ModelError:
    """The reply is complete, and there is nothing in it that could be kept."""
    return ModelError(f"{service} gave no answer: {why}")


def lost(service: str, error: BaseException) -> ModelError:
    """There is no connection, or no longer."""
    if isinstance(error, httpx2.UnsupportedProtocol):
        return ModelError(f"the address of {service} has to begin with http:// or https://")
    if isinstance(error, httpx2.LocalProtocolError):
        # It quotes what could not be sent, and that may be the key.
        return ModelError(f"{service} cannot be reached: no request could be written", retryable=True)
    timed_out = isinstance(error, httpx2.TimeoutException)
    what = "did not answer in time" if timed_out else "cannot be reached, or is no longer"
    return ModelError(f"{service} {what}: {str(error) or type(error).__name__}", retryable=True)


def read_failure(service: str, error: Exception) -> ModelError:
    """One of the `COMMON_FAILURES`, or whatever else a client raises at a reply that is none."""
    match error:
        case httpx2.TransportError():
            return lost(service, error)
        case JSONDecodeError() | UnicodeDecodeError():
            return cut_off(service)
        case _:
            return ModelError(f"{service} sent something that is no reply: {' '.join(str(error).split())}")

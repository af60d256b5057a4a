"""Failures become one kind of error that says whether a retry can help."""

import json

import httpx2
import msgspec
import pytest

from sideband.models.errors import QUOTED_CHARACTERS, STATUS_OF, lost, read_failure, refused, status_named
from sideband.ports import ModelError

WORTH_ANOTHER_TRY = {
    "conflict_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "api_error",
    "server_error",
    "internal_error",
    "internal_server_error",
    "service_unavailable",
    "unavailable_error",
    "timeout_error",
    "vector_store_timeout",
    "overloaded_error",
}


@pytest.mark.parametrize("word", STATUS_OF)
def test_a_word_stands_for_a_status_and_the_status_tells_whether_to_try_again(word: str) -> None:
    assert refused("It", status_named(word), "no").retryable is (word in WORTH_ANOTHER_TRY)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param((503,), 503, id="a-number"),
        pytest.param(("503",), 503, id="a-number-as-text"),
        pytest.param((None, "server_error"), 500, id="the-first-that-is-known"),
        pytest.param(("rate_limit_exceeded", "server_error"), 429, id="the-first-of-two"),
        pytest.param(("gone_fishing",), None, id="an-unknown-word"),
        pytest.param((200,), None, id="a-number-that-is-no-failure"),
        pytest.param((None,), None, id="nothing"),
        pytest.param(("9" * 5_000, 503), 503, id="an-endless-number"),
        pytest.param(({"a": 1}, True), None, id="no-word-and-no-number"),
        pytest.param((), None, id="nothing-at-all"),
    ],
)
def test_a_status_is_found_in_what_a_service_says(words: tuple[object, ...], status: int | None) -> None:
    assert status_named(*words) == status


def test_a_refusal_names_the_service_the_status_and_the_reason() -> None:
    assert str(refused("Acme", 400, "too long")) == "Acme answered 400: too long"
    assert str(refused("Acme", None, "odd")) == "Acme failed: odd"
    assert refused("Acme", None, "odd").retryable is False


def test_a_long_reason_is_shortened() -> None:
    assert len(str(refused("Acme", 400, "x" * 10_000))) < QUOTED_CHARACTERS + 50


@pytest.mark.parametrize(
    ("error", "message", "retryable"),
    [
        pytest.param(httpx2.ReadTimeout("slow"), "Acme did not answer in time: slow", True, id="too-late"),
        pytest.param(
            httpx2.ConnectError(""),
            "Acme cannot be reached, or the connection broke: ConnectError",
            True,
            id="not-reached",
        ),
        pytest.param(
            json.JSONDecodeError("odd", "{", 1),
            "the reply of Acme ended before it was complete",
            True,
            id="half-an-event",
        ),
        pytest.param(
            msgspec.ValidationError("Expected `str`"),
            "Acme sent an invalid reply: Expected `str`",
            False,
            id="something-else",
        ),
        pytest.param(
            httpx2.UnsupportedProtocol("no 'localhost://'"),
            "the address of Acme must begin with http:// or https://",
            False,
            id="an-address-without-a-protocol",
        ),
        pytest.param(
            httpx2.LocalProtocolError("Illegal header value b'Bearer secret'"),
            "Acme cannot be reached: the request could not be written",
            True,
            id="an-illegal-header-that-may-be-the-key",
        ),
    ],
)
def test_a_failure_is_told_as_what_it_means(error: Exception, message: str, *, retryable: bool) -> None:
    told = read_failure("Acme", error)
    assert (str(told), told.retryable) == (message, retryable)


def test_a_lost_connection_may_come_back() -> None:
    error = lost("Acme", ConnectionResetError("by peer"))
    assert isinstance(error, ModelError)
    assert error.retryable

"""What peers are told when something is refused."""

from collections.abc import Iterator

import pytest

from sideband.core import errors
from sideband.core.errors import (
    AlreadyDelivered,
    AlreadyRevoked,
    BodyTooLarge,
    IdempotencyConflict,
    InvalidReminder,
    RateLimited,
    ReminderError,
    SessionBusy,
    UnknownMessage,
    UnknownPropagate,
    UnknownReminder,
    UnknownSession,
    UnsupportedMode,
)
from sideband.protocols.refusals import ERROR_INFO, REFUSALS, error_data, error_details, refusal, reported_error


def error_classes(family: type[ReminderError] = ReminderError) -> Iterator[type[ReminderError]]:
    for member in family.__subclasses__():
        yield member
        yield from error_classes(member)


def an_error_info(reason: str, domain: str = "sideband", **metadata: str) -> dict[str, object]:
    entry: dict[str, object] = {"@type": ERROR_INFO, "reason": reason, "domain": domain}
    return entry | ({"metadata": metadata} if metadata else {})


def test_every_error_has_an_answer_on_every_protocol_and_every_answer_an_error() -> None:
    own = {member.reason for member in error_classes() if member.__module__ == errors.__name__}
    assert own == REFUSALS.keys()


@pytest.mark.parametrize(
    ("reasons", "acp", "a2a", "http"),
    [
        pytest.param(
            ("unknown_option", "invalid_option", "invalid_reminder", "unknown_propagate", "unsupported_mode"),
            -32602,
            -32602,
            400,
            id="a-request-to-be-mended",
        ),
        pytest.param(("idempotency_conflict",), -32602, -32602, 409, id="an-id-used-twice"),
        pytest.param(("not_injectable", "not_permitted"), -32602, -32602, 403, id="what-this-caller-may-never-do"),
        pytest.param(
            ("unknown_session", "unknown_reminder_id", "unknown_message_id"),
            -32002,
            -32001,
            404,
            id="what-does-not-exist-or-is-not-yours",
        ),
        pytest.param(
            (
                "already_delivered",
                "already_revoked",
                "no_running_turn",
                "replace_not_supported",
                "session_busy",
                "task_finished",
            ),
            -32010,
            -32004,
            409,
            id="what-the-state-does-not-allow",
        ),
        pytest.param(("too_many_pending", "too_many_facts", "rate_limited"), -32010, -32000, 429, id="too-many"),
        pytest.param(("body_too_large",), -32010, -32000, 413, id="too-large"),
        pytest.param(
            ("malformed_provider_result", "too_many_providers", "unsupported_hook_event"),
            -32603,
            -32603,
            500,
            id="what-no-peer-can-mend",
        ),
    ],
)
def test_a_refusal_has_its_number_on_each_protocol(reasons: tuple[str, ...], acp: int, a2a: int, http: int) -> None:
    assert {REFUSALS[reason] for reason in reasons} == {(acp, a2a, http)}


def test_the_answer_follows_from_the_error() -> None:
    assert refusal(SessionBusy("a loop is running")).acp == -32010


@pytest.mark.parametrize(
    ("error", "data"),
    [
        pytest.param(
            UnknownPropagate("everywhere"),
            {"reason": "unknown_propagate", "code": "HARN-RMD-005", "field": "propagate"},
            id="code-and-field",
        ),
        pytest.param(
            InvalidReminder("not an object", value=7),
            {"reason": "invalid_reminder", "code": "HARN-RMD-002"},
            id="no-single-field-is-to-blame",
        ),
        pytest.param(
            UnsupportedMode("no such mode"),
            {"reason": "unsupported_mode", "code": "SIDEBAND-201"},
            id="reason-and-code",
        ),
        pytest.param(
            BodyTooLarge(9000, 8192),
            {"reason": "body_too_large", "code": "SIDEBAND-106", "field": "body"},
            id="a-code-of-ours",
        ),
        pytest.param(
            InvalidReminder("id must be short", field="id", value="x" * 500),
            {"reason": "invalid_reminder", "code": "HARN-RMD-002", "field": "id"},
            id="a-malformed-id-is-not-repeated",
        ),
        pytest.param(
            UnknownReminder("r-9"),
            {"reason": "unknown_reminder_id", "code": "SIDEBAND-206", "field": "reminderId", "reminderId": "r-9"},
            id="the-reminder-it-is-about",
        ),
        pytest.param(
            UnknownMessage("m-9"),
            {"reason": "unknown_message_id", "code": "SIDEBAND-207", "field": "messageId", "messageId": "m-9"},
            id="the-message-it-is-about",
        ),
        pytest.param(
            IdempotencyConflict("k-1"),
            {"reason": "idempotency_conflict", "code": "SIDEBAND-202", "field": "id", "id": "k-1"},
            id="the-key",
        ),
        pytest.param(
            RateLimited(1200),
            {"reason": "rate_limited", "code": "SIDEBAND-216", "retryAfterMs": 1200},
            id="how-long-to-wait",
        ),
        pytest.param(
            UnknownSession("no such session", field="sessionId", value="s-1"),
            {"reason": "unknown_session", "code": "SIDEBAND-205", "field": "sessionId"},
            id="the-session",
        ),
    ],
)
def test_the_data_of_an_error_says_what_there_is_to_say(error: ReminderError, data: dict[str, object]) -> None:
    assert error_data(error) == data


@pytest.mark.parametrize("error", [AlreadyDelivered("m-1"), AlreadyRevoked("m-1")], ids=lambda error: error.reason)
def test_an_id_is_called_what_the_answered_method_calls_it(error: ReminderError) -> None:
    assert error_data(error, id_name="messageId") == {
        "reason": error.reason,
        "code": error.code,
        "field": "messageId",
        "messageId": "m-1",
    }


@pytest.mark.parametrize(
    ("error", "details"),
    [
        pytest.param(
            UnknownPropagate("everywhere"),
            [an_error_info("UNKNOWN_PROPAGATE", code="HARN-RMD-005", field="propagate")],
            id="a-code-that-is-not-of-a2a",
        ),
        pytest.param(
            UnknownReminder("r-9"),
            [
                an_error_info("TASK_NOT_FOUND", "a2a-protocol.org"),
                an_error_info("UNKNOWN_REMINDER_ID", code="SIDEBAND-206", field="reminderId", reminderId="r-9"),
            ],
            id="not-found",
        ),
        pytest.param(
            SessionBusy("a loop is running"),
            [
                an_error_info("UNSUPPORTED_OPERATION", "a2a-protocol.org"),
                an_error_info("SESSION_BUSY", code="SIDEBAND-212"),
            ],
            id="not-in-this-state",
        ),
        pytest.param(
            RateLimited(1200),
            [an_error_info("RATE_LIMITED", code="SIDEBAND-216", retryAfterMs="1200")],
            id="metadata-is-text-only",
        ),
    ],
)
def test_a2a_gets_a_list_of_error_infos(error: ReminderError, details: list[dict[str, object]]) -> None:
    assert error_details(error) == details


def test_the_id_in_an_error_info_has_the_name_of_the_method_too() -> None:
    ours = error_details(AlreadyRevoked("r-1"), id_name="reminderId")[-1]
    assert ours["metadata"] == {"code": "SIDEBAND-209", "field": "reminderId", "reminderId": "r-1"}


@pytest.mark.parametrize(
    ("data", "limit"), [({"limit": 9}, 9), ({"limit": "9"}, 9), ({"limit": "9" * 5_000}, 0), ({}, 0), (None, 0)]
)
def test_an_error_that_a_peer_reports_has_the_limit_that_it_tells(data: object, limit: int) -> None:
    for kind in (BodyTooLarge, errors.TooManyPending, errors.TooManyFacts):
        error = reported_error(kind.reason, "no", data)
        assert isinstance(error, BodyTooLarge | errors.TooManyPending | errors.TooManyFacts)
        assert error.limit == limit


@pytest.mark.parametrize("delay", [-1, 10**9, 1.5, True, None])
def test_a_delay_that_cannot_be_used_is_a_second(delay: object) -> None:
    error = reported_error("rate_limited", "no", {"retryAfterMs": delay})
    assert isinstance(error, RateLimited)
    assert error.retry_after_ms == 1_000
    assert reported_error("no_such_reason", "no", {}) is None

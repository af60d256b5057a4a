"""What a refusal looks like on each wire: its number, its reason, its code, and the id it is about."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from sideband.core import errors
from sideband.core.diagnostics import diagnostic
from sideband.core.errors import (
    AlreadyDelivered,
    AlreadyRevoked,
    BodyTooLarge,
    IdempotencyConflict,
    InvalidOption,
    InvalidReminder,
    MalformedProviderResult,
    NoRunningTurn,
    NothingToAnswer,
    NotInjectable,
    NotPermitted,
    RateLimited,
    ReminderError,
    ReplaceNotSupported,
    SessionBusy,
    TaskFinished,
    TooManyFacts,
    TooManyPending,
    TooManyProviders,
    UnknownMessage,
    UnknownOption,
    UnknownPropagate,
    UnknownReminder,
    UnknownSession,
    UnsupportedHookEvent,
    UnsupportedMode,
    WrongEventLoop,
)
from sideband.core.limits import Rate, take
from sideband.core.seams import InjectMode
from sideband.core.trust import Provenance, Trust
from sideband.protocols.refusals import Refusal, error_data, error_details, refusal
from tests.builders import a_draft
from tests.sessions import PEER, Session
from tests.unit.protocols.schemas import validator

STRANGER: Final = Provenance(trust=Trust.PEER, principal="somebody else", via="a2a")
# One of each kind.
ERRORS: Final = (
    UnknownOption("x"),
    InvalidOption("x"),
    InvalidReminder("x"),
    UnknownPropagate("far"),
    MalformedProviderResult("x"),
    TooManyProviders(("a", "b"), 1),
    UnsupportedHookEvent("worker_spawned"),
    UnsupportedMode("x"),
    IdempotencyConflict("r-1"),
    BodyTooLarge(2000, 1024),
    NotPermitted("x"),
    NotInjectable("x"),
    UnknownSession("x"),
    UnknownReminder("r-1"),
    UnknownMessage("m-1"),
    AlreadyDelivered("m-1"),
    AlreadyRevoked("m-1"),
    NoRunningTurn("steer"),
    NothingToAnswer(),
    ReplaceNotSupported("x"),
    SessionBusy("x"),
    TaskFinished("x"),
    TooManyPending(8, 8, scope="source"),
    TooManyFacts(10),
    RateLimited(10),
    WrongEventLoop(closed=True),
)
# The number for mistakes on our side, which no peer is blamed for.
OUR_FAULT: Final = -32603


def refused(act: Callable[[], object]) -> ReminderError:
    with pytest.raises(ReminderError) as caught:
        act()
    return caught.value


# The numbers.


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        pytest.param(
            UnknownOption("x"),
            Refusal(-32602, -32602, 400),
            marks=pytest.mark.requirement("wire:error:refused-request"),
        ),
        pytest.param(
            InvalidOption("x"),
            Refusal(-32602, -32602, 400),
            marks=pytest.mark.requirement("wire:error:refused-request"),
        ),
        pytest.param(
            InvalidReminder("x"),
            Refusal(-32602, -32602, 400),
            marks=pytest.mark.requirement("wire:error:refused-request"),
        ),
        pytest.param(
            UnknownPropagate("far"),
            Refusal(-32602, -32602, 400),
            marks=pytest.mark.requirement("wire:error:refused-request"),
        ),
        pytest.param(
            UnsupportedMode("x"),
            Refusal(-32602, -32602, 400),
            marks=pytest.mark.requirement("wire:error:refused-request"),
        ),
        pytest.param(
            IdempotencyConflict("r-1"),
            Refusal(-32602, -32602, 409),
            marks=pytest.mark.requirement("wire:error:idempotency-conflict"),
        ),
        pytest.param(
            UnknownSession("x"),
            Refusal(-32002, -32001, 404),
            marks=pytest.mark.requirement("wire:error:not-found", "a2a:error:unknown-task"),
        ),
        pytest.param(
            UnknownReminder("r-1"), Refusal(-32002, -32001, 404), marks=pytest.mark.requirement("wire:error:not-found")
        ),
        pytest.param(
            UnknownMessage("m-1"), Refusal(-32002, -32001, 404), marks=pytest.mark.requirement("wire:error:not-found")
        ),
        pytest.param(
            AlreadyDelivered("m-1"),
            Refusal(-32010, -32004, 409),
            marks=pytest.mark.requirement("wire:error:wrong-state"),
        ),
        pytest.param(
            AlreadyRevoked("m-1"), Refusal(-32010, -32004, 409), marks=pytest.mark.requirement("wire:error:wrong-state")
        ),
        pytest.param(
            NoRunningTurn("steer"),
            Refusal(-32010, -32004, 409),
            marks=pytest.mark.requirement("wire:error:wrong-state"),
        ),
        pytest.param(
            ReplaceNotSupported("x"),
            Refusal(-32010, -32004, 409),
            marks=pytest.mark.requirement("wire:error:wrong-state"),
        ),
        pytest.param(
            SessionBusy("x"), Refusal(-32010, -32004, 409), marks=pytest.mark.requirement("wire:error:wrong-state")
        ),
        pytest.param(
            TaskFinished("x"), Refusal(-32010, -32004, 409), marks=pytest.mark.requirement("wire:error:wrong-state")
        ),
        pytest.param(
            TooManyPending(8, 8, scope="source"),
            Refusal(-32010, -32000, 429),
            marks=pytest.mark.requirement("wire:error:overflow"),
        ),
        pytest.param(
            RateLimited(10), Refusal(-32010, -32000, 429), marks=pytest.mark.requirement("wire:error:overflow")
        ),
        pytest.param(
            BodyTooLarge(2000, 1024),
            Refusal(-32010, -32000, 413),
            marks=pytest.mark.requirement("wire:error:body-too-large"),
        ),
    ],
    ids=lambda value: value.reason if isinstance(value, ReminderError) else "",
)
def test_a_refusal_has_its_number_on_acp_on_a2a_and_over_http(error: ReminderError, answer: Refusal) -> None:
    assert refusal(error) == answer


@pytest.mark.requirement("wire:error:harn-code")
def test_every_refusal_carries_a_code_that_explain_knows() -> None:
    known = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ReminderError)}
    assert {type(error) for error in ERRORS} == known - {ReminderError}
    codes = {error.reason: error_data(error)["code"] for error in ERRORS}
    assert {reason: diagnostic(reason).code for reason in codes} == codes
    assert {reason: code for reason, code in codes.items() if code.startswith("HARN-")} == {
        "unknown_option": "HARN-RMD-001",
        "invalid_option": "HARN-RMD-001",
        "invalid_reminder": "HARN-RMD-002",
        "unknown_propagate": "HARN-RMD-005",
        "malformed_provider_result": "HARN-RMD-006",
        "too_many_providers": "HARN-RMD-007",
        "unsupported_hook_event": "HARN-RMD-008",
    }
    assert len(set(codes.values())) == len(codes) - 1


# Reminders of other senders.


def told(error: ReminderError, asked_for: str) -> tuple[Refusal, bytes, bytes]:
    """All that a peer learns, with the id that it sent itself blotted out."""
    data = msgspec.json.encode(error_data(error)).replace(asked_for.encode(), b"?")
    details = msgspec.json.encode(error_details(error)).replace(asked_for.encode(), b"?")
    return refusal(error), data, details


@pytest.mark.requirement("wire:error:foreign-is-not-found")
def test_the_reminder_of_somebody_else_is_refused_like_one_that_never_was() -> None:
    session = Session()
    theirs = session.accept(a_draft(), PEER).reminder_id
    foreign = refused(lambda: session.revoke(theirs, STRANGER))
    missing = refused(lambda: session.revoke("never-was", STRANGER))
    assert told(foreign, theirs) == told(missing, "never-was")
    assert refusal(foreign) == Refusal(-32002, -32001, 404)
    assert session.queued_ids == [theirs]


@pytest.mark.requirement("wire:error:foreign-is-not-found")
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(Session.revoke_message, id="revoke"),
        pytest.param(
            lambda session, message_id, actor: session.replace_message(message_id, "Go on.", actor), id="replace"
        ),
    ],
)
def test_the_message_of_somebody_else_is_refused_like_one_that_never_was(
    act: Callable[[Session, str, Provenance], object],
) -> None:
    session = Session()
    theirs = session.say("Stop at the next test.", InjectMode.QUEUE)
    foreign = refused(lambda: act(session, theirs, STRANGER))
    missing = refused(lambda: act(session, "never-was", STRANGER))
    assert told(foreign, theirs) == told(missing, "never-was")
    assert refusal(foreign) == Refusal(-32002, -32001, 404)
    assert session.queued_ids == [theirs]


# The details.


@pytest.mark.requirement("wire:error:retry-after")
def test_who_sends_too_fast_is_told_how_long_to_wait() -> None:
    rate = Rate(per_second=0.5, burst=1)
    spent = take(None, rate, now=10.0)
    error = refused(lambda: take(spent, rate, now=11.0))
    data = error_data(error)
    assert data["reason"] == "rate_limited"
    # Half a token has grown back; the other half takes one second more.
    assert 1000 <= data["retryAfterMs"] <= 1001
    take(spent, rate, now=11.0 + data["retryAfterMs"] / 1000)


@pytest.mark.requirement("wire:error:acp-data")
@pytest.mark.parametrize(
    ("error", "id_name", "data"),
    [
        pytest.param(
            UnknownOption("x", field="dedupKey"),
            "id",
            {"reason": "unknown_option", "code": "HARN-RMD-001", "field": "dedupKey"},
            id="a-code-and-the-field-to-mend",
        ),
        pytest.param(
            UnknownPropagate("far"),
            "id",
            {"reason": "unknown_propagate", "code": "HARN-RMD-005", "field": "propagate"},
            id="another-code",
        ),
        pytest.param(
            UnknownReminder("r-1"),
            "id",
            {"reason": "unknown_reminder_id", "code": "SIDEBAND-206", "field": "reminderId", "reminderId": "r-1"},
            id="the-reminder",
        ),
        pytest.param(
            UnknownMessage("m-1"),
            "id",
            {"reason": "unknown_message_id", "code": "SIDEBAND-207", "field": "messageId", "messageId": "m-1"},
            id="the-message",
        ),
        pytest.param(
            AlreadyDelivered("m-1"),
            "messageId",
            {"reason": "already_delivered", "code": "SIDEBAND-208", "field": "messageId", "messageId": "m-1"},
            id="the-message-of-the-method-that-is-answered",
        ),
        pytest.param(
            AlreadyRevoked("r-1"),
            "reminderId",
            {"reason": "already_revoked", "code": "SIDEBAND-209", "field": "reminderId", "reminderId": "r-1"},
            id="the-reminder-of-the-method-that-is-answered",
        ),
        pytest.param(
            IdempotencyConflict("key-1"),
            "id",
            {"reason": "idempotency_conflict", "code": "SIDEBAND-202", "field": "id", "id": "key-1"},
            id="the-key-of-the-caller",
        ),
    ],
)
def test_the_data_of_an_acp_error_has_reason_code_and_id(
    error: ReminderError, id_name: str, data: dict[str, object]
) -> None:
    assert error_data(error, id_name=id_name) == data
    validator("acp/error").validate(data)


def entries_of(error: ReminderError) -> list[dict[str, Any]]:
    """The entries of an A2A error, each held against the published schema."""
    details = error_details(error)
    for entry in details:
        validator("a2a/error").validate(entry)
    return details


@pytest.mark.requirement("wire:error:a2a-error-info")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.reason)
def test_an_a2a_error_has_reason_and_code_in_an_error_info_of_ours(error: ReminderError) -> None:
    (ours,) = (entry for entry in entries_of(error) if entry["domain"] == "sideband")
    assert ours["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert ours["reason"] == error.reason.upper()
    assert ours.get("metadata", {}).get("code") == error.code


@pytest.mark.requirement("wire:error:a2a-error-info")
@pytest.mark.parametrize(
    ("error", "name"),
    [
        pytest.param(UnknownSession("x"), "TASK_NOT_FOUND", id="not-found"),
        pytest.param(SessionBusy("x"), "UNSUPPORTED_OPERATION", id="not-now"),
    ],
)
def test_where_a2a_has_a_name_for_its_code_that_entry_comes_first(error: ReminderError, name: str) -> None:
    first, ours = entries_of(error)
    assert (first["domain"], first["reason"]) == ("a2a-protocol.org", name)
    assert ours["domain"] == "sideband"

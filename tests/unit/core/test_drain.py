"""Drains while a permission is asked for, and what the end of a session leaves nothing of."""

import pytest

from sideband.core.drain import close, wakes_daemon
from sideband.core.events import (
    Cancelled,
    Closed,
    Dropped,
    DropReason,
    Expired,
    ExpiryReason,
    InjectRevoked,
    PermissionAsked,
    PermissionReplied,
    Started,
)
from sideband.core.inbox import RevokeStatus
from sideband.core.seams import InjectMode, Mode, Seam
from tests.builders import a_draft, a_reminder
from tests.sessions import Session


def an_asking_session() -> Session:
    """A running session that waits for the answer to a permission request, with one item of every kind and mode."""
    session = Session()
    session.commit([Started(), PermissionAsked(request_id="p1")])
    for mode in Mode:
        session.accept(a_draft(mode=mode))
    for inject_mode in InjectMode:
        session.say("a word", inject_mode)
    return session


def taken_by(session: Session, seam: Seam) -> list[tuple[str, str]]:
    return [(type(item).__name__, item.mode.value) for item in session.drain(seam).taken]


def test_while_a_permission_is_asked_for_steers_and_interrupts_wait() -> None:
    session = an_asking_session()
    assert taken_by(session, Seam.ITERATION_START) == [("QueuedReminder", "finish_step")]
    assert taken_by(session, Seam.PRE_TOOL_DISPATCH) == []


def test_what_is_only_for_the_record_is_not_held() -> None:
    assert taken_by(an_asking_session(), Seam.LOOP_EXIT) == [
        ("QueuedReminder", "audit_only"),
        ("QueuedMessage", "audit_only"),
    ]


@pytest.mark.parametrize("decision", [PermissionReplied(request_id="p1"), Cancelled()], ids=["answered", "cancelled"])
def test_what_was_held_is_taken_after_the_decision(decision: PermissionReplied | Cancelled) -> None:
    session = an_asking_session()
    session.drain(Seam.POST_TOOL_DISPATCH)
    session.commit([decision])
    assert taken_by(session, Seam.POST_TOOL_DISPATCH) == [
        ("QueuedReminder", "interrupt_immediate"),
        ("QueuedMessage", "interrupt_immediate"),
        ("QueuedMessage", "steer"),
        ("QueuedMessage", "finish_step"),
    ]


def test_of_several_open_requests_the_last_answer_counts() -> None:
    session = an_asking_session()
    session.commit([PermissionAsked(request_id="p2"), PermissionReplied(request_id="p1")])
    assert taken_by(session, Seam.PRE_TOOL_DISPATCH) == []
    session.commit([PermissionReplied(request_id="p2"), PermissionReplied(request_id="nobody asked")])
    assert len(taken_by(session, Seam.PRE_TOOL_DISPATCH)) == 2


def test_a_reminder_drained_while_a_request_is_open_is_for_the_request_after_it() -> None:
    session = Session()
    session.turn()
    session.send_request()
    session.accept(a_draft())
    session.drain()
    assert [item.reminder.fired_at_turn for item in session.state.live] == [3]


@pytest.mark.parametrize("reason", [DropReason.SESSION_CLOSED, DropReason.TASK_FINISHED])
def test_closing_ends_all_that_waits_and_all_that_is_live(reason: DropReason) -> None:
    session = Session()
    session.inject(a_reminder("live"))
    queued = session.accept(a_draft()).reminder_id
    message = session.say("when you are done", InjectMode.QUEUE)
    assert session.commit(close(session.state.inbox, session.state.live, reason=reason)) == (
        Dropped(reminder_id=queued, reason=reason),
        InjectRevoked(message_id=message, reason=reason),
        Expired(reminder_id="live", reason=ExpiryReason.CLEARED, turn=0),
        Closed(),
    )
    assert (session.queued_ids, session.live_ids, session.state.closed) == ([], [], True)
    assert session.revoke_message(message) is RevokeStatus.ALREADY_REVOKED


@pytest.mark.parametrize("mode", InjectMode)
def test_of_messages_too_only_an_interrupt_wakes_a_daemon(mode: InjectMode) -> None:
    session = Session()
    session.commit([Started()])
    session.say("a word", mode)
    (item,) = session.state.inbox.items()
    assert wakes_daemon(item) is (mode is InjectMode.INTERRUPT_IMMEDIATE)

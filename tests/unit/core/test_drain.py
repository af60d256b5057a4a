"""Drains while a permission request is open, closing a session, and which items wake a daemon."""

import pytest

from sideband.core.accept import RevokeStatus
from sideband.core.drain import wakes_daemon
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
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.trust import IN_PROCESS
from tests.builders import a_draft, a_reminder
from tests.sessions import CLIENT, Session


def an_asking_session() -> Session:
    """A running session with an open permission request and one item of every kind and mode."""
    session = Session()
    session.commit([Started(), PermissionAsked(request_id="p1")])
    for mode in Mode:
        session.accept(a_draft(mode=mode))
    for inject_mode in InjectMode:
        session.say("a word", inject_mode)
    return session


def taken_by(session: Session, seam: Seam) -> list[tuple[str, str]]:
    return [(type(item).__name__, item.mode.value) for item in session.drain(seam).taken]


def test_steers_and_interrupts_wait_while_a_permission_request_is_open() -> None:
    session = an_asking_session()
    assert taken_by(session, Seam.ITERATION_START) == [("QueuedReminder", "finish_step")]
    assert taken_by(session, Seam.PRE_TOOL_DISPATCH) == []


def test_audit_only_items_are_not_held() -> None:
    assert taken_by(an_asking_session(), Seam.LOOP_EXIT) == [
        ("QueuedReminder", "audit_only"),
        ("QueuedMessage", "audit_only"),
    ]


@pytest.mark.parametrize("decision", [PermissionReplied(request_id="p1"), Cancelled()], ids=["answered", "cancelled"])
def test_held_items_are_drained_after_the_permission_request_ends(decision: PermissionReplied | Cancelled) -> None:
    session = an_asking_session()
    session.drain(Seam.POST_TOOL_DISPATCH)
    session.commit([decision])
    assert taken_by(session, Seam.POST_TOOL_DISPATCH) == [
        ("QueuedReminder", "interrupt_immediate"),
        ("QueuedMessage", "interrupt_immediate"),
        ("QueuedMessage", "steer"),
        ("QueuedMessage", "finish_step"),
    ]


def test_items_are_held_until_the_last_open_permission_request_is_answered() -> None:
    session = an_asking_session()
    session.commit([PermissionAsked(request_id="p2"), PermissionReplied(request_id="p1")])
    assert taken_by(session, Seam.PRE_TOOL_DISPATCH) == []
    session.commit([PermissionReplied(request_id="p2"), PermissionReplied(request_id="unknown")])
    assert len(taken_by(session, Seam.PRE_TOOL_DISPATCH)) == 2


@pytest.mark.parametrize("reason", [DropReason.SESSION_CLOSED, DropReason.TASK_FINISHED])
def test_closing_ends_every_queued_and_every_live_item(reason: DropReason) -> None:
    session = Session()
    session.inject(a_reminder("live"))
    queued = session.accept(a_draft()).reminder_id
    message = session.say("when you are done", InjectMode.QUEUE)
    assert session.close(reason) == (
        Dropped(reminder_id=queued, reason=reason, provenance=CLIENT),
        InjectRevoked(message_id=message, reason=reason, provenance=CLIENT),
        Expired(reminder_id="live", reason=ExpiryReason.CLEARED, turn=0, provenance=IN_PROCESS),
        Closed(reason=reason),
    )
    assert (session.queued_ids, session.live_ids, session.state.closed) == ([], [], True)
    assert session.revoke_message(message) is RevokeStatus.ALREADY_REVOKED


@pytest.mark.parametrize("mode", InjectMode)
def test_only_an_interrupting_message_wakes_a_daemon(mode: InjectMode) -> None:
    session = Session()
    session.commit([Started()])
    session.say("a word", mode)
    (item,) = session.state.inbox.items()
    assert wakes_daemon(item) is (mode is InjectMode.INTERRUPT_IMMEDIATE)

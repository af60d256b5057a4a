"""User messages that arrive while a turn runs: queued and steering ones, withdrawn and exchanged ones, and cancels."""

from collections.abc import Callable

import pytest

from sideband.core.accept import RevokeStatus
from sideband.core.errors import (
    AlreadyDelivered,
    AlreadyRevoked,
    NoRunningTurn,
    NotPermitted,
    ReminderError,
    UnknownMessage,
)
from sideband.core.events import Cancelled, Idled, InjectDelivered, Injected, InjectReplaced, Started
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import pending
from sideband.core.topic import Correlation, publish
from sideband.core.trust import Provenance, Trust
from tests.builders import a_draft, a_text
from tests.sessions import CLIENT, PEER, SERVER, Session

STEP_SEAMS = [Seam.ITERATION_START, Seam.POST_TOOL_DISPATCH, Seam.ITERATION_END]
OTHER_CLIENT = Provenance(trust=Trust.CONTROLLER, principal="phone", via="http")


def a_running_session() -> Session:
    session = Session()
    session.commit([Started()])
    return session


def said(session: Session) -> list[str]:
    """The text of every message of the conversation."""
    return [message["content"][0]["text"] for message in session.state.messages]


def end_turn(session: Session) -> None:
    """The run ends in the ordinary way: its closing drain finds nothing."""
    assert session.drain(Seam.ITERATION_END, closing=True).events == (Idled(status="completed"),)


# Accepting.


@pytest.mark.requirement("inbox:inject:mints-a-message-id")
def test_a_message_gets_an_id_that_the_session_mints() -> None:
    session = a_running_session()
    session.new_id = iter(["minted-1", "minted-2"]).__next__
    assert [session.say("one"), session.say("two", InjectMode.QUEUE)] == ["minted-1", "minted-2"]
    assert session.queued_ids == ["minted-1", "minted-2"]


@pytest.mark.requirement("inbox:inject:is-never-a-reminder")
@pytest.mark.parametrize("mode", InjectMode)
def test_a_message_is_delivered_as_what_the_user_says_and_never_as_a_reminder(mode: InjectMode) -> None:
    session = a_running_session()
    session.say("the other branch, please", mode)
    assert pending(session.state) == ()
    for seam in Seam:
        session.drain(seam)
    session.commit([Idled()])
    session.start()
    assert session.queued_ids == []
    assert session.live_ids == []
    assert not [event for event in session.journal if isinstance(event, Injected)]
    published = [publish(event, Correlation()) for event in session.journal]
    assert {record.kind for record in published if record is not None} == {
        "transcript.inject.accepted",
        "transcript.inject.delivered",
    }


@pytest.mark.requirement("inbox:inject:only-controllers")
@pytest.mark.parametrize("actor", [PEER, SERVER, Provenance(trust=Trust.CONTENT)], ids=["peer", "server", "content"])
def test_only_controllers_send_withdraw_and_exchange_messages(actor: Provenance) -> None:
    session = a_running_session()
    message_id = session.say("mine")
    with pytest.raises(NotPermitted):
        session.say("theirs", InjectMode.QUEUE, actor)
    with pytest.raises(UnknownMessage):
        session.revoke_message(message_id, actor)
    with pytest.raises(UnknownMessage):
        session.replace_message(message_id, "theirs", actor)
    assert session.queued_ids == [message_id]
    session.drain()
    assert said(session) == ["mine"]


@pytest.mark.requirement("inbox:inject:only-controllers")
def test_any_controller_may_withdraw_and_exchange_what_another_one_sent() -> None:
    session = a_running_session()
    first, second = session.say("one"), session.say("two")
    session.replace_message(first, "uno", OTHER_CLIENT)
    assert session.revoke_message(second, OTHER_CLIENT) is RevokeStatus.REVOKED
    session.drain()
    assert said(session) == ["uno"]


# Steering.


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(InjectMode.STEER, marks=pytest.mark.requirement("inbox:steer:drains-with-finish-step")),
        pytest.param(InjectMode.FINISH_STEP, marks=pytest.mark.requirement("inbox:inject:finish-step-is-steer")),
    ],
)
@pytest.mark.parametrize("seam", Seam)
def test_a_steer_is_taken_where_finish_step_is(mode: InjectMode, seam: Seam) -> None:
    session = a_running_session()
    reminder_id = session.accept(a_draft()).reminder_id
    message_id = session.say("this way", mode)
    expected = [reminder_id, message_id] if seam in STEP_SEAMS else []
    assert [item.id for item in session.drain(seam).taken] == expected


@pytest.mark.requirement("inbox:steer:never-skips")
@pytest.mark.parametrize("seam", Seam)
def test_a_steer_skips_no_batch(seam: Seam) -> None:
    session = a_running_session()
    session.say("this way")
    assert not session.drain(seam).dispatch_skipped


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(InjectMode.STEER, marks=pytest.mark.requirement("inbox:steer:needs-a-running-turn")),
        pytest.param(InjectMode.FINISH_STEP, marks=pytest.mark.requirement("inbox:inject:finish-step-is-steer")),
    ],
)
def test_a_steer_needs_a_running_turn(mode: InjectMode) -> None:
    session = Session()
    with pytest.raises(NoRunningTurn) as refused:
        session.say("this way", mode)
    assert (refused.value.reason, refused.value.value) == ("no_running_turn", mode)
    assert session.journal == []


@pytest.mark.requirement("inbox:steer:may-follow-a-prompt")
def test_a_steer_sent_right_after_a_prompt_waits_for_the_turn_of_the_prompt() -> None:
    session = Session()
    prompt = session.say("fix it", InjectMode.QUEUE)
    steer = session.say("with tabs")
    session.start()
    assert [item.id for item in session.drain(Seam.ITERATION_START).taken] == [steer]
    assert [message["id"] for message in session.state.messages] == [prompt, steer]


@pytest.mark.requirement("inbox:steer:may-follow-a-prompt")
def test_a_prompt_that_a_cancel_holds_starts_no_turn_that_a_steer_could_wait_for() -> None:
    session = a_running_session()
    session.say("and then that", InjectMode.QUEUE)
    session.commit([Cancelled()])
    with pytest.raises(NoRunningTurn):
        session.say("this way")


@pytest.mark.requirement("inbox:steer:outlives-its-turn")
def test_a_steer_whose_turn_ended_before_its_drain_waits_and_starts_nothing() -> None:
    session = a_running_session()
    message_id = session.say("this way")
    session.commit([Cancelled(hold_queue=False)])
    assert session.start() == ()
    assert session.queued_ids == [message_id]
    assert not session.state.running


@pytest.mark.requirement("inbox:steer:goes-to-the-next-turn")
def test_a_steer_left_over_is_delivered_at_the_first_break_of_the_next_turn() -> None:
    session = a_running_session()
    left_over = session.say("this way")
    session.commit([Cancelled()])
    session.say("go on", InjectMode.QUEUE)
    session.start()
    assert [item.id for item in session.drain(Seam.ITERATION_START).taken] == [left_over]
    assert said(session) == ["go on", "this way"]


@pytest.mark.requirement("inbox:inject:interrupt-skips-the-batch")
def test_an_interrupting_message_skips_the_batch() -> None:
    session = a_running_session()
    message_id = session.say("stop", InjectMode.INTERRUPT_IMMEDIATE)
    drained = session.drain(Seam.PRE_TOOL_DISPATCH)
    assert ([item.id for item in drained.taken], drained.dispatch_skipped) == ([message_id], True)


@pytest.mark.requirement("inbox:inject:audit-only")
@pytest.mark.parametrize("build", [Session, a_running_session], ids=["idle", "running"])
def test_an_audit_only_message_is_taken_at_loop_exit_and_no_model_reads_it(build: Callable[[], Session]) -> None:
    session = build()
    message_id = session.say("approved by Ann", InjectMode.AUDIT_ONLY)
    taken = {seam: [item.id for item in session.drain(seam).taken] for seam in Seam}
    assert taken == {seam: [message_id] if seam is Seam.LOOP_EXIT else [] for seam in Seam}
    assert session.start() == ()
    assert session.state.messages == []
    assert [event.audit_only for event in session.journal if isinstance(event, InjectDelivered)] == [True]


# Queueing.


@pytest.mark.requirement("inbox:queue:one-turn-each-in-order")
def test_queued_messages_start_one_turn_each_in_order_once_the_session_is_idle() -> None:
    session = a_running_session()
    queued = [session.say(text, InjectMode.QUEUE) for text in ("one", "two", "three")]
    for seam in Seam:
        assert session.drain(seam).taken == ()
    for message_id in queued:
        assert session.start() == ()
        end_turn(session)
        started, delivered = session.start()
        assert started == Started(message_id=message_id)
        assert isinstance(delivered, InjectDelivered)
        assert delivered.message_id == message_id
    end_turn(session)
    assert session.start() == ()


@pytest.mark.requirement("inbox:queue:idle-session-starts-at-once")
def test_a_message_queued_for_an_idle_session_starts_a_turn_at_once() -> None:
    session = Session()
    session.say("hello", InjectMode.QUEUE)
    session.start()
    assert session.state.running
    assert session.queued_ids == []


@pytest.mark.requirement("inbox:queue:reaches-the-model")
def test_a_queued_message_is_part_of_the_conversation_when_its_turn_runs() -> None:
    session = a_running_session()
    session.say("and then the changelog", InjectMode.QUEUE)
    session.say("faster")
    session.drain()
    assert said(session) == ["faster"]
    end_turn(session)
    session.start()
    assert said(session) == ["faster", "and then the changelog"]
    assert session.state.running


# Withdrawing and exchanging.


@pytest.mark.requirement("inbox:revoke:revoked")
@pytest.mark.parametrize("mode", InjectMode)
def test_a_message_that_waits_can_be_withdrawn(mode: InjectMode) -> None:
    session = a_running_session()
    message_id, other = session.say("no", mode), session.say("yes", mode)
    assert session.revoke_message(message_id) is RevokeStatus.REVOKED
    assert session.queued_ids == [other]


@pytest.mark.requirement("inbox:revoke:repeat-is-already-revoked")
def test_withdrawing_it_again_says_so_and_changes_nothing() -> None:
    session = a_running_session()
    message_id = session.say("no")
    session.revoke_message(message_id)
    events = len(session.journal)
    assert session.revoke_message(message_id) is RevokeStatus.ALREADY_REVOKED
    assert len(session.journal) == events


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(
            lambda session, message_id: session.revoke_message(message_id),
            id="revoke",
            marks=pytest.mark.requirement("inbox:revoke:after-the-drain-is-already-delivered"),
        ),
        pytest.param(
            lambda session, message_id: session.replace_message(message_id, "other words"),
            id="replace",
            marks=pytest.mark.requirement("inbox:replace:after-the-drain-is-already-delivered"),
        ),
    ],
)
def test_after_the_drain_it_is_too_late(attempt: Callable[[Session, str], object]) -> None:
    session = a_running_session()
    message_id = session.say("this way")
    session.drain()
    with pytest.raises(AlreadyDelivered) as refused:
        attempt(session, message_id)
    assert (refused.value.reason, refused.value.value) == ("already_delivered", message_id)
    assert said(session) == ["this way"]


@pytest.mark.requirement("inbox:revoke:unknown-message")
def test_an_id_that_nobody_minted_for_a_message_is_unknown() -> None:
    session = a_running_session()
    reminder_id = session.accept(a_draft()).reminder_id
    for unknown in ("nobody", reminder_id):
        for attempt in (session.revoke_message, lambda message_id: session.replace_message(message_id, "words")):
            with pytest.raises(UnknownMessage) as refused:
                attempt(unknown)
            assert (refused.value.reason, refused.value.value) == ("unknown_message_id", unknown)


@pytest.mark.requirement("inbox:replace:replaced")
def test_exchanging_the_content_of_a_message_that_waits() -> None:
    session = a_running_session()
    message_id = session.say("tabs")
    (event,) = session.replace_message(message_id, "spaces")
    assert event == InjectReplaced(
        message_id=message_id, content=tuple(a_text("spaces")), revision=2, provenance=CLIENT
    )
    published = publish(event, Correlation())
    assert published is not None
    assert published.kind == "transcript.inject.replaced"
    session.drain()
    assert said(session) == ["spaces"]


@pytest.mark.requirement("inbox:replace:keeps-id-mode-and-position")
@pytest.mark.parametrize("mode", InjectMode)
def test_an_exchanged_message_keeps_its_id_mode_and_place(mode: InjectMode) -> None:
    session = a_running_session()
    ids = [session.say(text, mode) for text in ("one", "two", "three")]
    session.replace_message(ids[1], "deux")
    session.replace_message(ids[1], "zwei")
    assert session.queued_ids == ids
    waits_in = [item.waits_in for item in session.state.inbox.items()]
    assert waits_in == [waits_in[0]] * 3
    (waiting,) = (item for item in session.state.inbox.waiting(waits_in[0]) if item.id == ids[1])
    assert waiting.mode is mode
    assert waiting == session.state.inbox.get(ids[1])


@pytest.mark.requirement("inbox:replace:after-a-revoke-is-an-error")
def test_a_withdrawn_message_cannot_be_exchanged() -> None:
    session = a_running_session()
    message_id = session.say("tabs")
    session.revoke_message(message_id)
    with pytest.raises(AlreadyRevoked) as refused:
        session.replace_message(message_id, "spaces")
    assert (refused.value.reason, refused.value.value) == ("already_revoked", message_id)


@pytest.mark.requirement("inbox:delivery:is-the-drain")
@pytest.mark.parametrize("deliver", [Session.drain, Session.start], ids=["drained", "started"])
def test_a_message_is_delivered_by_its_drain_and_by_nothing_after_it(deliver: Callable[[Session], object]) -> None:
    session = Session()
    session.commit([Started()] if deliver is Session.drain else [])
    mode = InjectMode.STEER if deliver is Session.drain else InjectMode.QUEUE
    early, late = session.say("early", mode), session.say("late", mode)
    session.replace_message(late, "last", CLIENT)
    assert session.revoke_message(early) is RevokeStatus.REVOKED
    deliver(session)
    # No request has left yet, and still both come too late.
    assert session.state.request is None
    for attempt in (session.revoke_message, lambda message_id: session.replace_message(message_id, "no")):
        with pytest.raises(ReminderError, match="already delivered"):
            attempt(late)
    assert said(session) == ["last"]


@pytest.mark.requirement("inbox:order:first-in-first-out-for-each-controller")
def test_steers_of_each_controller_are_delivered_in_the_order_it_sent_them() -> None:
    session = a_running_session()
    senders = [CLIENT, OTHER_CLIENT, OTHER_CLIENT, CLIENT, OTHER_CLIENT]
    sent = [(sender, session.say(f"{number}", provenance=sender)) for number, sender in enumerate(senders)]
    taken = [item.id for item in session.drain().taken]
    for controller in (CLIENT, OTHER_CLIENT):
        theirs = [message_id for sender, message_id in sent if sender is controller]
        assert [message_id for message_id in taken if message_id in theirs] == theirs


@pytest.mark.requirement("inbox:order:first-in-first-out-for-each-controller")
def test_queued_messages_of_several_controllers_are_delivered_in_one_order() -> None:
    session = Session()
    sent = [session.say("x", InjectMode.QUEUE, sender) for sender in (CLIENT, OTHER_CLIENT, CLIENT)]
    delivered = []
    while session.queued_ids:
        _, event = session.start()
        assert isinstance(event, InjectDelivered)
        delivered.append(event.message_id)
        end_turn(session)
    assert delivered == sent


# Cancelling.


@pytest.mark.requirement("inbox:cancel:leaves-the-inbox")
def test_a_cancel_takes_nothing_out_of_the_inbox() -> None:
    session = a_running_session()
    session.accept(a_draft())
    session.say("this way")
    session.say("and then that", InjectMode.QUEUE)
    before = list(session.state.inbox.items())
    session.commit([Cancelled()])
    assert list(session.state.inbox.items()) == before
    assert not session.state.running


@pytest.mark.requirement("inbox:cancel:queued-messages-are-held")
def test_after_a_cancel_queued_messages_wait_for_the_next_word_of_the_client() -> None:
    session = a_running_session()
    held = session.say("and then that", InjectMode.QUEUE)
    session.commit([Cancelled()])
    assert session.start() == ()
    # A reminder is not a message of the client.
    session.accept(a_draft())
    assert session.start() == ()
    session.say("go on", InjectMode.QUEUE)
    _, delivered = session.start()
    assert isinstance(delivered, InjectDelivered)
    assert delivered.message_id == held


@pytest.mark.requirement("inbox:cancel:deliver-is-an-option")
def test_queued_messages_may_be_delivered_right_after_a_cancel() -> None:
    session = a_running_session()
    session.say("and then that", InjectMode.QUEUE)
    session.commit([Cancelled(hold_queue=False)])
    session.start()
    assert session.state.running
    assert said(session) == ["and then that"]

"""Accepting reminders and messages: ids that callers choose, ownership, and the capacity of the inbox."""

from collections.abc import Sequence

import pytest

from sideband.core.accept import Selector, accept, accept_message
from sideband.core.apply import fold
from sideband.core.errors import (
    BodyTooLarge,
    IdempotencyConflict,
    InvalidOption,
    TooManyPending,
    UnknownMessage,
    UnknownReminder,
)
from sideband.core.events import Dropped, DropReason, Event, Started
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.messages import read_content
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS, Provenance
from tests.builders import a_draft, a_reminder, a_text
from tests.sessions import CLIENT, PEER, SERVER, Session

MINE = a_draft(caller_id="mine", dedupe_key="k", ttl_turns=9)


def test_a_repeat_needs_no_capacity() -> None:
    session = Session()
    session.accept(MINE, SERVER)
    for _ in range(3):
        session.accept(a_draft(), SERVER)
    assert session.accept(MINE, SERVER).reminder_id == "mine"


def test_a_reminder_that_replaces_one_of_its_own_sender_needs_no_capacity() -> None:
    session = Session()
    session.accept(a_draft(dedupe_key="k"), SERVER)
    for _ in range(3):
        session.accept(a_draft(), SERVER)
    assert session.accept(a_draft(dedupe_key="k"), SERVER).deduped_count == 1
    with pytest.raises(TooManyPending, match="4 items of this source"):
        session.accept(a_draft(), SERVER)


def test_a_reminder_that_replaces_one_of_another_sender_needs_capacity_of_its_own_sender() -> None:
    session = Session()
    session.accept(a_draft(dedupe_key="k"), IN_PROCESS)
    for _ in range(64):
        session.accept(a_draft(), CLIENT)
    with pytest.raises(TooManyPending, match="64 items of this source"):
        session.accept(a_draft(dedupe_key="k"), CLIENT)


def test_a_newer_version_passes_over_an_id_that_an_inherited_copy_has() -> None:
    session = Session()
    session.inject(a_reminder("mine~2"))
    session.accept(a_draft(caller_id="mine"), SERVER, versioned=True)
    newer = session.accept(a_draft(caller_id="mine", body="green"), SERVER, versioned=True)
    assert (newer.reminder_id, newer.version) == ("mine~3", 3)
    session.drain()
    assert session.live_ids == ["mine~2", "mine~3"], "the copy belongs to another sender"


def test_the_id_of_a_revoked_reminder_stays_taken() -> None:
    session = Session()
    session.accept(MINE, PEER)
    session.revoke("mine", PEER)
    assert session.accept(MINE, PEER).reminder_id == "mine"
    assert session.queued_ids == []
    with pytest.raises(IdempotencyConflict):
        session.accept(a_draft(caller_id="mine"), PEER)


@pytest.mark.parametrize("sender", [CLIENT, PEER, SERVER], ids=["controller", "peer", "server"])
def test_an_id_that_the_session_minted_is_taken_whatever_it_was_minted_for(sender: Provenance) -> None:
    session = Session()
    taken = [
        session.say("when you are done", InjectMode.QUEUE),
        session.accept(a_draft()).reminder_id,
        session.accept(a_draft(mode=Mode.AUDIT_ONLY)).reminder_id,
    ]
    session.drain(Seam.LOOP_EXIT)
    session.inject(a_reminder("made-here"))
    session.inject(a_reminder("ended-here"))
    session.clear(Selector(id="ended-here"))
    for caller_id in (*taken, "made-here", "ended-here"):
        with pytest.raises(IdempotencyConflict) as refused:
            session.accept(a_draft(caller_id=caller_id), sender)
        assert refused.value.value == caller_id


def test_a_drained_item_is_known_only_by_its_own_kind() -> None:
    session = Session()
    session.commit([Started()])
    reminder_id, message_id = session.accept(a_draft()).reminder_id, session.say("this way")
    session.drain()
    with pytest.raises(UnknownReminder):
        session.revoke(message_id)
    with pytest.raises(UnknownMessage):
        session.revoke_message(reminder_id)
    with pytest.raises(UnknownMessage):
        session.replace_message(reminder_id, "that way")


def test_a_delivered_message_is_unknown_to_a_sender_that_may_not_revoke_it() -> None:
    session = Session()
    session.commit([Started()])
    message_id = session.say("this way")
    session.drain()
    with pytest.raises(UnknownMessage):
        session.revoke_message(message_id, PEER)
    with pytest.raises(UnknownMessage):
        session.replace_message(message_id, "that way", PEER)


def test_the_refusal_of_a_large_body_names_the_limit() -> None:
    with pytest.raises(BodyTooLarge, match=r"8,193 bytes in UTF-8, at most 8,192") as refused:
        Session().accept(a_draft(body="x" * 8193))
    assert (refused.value.value, refused.value.limit) == (8193, 8192)


def test_an_item_refused_at_the_door_is_recorded_and_changes_nothing() -> None:
    session = Session()
    session.inject(a_reminder("r1"))
    session.commit([Dropped(reminder_id="r1", reason=DropReason.RATE_LIMITED, at_the_door=True)])
    assert session.live_ids == ["r1"]


def test_a_block_whose_text_is_not_a_string_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"content\[0\].text must be a string, not 5"):
        read_content([{"type": "text", "text": 5}], DEFAULT_LIMITS)


# Capacity.


SMALL = Limits(pending_per_session=2, reserved_for_interrupts=1)


def a_state(*, live: int) -> SessionState:
    session = Session()
    for number in range(live):
        session.inject(a_reminder(f"live-{number}"))
    return session.state


def test_live_reminders_count_as_reminders() -> None:
    with pytest.raises(TooManyPending, match="2 items of this session are pending, the limit is 2"):
        accept(a_state(live=2), a_draft(), IN_PROCESS, new_id="r1", limits=SMALL)


@pytest.mark.parametrize("mode", [Mode.INTERRUPT_IMMEDIATE, Mode.AUDIT_ONLY])
def test_live_reminders_keep_out_neither_interrupts_nor_audit_records(mode: Mode) -> None:
    accepted = accept(a_state(live=2), a_draft(mode=mode), IN_PROCESS, new_id="r1", limits=SMALL).value
    assert accepted.reminder_id == "r1"


def test_the_reserve_for_interrupts_is_limited_too() -> None:
    state = a_state(live=2)
    interrupt = a_draft(mode=Mode.INTERRUPT_IMMEDIATE)
    fold(accept(state, interrupt, IN_PROCESS, new_id="r1", limits=SMALL).events, state)
    with pytest.raises(TooManyPending, match="3 items of this session are pending, the limit is 3"):
        accept(state, interrupt, IN_PROCESS, new_id="r2", limits=SMALL)


def test_an_audit_record_that_replaces_another_needs_no_capacity() -> None:
    session = Session()
    for number in range(64):
        session.accept(a_draft(mode=Mode.AUDIT_ONLY, dedupe_key=f"key-{number}"))
    assert session.accept(a_draft(mode=Mode.AUDIT_ONLY, dedupe_key="key-7")).deduped_count == 1
    with pytest.raises(TooManyPending, match="64 items of this source"):
        session.accept(a_draft(mode=Mode.AUDIT_ONLY))


# The remedy depends on what fills the inbox.


def crowded(waiting: int, live: int, mode: Mode = Mode.FINISH_STEP) -> str:
    state, limits = a_state(live=live), Limits(pending_per_session=4)
    for number in range(waiting):
        fold(accept(state, a_draft(mode=mode), IN_PROCESS, new_id=f"r{number}", limits=limits).events, state)
    with pytest.raises(TooManyPending) as refused:
        accept(state, a_draft(mode=mode), IN_PROCESS, new_id="one-more", limits=limits)
    return str(refused.value)


@pytest.mark.parametrize(
    ("waiting", "live", "mode", "remedy"),
    [
        pytest.param(0, 4, Mode.FINISH_STEP, "clear some of the 4 that are live", id="all-are-live"),
        pytest.param(1, 3, Mode.FINISH_STEP, "clear some of the 3 that are live", id="most-are-live"),
        pytest.param(4, 0, Mode.FINISH_STEP, "revoke some, or wait until turns have shown them", id="all-are-queued"),
        pytest.param(4, 0, Mode.AUDIT_ONLY, "wait for the end of the run", id="audit-records"),
    ],
)
def test_a_refusal_says_how_to_free_capacity(waiting: int, live: int, mode: Mode, remedy: str) -> None:
    assert f"the limit is 4; {remedy}" in crowded(waiting, live, mode)


def test_a_source_with_too_many_queued_reminders_is_told_to_wait_or_revoke() -> None:
    session = Session()
    for _ in range(4):
        session.accept(a_draft(), SERVER)
    with pytest.raises(TooManyPending, match="the limit is 4; wait for a turn or revoke some"):
        session.accept(a_draft(), SERVER)


def test_a_user_with_too_many_messages_is_told_to_wait_or_revoke() -> None:
    state, limits = SessionState(), Limits(pending_per_session=1)
    fold(sent(state, limits), state)
    with pytest.raises(TooManyPending, match="the limit is 1; wait for a turn or revoke some"):
        sent(state, limits)


def sent(state: SessionState, limits: Limits) -> Sequence[Event]:
    return accept_message(state, tuple(a_text()), InjectMode.QUEUE, IN_PROCESS, new_id="m1", limits=limits).events

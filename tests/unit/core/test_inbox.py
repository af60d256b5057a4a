"""Ids that callers choose, who may use which, and how much room there is."""

import pytest

from sideband.core.errors import (
    BodyTooLarge,
    IdempotencyConflict,
    InvalidOption,
    TooManyPending,
    UnknownMessage,
    UnknownReminder,
    UnknownSession,
)
from sideband.core.events import Dropped, DropReason, Started
from sideband.core.inbox import accept_message, turn_away
from sideband.core.lifecycle import Selector
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.core.waiting import Inbox
from tests.builders import a_draft, a_reminder
from tests.sessions import CLIENT, PEER, SERVER, Session

MINE = a_draft(caller_id="mine", dedupe_key="k", ttl_turns=9)


def test_a_repeat_is_answered_as_the_first_time_whatever_became_of_it() -> None:
    session = Session()
    session.accept(a_draft(dedupe_key="k"), PEER)
    first = session.accept(MINE, PEER)
    assert (first.reminder_id, first.deduped_count, first.requested["ttl_turns"]) == ("mine", 1, 9)
    again = [session.accept(MINE, PEER)]
    session.drain()
    again.append(session.accept(MINE, PEER))
    session.clear(Selector(id="mine"))
    again.append(session.accept(MINE, PEER))
    assert {(answer.reminder_id, answer.deduped_count) for answer in again} == {("mine", 1)}
    assert all(answer.requested == first.requested and answer.events == () for answer in again)
    assert session.queued_ids == session.live_ids == []


def test_a_repeat_needs_no_room() -> None:
    session = Session()
    session.accept(MINE, SERVER)
    for _ in range(3):
        session.accept(a_draft(), SERVER)
    assert session.accept(MINE, SERVER).reminder_id == "mine"


def test_what_takes_the_place_of_ones_own_needs_no_room() -> None:
    session = Session()
    session.accept(a_draft(dedupe_key="k"), SERVER)
    for _ in range(3):
        session.accept(a_draft(), SERVER)
    assert session.accept(a_draft(dedupe_key="k"), SERVER).deduped_count == 1
    with pytest.raises(TooManyPending, match="4 items of this source"):
        session.accept(a_draft(), SERVER)


def test_what_takes_the_place_of_somebody_elses_needs_room_among_ones_own() -> None:
    session = Session()
    session.accept(a_draft(dedupe_key="k"), IN_PROCESS)
    for _ in range(64):
        session.accept(a_draft(), CLIENT)
    with pytest.raises(TooManyPending, match="64 items of this source"):
        session.accept(a_draft(dedupe_key="k"), CLIENT)


@pytest.mark.parametrize("sender", [CLIENT, SERVER], ids=["controller", "server"])
def test_the_same_words_of_somebody_else_are_no_repeat(sender: Provenance) -> None:
    session = Session()
    session.accept(MINE, PEER)
    with pytest.raises(IdempotencyConflict):
        session.accept(MINE, sender)
    assert session.queued_ids == ["mine"]


def test_an_id_once_revoked_is_not_free_again() -> None:
    session = Session()
    session.accept(MINE, PEER)
    session.revoke("mine", PEER)
    assert session.accept(MINE, PEER).events == ()
    with pytest.raises(IdempotencyConflict):
        session.accept(a_draft(caller_id="mine"), PEER)


@pytest.mark.parametrize("sender", [CLIENT, PEER, SERVER], ids=["controller", "peer", "server"])
def test_an_id_that_was_minted_for_something_else_is_taken(sender: Provenance) -> None:
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


def test_what_has_gone_is_known_only_as_what_it_was() -> None:
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


def test_a_message_that_has_gone_is_unknown_to_who_may_not_touch_it() -> None:
    session = Session()
    session.commit([Started()])
    message_id = session.say("this way")
    session.drain()
    with pytest.raises(UnknownMessage):
        session.revoke_message(message_id, PEER)
    with pytest.raises(UnknownMessage):
        session.replace_message(message_id, "that way", PEER)


def test_nothing_is_accepted_once_the_session_is_closed() -> None:
    session = Session()
    session.close()
    with pytest.raises(UnknownSession):
        session.accept(a_draft())
    with pytest.raises(UnknownSession):
        session.say("hello?", InjectMode.QUEUE)


def test_a_body_that_is_too_large_says_how_large_it_may_be() -> None:
    with pytest.raises(BodyTooLarge, match=r"8,193 bytes in UTF-8, at most 8,192") as refused:
        Session().accept(a_draft(body="x" * 8193))
    assert (refused.value.value, refused.value.limit) == (8193, 8192)


def test_what_is_turned_away_is_on_record_and_nowhere_else() -> None:
    session = Session()
    session.inject(a_reminder("r1"))
    session.commit(turn_away("r1", DropReason.RATE_LIMITED))
    assert session.journal[-1] == Dropped(reminder_id="r1", reason=DropReason.RATE_LIMITED, at_the_door=True)
    assert session.live_ids == ["r1"]


def test_a_block_whose_text_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidOption, match="the text of a block must be a text, not 5"):
        accept_message(Inbox(), [{"type": "text", "text": 5}], InjectMode.QUEUE, CLIENT, new_id="m", running=False)

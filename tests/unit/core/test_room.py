"""Room: which items share a bound, and what else counts towards it."""

import pytest

from sideband.core.errors import TooManyPending
from sideband.core.events import Event
from sideband.core.inbox import accept, accept_message
from sideband.core.items import InboxItem, QueuedMessage, QueuedReminder
from sideband.core.limits import Limits
from sideband.core.room import Room, room_of
from sideband.core.seams import InjectMode, Mode
from sideband.core.state import SessionState, fold
from sideband.core.trust import IN_PROCESS
from tests.builders import a_draft, a_reminder, a_text
from tests.sessions import CLIENT, SERVER, Session


def a_waiting(mode: Mode) -> QueuedReminder:
    return QueuedReminder(reminder=a_reminder("r1"), mode=mode, provenance=CLIENT)


def a_message(mode: InjectMode) -> QueuedMessage:
    return QueuedMessage(message_id="m1", content=tuple(a_text()), mode=mode, provenance=CLIENT)


@pytest.mark.parametrize(
    ("item", "room"),
    [
        pytest.param(a_waiting(Mode.FINISH_STEP), Room.REMINDERS, id="a-reminder"),
        pytest.param(a_waiting(Mode.INTERRUPT_IMMEDIATE), Room.REMINDERS, id="an-interrupt"),
        pytest.param(a_waiting(Mode.AUDIT_ONLY), Room.RECORD, id="a-reminder-for-the-record"),
        pytest.param(a_message(InjectMode.QUEUE), Room.MESSAGES, id="a-message"),
        pytest.param(a_message(InjectMode.STEER), Room.MESSAGES, id="a-steer"),
        pytest.param(a_message(InjectMode.INTERRUPT_IMMEDIATE), Room.MESSAGES, id="a-message-that-interrupts"),
        pytest.param(a_message(InjectMode.AUDIT_ONLY), Room.RECORD, id="a-message-for-the-record"),
    ],
)
def test_every_item_waits_in_one_room(item: InboxItem, room: Room) -> None:
    assert room_of(item) is room


SMALL = Limits(pending_per_session=2, reserved_for_interrupts=1)


def test_live_reminders_take_the_room_of_reminders() -> None:
    with pytest.raises(TooManyPending, match="2 items of this session are pending, the limit is 2"):
        accept(SessionState().inbox, a_draft(), IN_PROCESS, new_id="r1", live=2, limits=SMALL)


@pytest.mark.parametrize("mode", [Mode.INTERRUPT_IMMEDIATE, Mode.AUDIT_ONLY])
def test_live_reminders_leave_interrupts_their_reserve_and_the_record_its_room(mode: Mode) -> None:
    accepted = accept(SessionState().inbox, a_draft(mode=mode), IN_PROCESS, new_id="r1", live=2, limits=SMALL)
    assert accepted.reminder_id == "r1"


def test_the_reserve_ends_too() -> None:
    state = SessionState()
    interrupt = a_draft(mode=Mode.INTERRUPT_IMMEDIATE)
    fold(accept(state.inbox, interrupt, IN_PROCESS, new_id="r1", live=2, limits=SMALL).events, state)
    with pytest.raises(TooManyPending, match="3 items of this session are pending, the limit is 3"):
        accept(state.inbox, interrupt, IN_PROCESS, new_id="r2", live=2, limits=SMALL)


def test_what_takes_the_place_of_one_for_the_record_needs_no_room_there() -> None:
    session = Session()
    for number in range(64):
        session.accept(a_draft(mode=Mode.AUDIT_ONLY, dedupe_key=f"key-{number}"))
    assert session.accept(a_draft(mode=Mode.AUDIT_ONLY, dedupe_key="key-7")).deduped_count == 1
    with pytest.raises(TooManyPending, match="64 items of this source"):
        session.accept(a_draft(mode=Mode.AUDIT_ONLY))


# What to do about it depends on what fills the room.


def crowded(waiting: int, live: int, mode: Mode = Mode.FINISH_STEP) -> str:
    state, limits = SessionState(), Limits(pending_per_session=4)
    for number in range(waiting):
        fold(accept(state.inbox, a_draft(mode=mode), IN_PROCESS, new_id=f"r{number}", limits=limits).events, state)
    with pytest.raises(TooManyPending) as refused:
        accept(state.inbox, a_draft(mode=mode), IN_PROCESS, new_id="one-more", live=live, limits=limits)
    return str(refused.value)


@pytest.mark.parametrize(
    ("waiting", "live", "mode", "remedy"),
    [
        pytest.param(0, 4, Mode.FINISH_STEP, "clear some of the 4 that are live", id="all-are-live"),
        pytest.param(1, 3, Mode.FINISH_STEP, "clear some of the 3 that are live", id="most-are-live"),
        pytest.param(4, 0, Mode.FINISH_STEP, "revoke some, or wait until turns have shown them", id="all-wait"),
        pytest.param(4, 0, Mode.AUDIT_ONLY, "wait for the end of the run", id="for-the-record"),
    ],
)
def test_a_refusal_says_what_makes_room(waiting: int, live: int, mode: Mode, remedy: str) -> None:
    assert f"the limit is 4; {remedy}" in crowded(waiting, live, mode)


def test_one_source_with_too_many_waiting_has_only_to_wait() -> None:
    session = Session()
    for _ in range(4):
        session.accept(a_draft(), SERVER)
    with pytest.raises(TooManyPending, match="the limit is 4; wait for a turn or revoke some"):
        session.accept(a_draft(), SERVER)


def test_a_user_with_too_many_messages_has_only_to_wait() -> None:
    state, limits = SessionState(), Limits(pending_per_session=1)
    fold(sent(state, limits), state)
    with pytest.raises(TooManyPending, match="the limit is 1; wait for a turn or revoke some"):
        sent(state, limits)


def sent(state: SessionState, limits: Limits) -> tuple[Event, ...]:
    return accept_message(
        state.inbox, a_text(), InjectMode.QUEUE, IN_PROCESS, new_id="m1", running=False, limits=limits
    )

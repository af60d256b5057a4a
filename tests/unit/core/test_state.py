"""What a session lists as pending."""

from sideband.core.seams import InjectMode
from sideband.core.state import PendingState, pending, waiting
from tests.builders import a_draft, a_reminder
from tests.sessions import CLIENT, PEER, Session


def test_an_empty_session_lists_nothing() -> None:
    session = Session()
    assert waiting(session.state) == ()
    assert pending(session.state) == ()


def test_queued_reminders_come_before_live_ones_and_messages_are_not_listed() -> None:
    session = Session()
    session.inject(a_reminder("live-1"))
    session.inject(a_reminder("live-2"))
    session.accept(a_draft(), PEER)
    session.say("when you are done", InjectMode.QUEUE)
    session.accept(a_draft())
    rows = pending(session.state)
    assert [(row.state, row.place, row.reminder.id) for row in rows] == [
        (PendingState.QUEUED, 0, "id-1"),
        (PendingState.QUEUED, 1, "id-3"),
        (PendingState.LIVE, 0, "live-1"),
        (PendingState.LIVE, 1, "live-2"),
    ]
    assert (rows[0].provenance.principal, rows[1].provenance) == ("planner", CLIENT)


def test_a_live_reminder_is_listed_with_the_turns_it_has_left() -> None:
    session = Session()
    session.inject(a_reminder("r1", ttl_turns=3))
    session.turn()
    (row,) = pending(session.state)
    assert row.reminder == a_reminder("r1", ttl_turns=2)

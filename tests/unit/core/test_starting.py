"""Which queued message may start a turn."""

import pytest

from sideband.core.drain import start_message, start_queued, startable
from sideband.core.events import Cancelled, InjectDelivered, Started
from sideband.core.seams import InjectMode
from tests.sessions import Session


def test_a_message_that_was_withdrawn_or_comes_during_a_turn_starts_nothing() -> None:
    session = Session()
    first, second = session.say("one", InjectMode.QUEUE), session.say("two", InjectMode.QUEUE)
    session.revoke_message(first)
    assert start_message(session.state, first) == ((), False)
    assert start_queued(session.state, provided=first) == ((), False)
    events, started = start_message(session.state, second)
    assert ([type(event) for event in session.commit(events)], started) == ([Started, InjectDelivered], True)
    third = session.say("three", InjectMode.QUEUE)
    assert start_message(session.state, third) == ((), False)


@pytest.mark.parametrize("steers", [False, True])
def test_a_steer_that_is_left_over_may_start_a_turn_if_it_is_to(steers: bool) -> None:  # noqa: FBT001 - a column
    session = Session()
    session.commit([Started()])
    steer = session.say("left over", InjectMode.STEER)
    session.commit([Cancelled(hold_queue=False)])
    found = startable(session.state, steers=steers)
    assert (None if found is None else found.id) == (steer if steers else None)
    session.close()
    assert startable(session.state, even_held=True, steers=True) is None

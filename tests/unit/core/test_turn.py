"""When a planned request is recorded, planned again, or given up."""

from collections.abc import Callable

import pytest

from sideband.core.accept import Selector
from sideband.core.events import Cancelled, Closed, InjectAccepted, InjectDelivered, QueuedMessage, Started
from sideband.core.seams import InjectMode
from sideband.core.turn import NotOpened, OpenedTurn, PlannedRequest, cancel, open_request
from tests.builders import a_draft, a_reminder, a_text
from tests.sessions import CLIENT, Session

MESSAGE = QueuedMessage(message_id="m", content=tuple(a_text()), mode=InjectMode.QUEUE, provenance=CLIENT)


def a_running_session() -> Session:
    session = Session()
    session.commit([Started()])
    session.inject(a_reminder("live", tags=("t",)))
    session.accept(a_draft())
    return session


def add_a_message(session: Session) -> None:
    session.commit([InjectAccepted(item=MESSAGE), InjectDelivered(message_id="m", content=MESSAGE.content)])


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param(lambda _: None, OpenedTurn(1, 1, "reply"), id="no-change"),
        pytest.param(lambda session: session.accept(a_draft(), CLIENT), OpenedTurn(1, 1, "reply"), id="an-accept"),
        pytest.param(lambda session: session.revoke(session.queued_ids[0]), OpenedTurn(1, 1, "reply"), id="a-revoke"),
        pytest.param(lambda session: session.clear(Selector(tag="t")), NotOpened.STALE, id="a-clear"),
        pytest.param(lambda session: session.inject(a_reminder("new")), NotOpened.STALE, id="a-new-live-reminder"),
        pytest.param(lambda session: session.drain(), NotOpened.STALE, id="a-drain"),
        pytest.param(add_a_message, NotOpened.STALE, id="a-message"),
        pytest.param(lambda session: session.compact(), NotOpened.STALE, id="a-compaction"),
        pytest.param(lambda session: session.turn(), NotOpened.STALE, id="a-turn"),
        pytest.param(lambda session: session.send_request(), NotOpened.STALE, id="a-request"),
        pytest.param(lambda session: session.commit([Cancelled()]), NotOpened.ENDED, id="a-cancelled-turn"),
        pytest.param(lambda session: session.close(), NotOpened.ENDED, id="a-closed-session"),
    ],
)
def test_a_request_is_recorded_if_its_session_has_the_basis_of_the_plan(
    change: Callable[[Session], object], outcome: OpenedTurn | NotOpened
) -> None:
    session = a_running_session()
    basis = session.state.basis
    change(session)
    decided = open_request(session.state, basis, PlannedRequest(), repeats=False, reply_id="reply")
    assert decided.value == outcome
    assert bool(decided.events) is isinstance(outcome, OpenedTurn)


def test_a_closed_session_has_no_turn_to_cancel() -> None:
    session = a_running_session()
    session.close()
    assert session.journal[-1] == Closed()
    assert cancel(session.state, hold_queue=True).events == ()

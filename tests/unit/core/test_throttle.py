"""Sources that send too fast: refused with when to try again, told once, and never a burden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import RateLimited
from sideband.core.events import Dropped, DropReason
from sideband.core.limits import DEFAULT_LIMITS, Limits, Rate
from sideband.core.state import SessionState, fold
from sideband.core.throttle import MOST_SOURCES, Throttle
from sideband.core.topic import Correlation, publish
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import counting_ids
from tests.sessions import CLIENT, PEER, SERVER


def admitted(throttle: Throttle, sender: Provenance, times: int, *, now: float = 0.0) -> int:
    """How many of so many were let in."""
    count = 0
    for _ in range(times):
        try:
            throttle.admit(sender, now=now)
        except RateLimited:
            continue
        count += 1
    return count


@pytest.mark.parametrize(
    ("sender", "burst", "after_a_minute"),
    [
        pytest.param(CLIENT, 50, 50, id="a-client"),
        pytest.param(PEER, 4, 4, id="a-peer"),
        pytest.param(SERVER, 4, 4, id="a-server"),
        pytest.param(IN_PROCESS, 1_000, 1_000, id="this-process-has-no-rate"),
    ],
)
def test_each_level_has_its_burst_and_gets_it_back(sender: Provenance, burst: int, after_a_minute: int) -> None:
    throttle = Throttle()
    assert admitted(throttle, sender, 1_000) == burst
    assert admitted(throttle, sender, 1_000, now=60.0) == after_a_minute


def test_a_refusal_says_when_to_try_again_and_that_is_true() -> None:
    throttle = Throttle()
    admitted(throttle, PEER, 4)
    with pytest.raises(RateLimited, match="try again in 10001 ms") as refused:
        throttle.admit(PEER, now=0.0)
    throttle.admit(PEER, now=refused.value.retry_after_ms / 1_000)


def test_sources_do_not_use_up_what_others_may_send() -> None:
    throttle = Throttle()
    other = Provenance(trust=Trust.PEER, principal="another", via="a2a")
    namesake = Provenance(trust=Trust.SERVER, principal=PEER.principal, via="mcp")
    assert [admitted(throttle, sender, 100) for sender in (PEER, other, namesake)] == [4, 4, 4]


def test_the_same_source_is_one_however_it_is_connected() -> None:
    throttle = Throttle()
    again = Provenance(trust=Trust.PEER, principal=PEER.principal, via="http")
    assert (admitted(throttle, PEER, 3), admitted(throttle, again, 3)) == (3, 1)


def test_however_many_were_refused_it_is_one_event_for_each_source() -> None:
    throttle, new_id = Throttle(), counting_ids()
    assert throttle.told(new_id) == ()
    admitted(throttle, PEER, 104)
    admitted(throttle, SERVER, 5)
    admitted(throttle, CLIENT, 5)
    first, second = throttle.told(new_id)
    assert first == Dropped(
        reminder_id="id-1", reason=DropReason.RATE_LIMITED, at_the_door=True, count=100, provenance=PEER
    )
    assert (second.count, second.provenance) == (1, SERVER)
    assert throttle.told(new_id) == ()
    admitted(throttle, PEER, 2)
    (later,) = throttle.told(new_id)
    assert later.count == 2


def test_the_event_changes_no_session_and_tells_observers_who_and_how_many() -> None:
    throttle = Throttle()
    admitted(throttle, PEER, 7)
    (event,) = throttle.told(counting_ids())
    state = fold((event,), SessionState())
    assert (state.inbox.count(), len(state.live)) == (0, 0)
    published = publish(event, Correlation())
    assert published is not None
    assert published.payload == {
        "session_id": None,
        "task_id": None,
        "agent_id": None,
        "reminder_id": "id-1",
        "reason": "rate_limited",
        "at_the_door": True,
        "count": 3,
        "trust": "peer",
        "principal": "planner",
    }


def test_what_could_not_be_told_is_told_later_with_all_that_came_since() -> None:
    throttle = Throttle()
    admitted(throttle, PEER, 7)
    told = throttle.told(counting_ids())
    admitted(throttle, PEER, 2)
    throttle.untell(told)
    assert [event.count for event in throttle.told(counting_ids())] == [5]
    assert throttle.told(counting_ids()) == ()


def test_what_nobody_was_told_of_a_source_that_is_forgotten_is_forgotten_with_it() -> None:
    throttle = Throttle(most_sources=1)
    admitted(throttle, PEER, 7)
    told = throttle.told(counting_ids())
    admitted(throttle, Provenance(trust=Trust.PEER, principal="another", via="a2a"), 1)
    throttle.untell(told)
    assert throttle.told(counting_ids()) == ()


def test_a_rate_is_configuration() -> None:
    limits = Limits(accept_rate={Trust.OPERATOR: Rate(per_second=1, burst=2)})
    throttle = Throttle(limits)
    assert (admitted(throttle, IN_PROCESS, 10), admitted(throttle, PEER, 10)) == (2, 10)


def test_those_who_have_been_silent_for_longest_are_forgotten_first() -> None:
    throttle = Throttle(most_sources=2)
    one, two, three = (Provenance(trust=Trust.PEER, principal=name, via="a2a") for name in "abc")
    admitted(throttle, one, 4)
    admitted(throttle, two, 4)
    assert admitted(throttle, one, 1) == 0
    admitted(throttle, three, 1)
    assert (admitted(throttle, one, 1), admitted(throttle, three, 9)) == (0, 3)
    assert admitted(throttle, two, 9) == 4, "it was forgotten, and begins anew"


def test_no_number_of_sources_fills_the_memory() -> None:
    throttle = Throttle()
    for number in range(3 * MOST_SOURCES):
        admitted(throttle, Provenance(trust=Trust.PEER, principal=f"p{number}", via="a2a"), 5)
    assert len(throttle.told(counting_ids())) == MOST_SOURCES


@given(st.lists(st.tuples(st.sampled_from([CLIENT, PEER, SERVER]), st.floats(0, 30)), max_size=200))
def test_every_refusal_is_told_exactly_once(sendings: list[tuple[Provenance, float]]) -> None:
    throttle, refused, told, now = Throttle(DEFAULT_LIMITS), 0, 0, 0.0
    for place, (sender, pause) in enumerate(sendings):
        now += pause if place % 3 == 0 else 0.0
        refused += 1 - admitted(throttle, sender, 1, now=now)
        if place % 7 == 0:
            told += sum(event.count for event in throttle.told(counting_ids()))
    told += sum(event.count for event in throttle.told(counting_ids()))
    assert told == refused

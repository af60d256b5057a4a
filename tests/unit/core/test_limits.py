"""Limits: their validation, rates, and the throttle of sources that send too fast."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import accept, check_body_size
from sideband.core.apply import fold
from sideband.core.errors import InvalidOption, RateLimited
from sideband.core.events import Dropped, DropReason
from sideband.core.limits import DEFAULT_LIMITS, MOST_SOURCES, Bucket, Limits, Rate, Throttle, take
from sideband.core.state import SessionState
from sideband.core.topic import Correlation, publish
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import a_draft, counting_ids
from tests.sessions import CLIENT, PEER, SERVER

rates = st.builds(Rate, per_second=st.floats(0.01, 1000), burst=st.integers(1, 100))
pauses = st.lists(st.floats(0, 100), min_size=1, max_size=50)


@given(rates, pauses)
def test_a_source_gets_no_more_than_its_burst_and_its_rate_over_any_time(rate: Rate, waits: list[float]) -> None:
    bucket: Bucket | None = None
    now, served = 0.0, 0
    for pause in waits:
        now += pause
        for _ in range(3):
            try:
                bucket = take(bucket, rate, now=now)
            except RateLimited:
                break
            served += 1
    assert served <= rate.burst + now * rate.per_second + 1e-6 * len(waits)


@given(rates, pauses)
def test_a_source_that_waits_for_retry_after_is_served(rate: Rate, waits: list[float]) -> None:
    bucket: Bucket | None = None
    now = 0.0
    for pause in waits:
        now += pause
        for _ in range(rate.burst + 1):
            try:
                bucket = take(bucket, rate, now=now)
            except RateLimited as refused:
                now += refused.retry_after_ms / 1000
                bucket = take(bucket, rate, now=now)
                break


def test_a_clock_that_steps_back_adds_no_tokens() -> None:
    rate = Rate(per_second=1, burst=2)
    bucket = take(take(None, rate, now=10), rate, now=5)
    assert bucket == Bucket(0, 10)
    with pytest.raises(RateLimited):
        take(bucket, rate, now=10)


def test_a_long_pause_saves_no_more_than_a_burst() -> None:
    rate = Rate(per_second=1, burst=2)
    bucket = take(None, rate, now=0)
    for _ in range(2):
        bucket = take(bucket, rate, now=3600)
    with pytest.raises(RateLimited):
        take(bucket, rate, now=3600)


def test_a_refusal_spends_nothing() -> None:
    rate = Rate(per_second=1, burst=1)
    bucket = take(None, rate, now=0)
    for _ in range(5):
        with pytest.raises(RateLimited) as refused:
            take(bucket, rate, now=0.5)
        assert refused.value.retry_after_ms == 501
    assert take(bucket, rate, now=1) == Bucket(0, 1)


@pytest.mark.parametrize("level", [level for level in Trust if level is not Trust.CONTENT])
def test_there_is_a_largest_body_for_every_level_that_may_inject(level: Trust) -> None:
    assert DEFAULT_LIMITS.body_bytes[level] > 0


def test_a_level_without_an_entry_is_bounded_by_the_session_alone() -> None:
    limits = Limits(body_bytes={Trust.PEER: 1}, pending_per_source={})
    check_body_size(a_draft(body="x" * 10**5), Trust.CONTROLLER, limits)
    state = SessionState()
    for number in range(65):
        fold(accept(state, a_draft(), CLIENT, new_id=f"id-{number}", limits=limits).events, state)
    assert len(state.inbox) == 65


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        pytest.param(
            "body_bytes", 5, "be a mapping from Trust to a whole number of at least 1, not 5", id="not-a-mapping"
        ),
        pytest.param(
            "body_bytes", {"peer": 5}, "be a trust level like Trust.PEER, not 'peer'", id="a-word-for-a-level"
        ),
        pytest.param("body_bytes", {2: 5}, "be a trust level like Trust.PEER, not 2", id="a-number-for-a-level"),
        pytest.param("body_bytes", {Trust.PEER: 0}, "be a whole number of at least 1, not 0", id="zero"),
        pytest.param("pending_per_source", {Trust.PEER: -1}, "be a whole number of at least 0", id="less-than-none"),
        pytest.param("pending_per_source", {Trust.PEER: None}, "be a whole number of at least 0", id="no-number"),
        pytest.param("accept_rate", {Trust.PEER: 5}, "be a Rate, not 5", id="a-rate-without-a-burst"),
        pytest.param("accept_rate", None, "be a mapping from Trust to a Rate, not None", id="no-rates"),
        pytest.param("tags", -1, "be a whole number of at least 0, not -1", id="negative"),
        pytest.param("tag_bytes", 0, "be a whole number of at least 1, not 0", id="a-tag-size-of-zero"),
        pytest.param("meta_depth", 1.5, "be a whole number of at least 0, not 1.5", id="a-fraction"),
        pytest.param("pending_per_session", 0, "be a whole number of at least 1, not 0", id="no-capacity"),
        pytest.param("pending_per_session", True, "be a whole number of at least 1, not True", id="a-boolean"),
        pytest.param("subscriber_events", 0, "be a whole number of at least 1, not 0", id="no-queue-for-subscribers"),
        pytest.param("frame_bytes", "1", "be a whole number of at least 1, not '1'", id="a-text"),
    ],
)
def test_an_invalid_limit_is_refused_by_the_constructor(field: str, value: object, wanted: str) -> None:
    given: Any = {field: value}
    with pytest.raises(InvalidOption, match=rf"{field}\S* must {re.escape(wanted)}") as refused:
        Limits(**given)
    assert refused.value.field == field


def test_a_limit_may_be_arbitrarily_large() -> None:
    assert Limits(frame_bytes=10**400).frame_bytes == 10**400
    bucket = take(None, Rate(per_second=1, burst=10**400), now=0)
    assert take(bucket, Rate(per_second=1, burst=10**400), now=0).tokens < bucket.tokens


@pytest.mark.parametrize("field", Limits.__struct_fields__)
def test_every_limit_is_validated(field: str) -> None:
    given: Any = {field: "much"}
    with pytest.raises(InvalidOption, match=field):
        Limits(**given)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("per_second", 0, "a number above 0, not 0"),
        ("per_second", float("nan"), "a number above 0, not nan"),
        ("per_second", float("inf"), "a number above 0, not inf"),
        pytest.param("per_second", 10**400, "a number above 0, not <integer", id="beyond-every-float"),
        ("burst", 0, "a whole number of at least 1, not 0"),
        ("burst", 2.5, "a whole number of at least 1, not 2.5"),
    ],
)
def test_an_invalid_rate_is_refused(field: str, value: float, wanted: str) -> None:
    given: Any = {"per_second": 1, "burst": 1, field: value}
    with pytest.raises(InvalidOption, match=f"{field} must be {wanted}"):
        Rate(**given)


# The throttle.


def admitted(throttle: Throttle, sender: Provenance, times: int, *, now: float = 0.0) -> int:
    """Try to send `times` items; return how many were admitted."""
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


def test_all_refusals_of_a_source_are_one_event() -> None:
    throttle, new_id = Throttle(), counting_ids()
    assert throttle.take_refusals(new_id) == ()
    admitted(throttle, PEER, 104)
    admitted(throttle, SERVER, 5)
    admitted(throttle, CLIENT, 5)
    first, second = throttle.take_refusals(new_id)
    assert first == Dropped(
        reminder_id="id-1", reason=DropReason.RATE_LIMITED, at_the_door=True, count=100, provenance=PEER
    )
    assert (second.count, second.provenance) == (1, SERVER)
    assert throttle.take_refusals(new_id) == ()
    admitted(throttle, PEER, 2)
    (later,) = throttle.take_refusals(new_id)
    assert later.count == 2


def test_the_event_changes_no_state_and_names_the_sender_and_the_count() -> None:
    throttle = Throttle()
    admitted(throttle, PEER, 7)
    (event,) = throttle.take_refusals(counting_ids())
    state = fold((event,), SessionState())
    assert (len(state.inbox), len(state.live)) == (0, 0)
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


def test_restored_refusals_are_reported_later_with_the_newer_ones() -> None:
    throttle = Throttle()
    admitted(throttle, PEER, 7)
    told = throttle.take_refusals(counting_ids())
    admitted(throttle, PEER, 2)
    throttle.restore_refusals(told)
    assert [event.count for event in throttle.take_refusals(counting_ids())] == [5]
    assert throttle.take_refusals(counting_ids()) == ()


def test_the_refusals_of_a_forgotten_source_are_forgotten_too() -> None:
    throttle = Throttle(most_sources=1)
    admitted(throttle, PEER, 7)
    told = throttle.take_refusals(counting_ids())
    admitted(throttle, Provenance(trust=Trust.PEER, principal="another", via="a2a"), 1)
    throttle.restore_refusals(told)
    assert throttle.take_refusals(counting_ids()) == ()


def test_a_rate_is_configuration() -> None:
    limits = Limits(accept_rate={Trust.OPERATOR: Rate(per_second=1, burst=2)})
    throttle = Throttle(limits)
    assert (admitted(throttle, IN_PROCESS, 10), admitted(throttle, PEER, 10)) == (2, 10)


def test_the_least_recently_active_source_is_forgotten_first() -> None:
    throttle = Throttle(most_sources=2)
    one, two, three = (Provenance(trust=Trust.PEER, principal=name, via="a2a") for name in "abc")
    admitted(throttle, one, 4)
    admitted(throttle, two, 4)
    assert admitted(throttle, one, 1) == 0
    admitted(throttle, three, 1)
    assert (admitted(throttle, one, 1), admitted(throttle, three, 9)) == (0, 3)
    assert admitted(throttle, two, 9) == 4, "it was forgotten and has a full burst again"


def test_the_number_of_remembered_sources_is_bounded() -> None:
    throttle = Throttle()
    for number in range(3 * MOST_SOURCES):
        admitted(throttle, Provenance(trust=Trust.PEER, principal=f"p{number}", via="a2a"), 5)
    assert len(throttle.take_refusals(counting_ids())) == MOST_SOURCES


@given(st.lists(st.tuples(st.sampled_from([CLIENT, PEER, SERVER]), st.floats(0, 30)), max_size=200))
def test_every_refusal_is_reported_exactly_once(sendings: list[tuple[Provenance, float]]) -> None:
    throttle, refused, told, now = Throttle(DEFAULT_LIMITS), 0, 0, 0.0
    for place, (sender, pause) in enumerate(sendings):
        now += pause if place % 3 == 0 else 0.0
        refused += 1 - admitted(throttle, sender, 1, now=now)
        if place % 7 == 0:
            told += sum(event.count for event in throttle.take_refusals(counting_ids()))
    told += sum(event.count for event in throttle.take_refusals(counting_ids()))
    assert told == refused

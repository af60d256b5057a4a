"""Limits: their validation, rates, and the throttle of sources that send too fast."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import accept, check_body_size
from sideband.core.apply import fold
from sideband.core.errors import InvalidOption, RateLimited
from sideband.core.limits import DEFAULT_LIMITS, MOST_SENDERS, Bucket, Limits, Rate, Throttle, take
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import a_draft
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
    check_body_size(a_draft(body="x" * 10**5).body, Trust.CONTROLLER, limits)
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
    return sum(throttle.reserve("s", sender, now=now) is None for _ in range(times))


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
    refused = throttle.reserve("s", PEER, now=0.0)
    assert refused is not None
    assert str(refused).endswith("try again in 10001 ms")
    assert throttle.reserve("s", PEER, now=refused.retry_after_ms / 1_000) is None


def test_a_token_that_was_not_needed_is_given_back() -> None:
    throttle = Throttle()
    admitted(throttle, PEER, 4)
    throttle.give_back("s", PEER)
    throttle.give_back("another session", PEER)
    throttle.give_back("s", IN_PROCESS)
    assert admitted(throttle, PEER, 9) == 1


def test_a_source_has_a_rate_of_its_own_in_each_session() -> None:
    throttle = Throttle()
    assert admitted(throttle, PEER, 9) == 4
    assert throttle.reserve("another session", PEER, now=0.0) is None


def test_sources_do_not_use_up_what_others_may_send() -> None:
    throttle = Throttle()
    other = Provenance(trust=Trust.PEER, principal="another", via="a2a")
    namesake = Provenance(trust=Trust.SERVER, principal=PEER.principal, via="mcp")
    assert [admitted(throttle, sender, 100) for sender in (PEER, other, namesake)] == [4, 4, 4]


def test_the_same_source_is_one_however_it_is_connected() -> None:
    throttle = Throttle()
    again = Provenance(trust=Trust.PEER, principal=PEER.principal, via="http")
    assert (admitted(throttle, PEER, 3), admitted(throttle, again, 3)) == (3, 1)


def test_a_rate_is_configuration() -> None:
    limits = Limits(accept_rate={Trust.OPERATOR: Rate(per_second=1, burst=2)})
    throttle = Throttle(limits)
    assert (admitted(throttle, IN_PROCESS, 10), admitted(throttle, PEER, 10)) == (2, 10)


def test_the_least_recently_active_source_is_forgotten_first() -> None:
    throttle = Throttle(most_senders=2)
    one, two, three = (Provenance(trust=Trust.PEER, principal=name, via="a2a") for name in "abc")
    admitted(throttle, one, 4)
    admitted(throttle, two, 4)
    assert admitted(throttle, one, 1) == 0
    admitted(throttle, three, 1)
    assert (admitted(throttle, one, 1), admitted(throttle, three, 9)) == (0, 3)
    assert admitted(throttle, two, 9) == 4, "it was forgotten and has a full burst again"


def test_the_number_of_remembered_sources_is_bounded() -> None:
    throttle = Throttle()
    first, *others = (Provenance(trust=Trust.PEER, principal=f"p{number}") for number in range(MOST_SENDERS + 1))
    admitted(throttle, first, 4)
    for sender in others:
        admitted(throttle, sender, 4)
    assert admitted(throttle, others[1], 1) == 0
    assert admitted(throttle, first, 9) == 4, "it was forgotten and has a full burst again"

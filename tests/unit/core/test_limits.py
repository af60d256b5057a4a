"""Rates: what a source may send over time, whatever its clock and its pauses."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidOption, RateLimited
from sideband.core.inbox import accept, check_body_size
from sideband.core.limits import DEFAULT_LIMITS, Bucket, Limits, Rate, take
from sideband.core.state import SessionState, fold
from sideband.core.trust import Trust
from tests.builders import a_draft
from tests.sessions import CLIENT

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
def test_who_waits_as_long_as_it_was_told_is_served(rate: Rate, waits: list[float]) -> None:
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


def test_a_clock_that_steps_back_gives_nothing_away() -> None:
    rate = Rate(per_second=1, burst=2)
    bucket = take(take(None, rate, now=10), rate, now=5)
    assert bucket == Bucket(0, 10)
    with pytest.raises(RateLimited):
        take(bucket, rate, now=10)


def test_a_long_silence_saves_up_no_more_than_a_burst() -> None:
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
        fold(accept(state.inbox, a_draft(), CLIENT, new_id=f"id-{number}", limits=limits).events, state)
    assert state.inbox.count() == 65


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        pytest.param("body_bytes", 5, "give levels of Trust each a whole number of at least 1, not be 5", id="no-map"),
        pytest.param("body_bytes", {"peer": 5}, "be a level, like Trust.PEER, not 'peer'", id="a-word-for-a-level"),
        pytest.param("body_bytes", {2: 5}, "be a level, like Trust.PEER, not 2", id="a-number-for-a-level"),
        pytest.param("body_bytes", {Trust.PEER: 0}, "be a whole number of at least 1, not 0", id="no-body-at-all"),
        pytest.param("pending_per_source", {Trust.PEER: -1}, "be a whole number of at least 0", id="less-than-none"),
        pytest.param("pending_per_source", {Trust.PEER: None}, "be a whole number of at least 0", id="no-number"),
        pytest.param("accept_rate", {Trust.PEER: 5}, "be a Rate, not 5", id="a-rate-without-a-burst"),
        pytest.param("accept_rate", None, "give levels of Trust each a Rate, not be None", id="no-rates"),
        pytest.param("tags", -1, "be a whole number of at least 0, not -1", id="negative"),
        pytest.param("tag_bytes", 0, "be a whole number of at least 1, not 0", id="tags-of-no-letters"),
        pytest.param("meta_depth", 1.5, "be a whole number of at least 0, not 1.5", id="a-fraction"),
        pytest.param("pending_per_session", 0, "be a whole number of at least 1, not 0", id="room-for-nothing"),
        pytest.param("pending_per_session", True, "be a whole number of at least 1, not True", id="a-truth"),
        pytest.param("subscriber_events", 0, "be a whole number of at least 1, not 0", id="cut-off-at-once"),
        pytest.param("frame_bytes", "1", "be a whole number of at least 1, not '1'", id="a-text"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_where_it_is_written(field: str, value: object, wanted: str) -> None:
    given: Any = {field: value}
    with pytest.raises(InvalidOption, match=rf"{field}\S* must {re.escape(wanted)}") as refused:
        Limits(**given)
    assert refused.value.field == field


def test_a_limit_may_be_as_large_as_one_likes() -> None:
    assert Limits(frame_bytes=10**400).frame_bytes == 10**400
    bucket = take(None, Rate(per_second=1, burst=10**400), now=0)
    assert take(bucket, Rate(per_second=1, burst=10**400), now=0).tokens < bucket.tokens


@pytest.mark.parametrize("field", Limits.__struct_fields__)
def test_every_limit_is_looked_at(field: str) -> None:
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
def test_a_rate_that_lets_nothing_in_or_cannot_be_reckoned_with_is_refused(
    field: str, value: float, wanted: str
) -> None:
    given: Any = {"per_second": 1, "burst": 1, field: value}
    with pytest.raises(InvalidOption, match=f"{field} must be {wanted}"):
        Rate(**given)

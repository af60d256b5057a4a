"""Rates: what a source may send over time, whatever its clock and its pauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import RateLimited
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

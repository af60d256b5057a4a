"""`idle_nudge`: when it fires, and what it says."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.providers.context import ProviderContext
from sideband.providers.idle_nudge import PROVIDER
from tests.unit.providers.contexts import a_context, said, told


def a_wake(milliseconds: object, **config: object) -> ProviderContext:
    return a_context("session_idle", payload={"wake_interval_ms": milliseconds}, config=config)


@pytest.mark.parametrize(
    ("ctx", "seconds"),
    [
        pytest.param(a_wake(60_000), "60", id="after-a-minute"),
        pytest.param(a_wake(61_000.5), "60", id="after-a-minute-and-a-bit"),
        pytest.param(a_wake(120_000, idle_seconds=120), "120", id="after-the-configured-time"),
        pytest.param(a_wake(5_000, seconds=5), "5", id="under-its-other-name"),
        pytest.param(a_wake(5_000, idle_seconds=5, seconds=900), "5", id="the-first-name-goes-before-the-other"),
        pytest.param(a_wake(5_000, idle_seconds=None, seconds=5), "5", id="null-is-absent"),
        pytest.param(a_wake(1_000, idle_seconds=0), "1", id="zero-is-one-second"),
        pytest.param(a_wake(1_000, idle_seconds=-60), "1", id="less-than-zero-is-one-second"),
        pytest.param(a_wake(1_500, idle_seconds=1.5), "1.5", id="a-part-of-a-second"),
        pytest.param(a_wake(86_400_000, idle_seconds=86_400), "86,400", id="a-day"),
    ],
)
def test_it_fires_when_the_wake_interval_reaches_the_threshold(ctx: ProviderContext, seconds: str) -> None:
    assert f"at least {seconds} seconds" in said(PROVIDER, ctx).body


@pytest.mark.parametrize(
    "ctx",
    [
        pytest.param(a_wake(59_999), id="a-millisecond-early"),
        pytest.param(a_wake(999, idle_seconds=0), id="a-millisecond-below-the-floor"),
        pytest.param(a_wake(60_000, idle_seconds=61), id="a-second-early"),
        pytest.param(a_wake(None), id="no-interval"),
        pytest.param(a_wake("60000"), id="an-interval-that-is-text"),
        pytest.param(a_wake(milliseconds=True), id="an-interval-that-is-true"),
        pytest.param(a_wake(float("nan")), id="an-interval-that-is-no-number"),
        pytest.param(a_context("session_idle"), id="an-empty-event"),
    ],
)
def test_it_is_silent(ctx: ProviderContext) -> None:
    assert told(PROVIDER, ctx) is None


def test_the_body_does_not_depend_on_how_long_it_really_was() -> None:
    assert said(PROVIDER, a_wake(60_000)).body == said(PROVIDER, a_wake(61_234)).body


@pytest.mark.parametrize("value", ["60", True, [60], float("inf")])
def test_a_threshold_that_is_not_a_number_is_an_error(value: Any) -> None:  # noqa: ANN401 - any wrong type
    with pytest.raises(InvalidOption, match="idle_seconds must be a number"):
        PROVIDER.evaluate(a_wake(60_000, idle_seconds=value))

"""`token_pressure`: when it fires, and what it says."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.providers.context import ProviderContext
from sideband.providers.token_pressure import PROVIDER
from tests.unit.providers.contexts import a_context, said, told

WINDOW = {"context_window": 100_000}


def an_event(**payload: object) -> ProviderContext:
    return a_context("on_budget_threshold", payload=payload)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"context_tokens": 69_999, **WINDOW}, id="below-the-first-threshold"),
        pytest.param({"context_tokens": 99_999}, id="no-window-known"),
        pytest.param({"context_tokens": 99_999, "context_window": 0}, id="a-window-of-nothing"),
        pytest.param({"context_tokens": 99_999, "context_window": -1}, id="a-negative-window"),
        pytest.param({"context_tokens": 99_999, "context_window": True}, id="a-window-that-is-no-number"),
        pytest.param(dict(WINDOW), id="no-tokens-known"),
        pytest.param({"context_tokens": -5, **WINDOW}, id="a-negative-count"),
        pytest.param({"context_tokens": True, **WINDOW}, id="a-count-that-is-no-number"),
        pytest.param({"context_tokens": 10**400, **WINDOW}, id="a-count-beyond-all-reckoning"),
        pytest.param(
            {"tokens_used": 900_000, "total_tokens": 900_000, "input_tokens": 90_000, "output_tokens": 9_000, **WINDOW},
            id="only-running-totals",
        ),
        pytest.param({"prompt_tokens": 10_000, "tokens_used": 900_000, **WINDOW}, id="large-totals-and-a-small-prompt"),
        pytest.param({"budget": "turns", "used": 48, "limit": 50, "ratio": 0.96}, id="another-budget"),
    ],
)
def test_it_is_silent(payload: dict[str, Any]) -> None:
    assert told(PROVIDER, an_event(**payload)) is None


def test_the_body_names_the_turn_and_the_level_and_not_the_count() -> None:
    counts = (85_000, 86_123, 94_000)
    bodies = {said(PROVIDER, an_event(turn=7, context_tokens=tokens, **WINDOW)).body for tokens in counts}
    assert len(bodies) == 1
    assert bodies.pop().startswith(
        "[85%] The prompt of turn 7 took 85% or more of the context window of 100,000 tokens."
    )


def test_the_tokens_of_the_context_go_before_those_of_the_prompt() -> None:
    assert told(PROVIDER, an_event(context_tokens=10, prompt_tokens=99_000, **WINDOW)) is None
    assert told(PROVIDER, an_event(context_tokens=None, prompt_tokens=99_000, **WINDOW)) is not None


PLACES: list[dict[str, Any]] = [
    {"payload": {"prompt_tokens": 95, "context_window": 100}},
    {"config": {"context_window": 110}},
    {"options": {"reminders": {"config": {"token_pressure": {"context_window": 120}}}}},
    {"options": {"context_window": 130}},
    {"options": {"max_context_tokens": 135}},
    {"profile": {"context_window": 90}},
]


@pytest.mark.parametrize(
    "first", range(len(PLACES)), ids=["payload", "config", "reminders", "option", "alias", "profile"]
)
def test_the_window_is_taken_from_the_first_place_that_names_it(first: int) -> None:
    fields: dict[str, Any] = {"payload": {"prompt_tokens": 95}, "options": {}}
    for place in reversed(PLACES[first:]):
        for name, value in place.items():
            fields[name] = {**fields.get(name, {}), **value}
    window = next(iter(_windows(PLACES[first])))
    assert f"of {window} tokens" in said(PROVIDER, a_context("on_budget_threshold", **fields)).body


def _windows(value: object) -> list[int]:
    if isinstance(value, dict):
        return [found for name, entry in value.items() if name != "prompt_tokens" for found in _windows(entry)]
    return [value] if isinstance(value, int) else []


def test_a_profile_without_a_window_leaves_it_silent() -> None:
    ctx = a_context("on_budget_threshold", payload={"prompt_tokens": 95}, profile={"context_window": None})
    assert told(PROVIDER, ctx) is None


def test_a_configured_window_that_is_not_a_number_is_an_error() -> None:
    ctx = a_context("on_budget_threshold", payload={"prompt_tokens": 95}, config={"context_window": "large"})
    with pytest.raises(InvalidOption, match="context_window must be a number, not 'large'"):
        PROVIDER.evaluate(ctx)

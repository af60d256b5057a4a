"""What a run may use, and when it is told that it nears the end."""

import asyncio
from typing import Any

import pytest

from sideband.core.events import Usage
from sideband.loop.run import LoopStatus, Meter
from tests.loop_builders import AScene, a_reply


def a_meter(*, context_window: int | None = None, **bounds: Any) -> Meter:  # noqa: ANN401 - those of a budget
    return Meter(**{"max_turns": None, "max_tokens": None, **bounds}, context_window=context_window)


def told(meter: Meter, *prompts: int) -> list[list[tuple[str, float]]]:
    """What is told after each of these turns: which budget, and which threshold of it."""
    news = []
    for tokens in prompts:
        meter.count(Usage(prompt_tokens=tokens))
        news.append([(payload["budget"], payload["threshold"]) for payload in meter.crossed()])
    return news


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        pytest.param([69], [[]], id="below-the-first-threshold-nothing"),
        pytest.param([70], [[("context", 0.70)]], id="a-threshold-is-inclusive"),
        pytest.param([70, 75, 84], [[("context", 0.70)], [], []], id="each-is-told-once"),
        pytest.param([70, 85, 95], [[("context", 0.70)], [("context", 0.85)], [("context", 0.95)]], id="three-of-them"),
        pytest.param([99], [[("context", 0.95)]], id="only-the-highest-that-was-crossed"),
        pytest.param([96, 40, 72], [[("context", 0.95)], [], [("context", 0.70)]], id="again-after-it-fell-below"),
        pytest.param([96, 86, 96], [[("context", 0.95)], [], [("context", 0.95)]], id="again-after-it-fell-one-level"),
    ],
)
def test_a_threshold_of_the_context_is_told_when_it_is_reached(
    prompts: list[int], expected: list[list[tuple[str, float]]]
) -> None:
    assert told(a_meter(context_window=100), *prompts) == expected


def test_the_share_of_the_context_is_that_of_the_current_prompt() -> None:
    meter = a_meter(context_window=100)
    assert told(meter, *[30] * 20) == [[]] * 20
    assert meter.usage.prompt_tokens == 600


def test_without_a_window_there_is_no_share_of_it() -> None:
    assert told(a_meter(), 10_000_000) == [[]]


def test_the_budgets_of_turns_and_tokens_have_thresholds_too() -> None:
    meter = a_meter(max_turns=10, max_tokens=100)
    news = told(meter, *[10] * 10)
    assert news[6] == [("turns", 0.70), ("tokens", 0.70)]
    assert news[9] == [("turns", 0.95), ("tokens", 0.95)]


def test_only_the_context_tells_the_length_of_the_prompt() -> None:
    meter = a_meter(context_window=100, max_turns=1)
    meter.count(Usage(prompt_tokens=80, output_tokens=5))
    context, turns = meter.crossed()
    assert context == {
        "budget": "context",
        "used": 80,
        "limit": 100,
        "threshold": 0.70,
        "ratio": 0.8,
        "prompt_tokens": 80,
        "context_window": 100,
    }
    assert turns == {"budget": "turns", "used": 1, "limit": 1, "threshold": 0.95, "ratio": 1.0}


@pytest.mark.parametrize(
    ("bounds", "spent"),
    [
        pytest.param({}, None, id="no-bound"),
        pytest.param({"max_turns": 3}, None, id="turns-are-left"),
        pytest.param({"max_turns": 2}, "max_turns", id="no-turn-is-left"),
        pytest.param({"max_tokens": 26}, None, id="tokens-are-left"),
        pytest.param({"max_tokens": 25}, "max_tokens", id="no-token-is-left"),
        pytest.param({"max_turns": 0}, "max_turns", id="no-turn-at-all"),
    ],
)
def test_a_budget_is_spent_when_a_bound_is_reached(bounds: dict[str, int], spent: str | None) -> None:
    meter = a_meter(**bounds)
    meter.count(Usage(prompt_tokens=10, output_tokens=2))
    meter.count(Usage(prompt_tokens=10, cached_tokens=8, output_tokens=3))
    assert meter.spent == spent


def test_usage_adds_up() -> None:
    meter = a_meter()
    meter.count(Usage(prompt_tokens=10, cached_tokens=4, output_tokens=2))
    meter.count(Usage(prompt_tokens=20, cached_tokens=9, output_tokens=3))
    assert (meter.turns, meter.tokens, meter.usage) == (
        2,
        35,
        Usage(prompt_tokens=30, cached_tokens=13, output_tokens=5),
    )


# In a run.


@pytest.mark.parametrize(
    ("bounds", "status", "turns"),
    [
        pytest.param({"max_turns": 3}, LoopStatus.MAX_TURNS, 3, id="turns"),
        pytest.param({"max_tokens": 22}, LoopStatus.MAX_TOKENS, 2, id="tokens"),
        pytest.param({"max_turns": 0}, LoopStatus.MAX_TURNS, 0, id="not-one"),
    ],
)
def test_a_run_ends_when_its_budget_is_spent(bounds: dict[str, Any], status: LoopStatus, turns: int) -> None:
    scene = AScene()
    scene.says(*[a_reply("work", tokens=10)] * 10)
    result = asyncio.run(scene.play(**bounds))
    assert (result.status, result.turns, len(scene.model.requests)) == (status, turns, turns)
    assert not scene.state.running


def test_pressure_is_told_to_the_model_in_its_next_request() -> None:
    scene = AScene()
    scene.says(*(a_reply("work", tokens=tokens) for tokens in (69_999, 70_000, 71_000, 72_000)), context_window=100_000)
    asyncio.run(scene.play(reminders=True))
    assert scene.requests_with("[70%]") == [3, 4]


def test_a_long_history_of_small_prompts_is_no_pressure() -> None:
    scene = AScene()
    scene.says(*[a_reply("work", tokens=50_000)] * 10, context_window=100_000)
    asyncio.run(scene.play(reminders=True))
    assert scene.requests_with("%]") == []


def test_hooks_hear_of_every_budget() -> None:
    scene = AScene()
    scene.says(*[a_reply("work", tokens=10)] * 10)
    heard: list[str] = []

    async def hook(context: dict[str, Any]) -> None:
        heard.append(f"{context['budget']} {context['threshold']}")

    scene.hooks.register_session_hook("on_budget_threshold", hook)
    asyncio.run(scene.play(max_turns=4, max_tokens=1_000))
    assert heard == ["turns 0.7", "turns 0.95"]

"""What a conversation becomes in a request: calls and their results on every wire."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sideband.core.messages import ToolStatus
from sideband.render.profiles import Placement
from sideband.runtime.profiles import load_profiles
from sideband.testing.oracle import violations
from tests.rendering_sessions import RenderedSession, Route

MODELS = (
    "anthropic:claude-opus-5-5",
    "openai:gpt-6",
    "openai-chat:gpt-6",
    "google:gemini-3.8-flash",
    "openai-compatible:mistral-small",
    "openai-compatible:any",
)


def objects(value: object) -> Iterator[dict[str, Any]]:
    """Every object in a body, in order."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from objects(item)


def called(body: object) -> list[str]:
    """The ids of all calls, in order."""
    found = []
    for entry in objects(body):
        match entry:
            case {"type": "tool_use", "id": str(call_id)} | {"type": "function_call", "call_id": str(call_id)}:
                found.append(call_id)
            case {"function": dict(), "id": str(call_id)} | {"functionCall": {"id": str(call_id)}}:
                found.append(call_id)
    return found


def result_of(body: object, call_id: str) -> str:
    """What stands in the result of a call."""
    names = ("tool_use_id", "tool_call_id")
    (found,) = (
        entry
        for entry in objects(body)
        if call_id in [entry.get(name) for name in names]
        or (entry.get("type"), entry.get("call_id")) == ("function_call_output", call_id)
        or entry.get("functionResponse", {}).get("id") == call_id
    )
    return json.dumps(found)


# Calls that have the same ids in every reply, as those of many local models.


@pytest.mark.requirement("render:wire:call-ids-are-unique")
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_calls_with_the_same_id_are_told_apart_and_keep_their_results(model: str, *, native: bool) -> None:
    profile = load_profiles().of(model)
    session = RenderedSession(Route(profile, Placement.TAIL))
    session.user_says("Begin.")
    for turn in range(12):
        session.ask()
        results = [(f"Result {turn}-{number}.", ToolStatus.OK) for number in range(2)]
        session.answer("I look.", results, native=native, counts_calls=True)
    session.ask()
    bodies = [json.loads(sent.rendered.request.body) for sent in session.sent]
    for body in bodies:
        assert violations(profile, body) == []
    ids = iter(called(bodies[-1]))
    for turn in range(12):
        assert all(f"Result {turn}-{number}." in result_of(bodies[-1], next(ids)) for number in range(2))
    calls = {message["tool_call_id"] for message in session.state.messages if message["role"] == "tool"}
    assert calls == {"call_0", "call_1"}
    for before, after in zip(session.sent, session.sent[1:], strict=False):
        assert after.rendered.request.stable.startswith(before.rendered.request.stable)

"""Requests for servers whose chat templates are as strict as any: none is refused, and the model reads every word."""

import json
from collections.abc import Mapping
from itertools import count, pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import TemplateError

from sideband.core.ledger import Lifetime
from sideband.core.messages import text_of
from tests.chat_templates import TEMPLATES, prompt_of
from tests.rendering_sessions import ROUTES, STEPS, Ask, Say, Sent, Step, play

END: Final = "<|end|>\n"
# What stands between two texts in one string.
BETWEEN: Final = "\n\n"

# Nothing is known of the model that such a template belongs to, or that its server keeps what it has computed.
STRICTEST: Final = ("generic-tail", "generic-native", "generic-kv-tail")
# What only a row about the model can know.
WITHOUT_TOOLS: Final = ("generic-no-tools-tail", "generic-no-tools-native", "generic-no-tools-kv-tail")
KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "drops_tools": WITHOUT_TOOLS,
    "no_tools": WITHOUT_TOOLS,
    "two_roles": ("generic-no-tools-leading-user-tail",),
    "no_system": ("generic-leading-user-tail",),
    "short_ids": ("generic-short-ids-tail", "generic-short-ids-native"),
}

WITH_TOOLS: Final = frozenset(name for name, route in ROUTES.items() if route.profile.tool_role)


def routes_for(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(KNOWN.get(name, STRICTEST))


def prompts(name: str, sent: list[Sent]) -> list[str]:
    return [prompt_of(name, json.loads(one.rendered.request.body)["messages"]) for one in sent]


def lasting(prompt: str, sent: Sent) -> str:
    """The prompt as far as it will stay: what passes stands at its end, in the last message."""
    passing = [fragment.text for fragment in sent.rendered.fragments if fragment.scope is Lifetime.VOLATILE]
    said = prompt.removesuffix(END)
    assert said != prompt
    for text in reversed(passing):
        assert said.endswith(BETWEEN + text)
        said = said.removesuffix(BETWEEN + text)
    return said


every_template = pytest.mark.parametrize("name", TEMPLATES)


@every_template
@given(data=st.data(), steps=STEPS)
def test_the_model_reads_every_reminder(name: str, data: st.DataObject, steps: list[Step]) -> None:
    sent = play(ROUTES[data.draw(routes_for(name))], steps)
    for one, prompt in zip(sent, prompts(name, sent), strict=True):
        for fragment in (*one.fragments, *one.rendered.fragments):
            assert fragment.text in prompt


@every_template
@given(data=st.data(), steps=STEPS)
def test_the_model_reads_what_tools_have_returned_and_the_user_has_said(
    name: str, data: st.DataObject, steps: list[Step]
) -> None:
    route, number = ROUTES[data.draw(routes_for(name))], count()
    told_apart = [
        step._replace(results=tuple((f"Result {next(number)}.", status) for _, status in step.results))
        if isinstance(step, Ask)
        else step._replace(texts=(f"Message {next(number)}.",))
        if isinstance(step, Say)
        else step
        for step in steps
    ]
    sent = play(route, told_apart)
    for one, prompt in zip(sent, prompts(name, sent), strict=True):
        for message in one.view.messages:
            assert message["role"] not in ("tool", "user") or text_of(message) in prompt


@every_template
@given(data=st.data(), steps=STEPS)
def test_nothing_before_a_reminder_changes_from_one_request_to_the_next(
    name: str, data: st.DataObject, steps: list[Step]
) -> None:
    sent = play(ROUTES[data.draw(routes_for(name))], steps)
    for (one, prompt), (other, next_prompt) in pairwise(zip(sent, prompts(name, sent), strict=True)):
        if one.answered and one.view.window == other.view.window:
            assert next_prompt.startswith(lasting(prompt, one))


# The templates themselves: each is strict about what it is named after.


def said(*roles: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": f"The {role} speaks."} for role in roles]


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        pytest.param("system_first", said("user", "system"), id="system-is-not-first"),
        pytest.param("alternation", said("user", "user"), id="two-users-in-a-row"),
        pytest.param("alternation", said("user", "assistant", "assistant"), id="two-assistants-in-a-row"),
        pytest.param("alternation", said("assistant"), id="assistant-first"),
        pytest.param("alternation", said("user", "tool"), id="result-without-a-call"),
        pytest.param("no_developer", said("user", "developer"), id="developer"),
        pytest.param("no_user_after_tool", said("user", "assistant", "tool", "user"), id="user-after-tool"),
        pytest.param("strings_only", [{"role": "user", "content": [{"type": "text", "text": "x"}]}], id="parts"),
        pytest.param("no_system", said("system", "user"), id="system"),
        pytest.param("no_tools", said("user", "assistant", "tool"), id="tool"),
        pytest.param("no_tools", said("system", "user", "user"), id="two-users-in-a-row-without-tools"),
        pytest.param("two_roles", said("user", "assistant", "tool"), id="tool-with-two-roles"),
        pytest.param("two_roles", said("system", "user"), id="system-with-two-roles"),
        pytest.param("short_ids", [{"role": "assistant", "tool_calls": [{"id": "call_1"}]}], id="another-id"),
        pytest.param("short_ids", [{"role": "tool", "tool_call_id": "call_1"}], id="a-result-of-another-id"),
    ],
)
def test_a_template_refuses_what_it_is_named_after(name: str, messages: list[dict[str, Any]]) -> None:
    with pytest.raises(TemplateError):
        prompt_of(name, messages)


@pytest.mark.parametrize(
    ("name", "messages", "kept"),
    [
        pytest.param("drops_system", said("system", "user", "system"), ["system", "user"], id="a-later-system-message"),
        pytest.param("drops_tools", said("user", "assistant", "tool"), ["user", "assistant"], id="a-result"),
        pytest.param(
            "drops_user_after_tool",
            said("user", "assistant", "tool", "user"),
            ["user", "assistant", "tool"],
            id="the-user-after-a-result",
        ),
    ],
)
def test_a_template_may_drop_what_it_does_not_know(name: str, messages: list[dict[str, Any]], kept: list[str]) -> None:
    assert prompt_of(name, messages) == "".join(f"<|{role}|>The {role} speaks.<|end|>\n" for role in kept)


@pytest.mark.parametrize("name", [name for name in TEMPLATES if KNOWN.get(name, STRICTEST)[0] in WITH_TOOLS])
def test_a_template_writes_what_it_accepts(name: str) -> None:
    call = {"id": "123456789", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    result, answer = said("tool", "assistant")
    messages = [*said("user"), asked, {**result, "tool_call_id": call["id"]}, answer]
    assert prompt_of(name, messages) == (
        "<|user|>The user speaks.<|end|>\n<|assistant|>I look.<call>look {}</call><|end|>\n"
        "<|tool|>The tool speaks.<|end|>\n<|assistant|>The assistant speaks.<|end|>\n"
    )

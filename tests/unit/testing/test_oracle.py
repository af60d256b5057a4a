"""The rendering oracle reports what a provider refuses, and nothing else."""

from typing import Any, Final

import pytest

from sideband.render.profiles import LeadingRole, Profile, Wire
from sideband.testing.oracle import violations
from tests.planned_sessions import a_profile
from tests.rendering_sessions import CLEARING_BETA, PROFILES

Json = dict[str, Any]

CACHED: Final[Json] = {"cache_control": {"type": "ephemeral"}}
POINT: Final[Json] = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def text(said: str = "Hi", **more: Any) -> Json:  # noqa: ANN401 - further fields
    return {"type": "text", "text": said, **more}


def use(call_id: str = "c1") -> Json:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {}}


def result(call_id: str = "c1", *said: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [*(said or (text(),))]}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks or (text(),))}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks or (text(),))}


def clearing(**more: Any) -> Json:  # noqa: ANN401 - the same
    return {"role": "system", "clear_at": "next_user_message", "content": [text(**more)]}


ANTHROPIC: Final = [
    pytest.param([user(), assistant(use()), user(result(), text())], None, id="a-good-one"),
    pytest.param([user(), clearing()], None, id="a-clearing-entry-at-the-end"),
    pytest.param([user(), clearing(), assistant(), user()], None, id="a-clearing-entry-before-the-assistant"),
    pytest.param([], "does not begin with the user", id="nothing"),
    pytest.param([assistant(), user()], "does not begin with the user", id="the-assistant-begins"),
    pytest.param([user(), assistant()], "ends with the assistant", id="the-assistant-ends"),
    pytest.param([user(), assistant(), assistant(), user()], "two assistant messages in a row", id="assistants"),
    pytest.param([clearing(), assistant(), user()], "between nothing and assistant", id="an-entry-first"),
    pytest.param([user(), clearing(), user()], "between user and user", id="an-entry-before-the-user"),
    pytest.param([user(), clearing(), clearing()], "between system and assistant", id="two-entries"),
    pytest.param([user(), assistant(), clearing()], "between assistant and assistant", id="an-entry-after-a-reply"),
    pytest.param([user(), assistant(use()), user()], "are followed by the results []", id="a-lost-result"),
    pytest.param([user(), assistant(), user(result())], "the calls [] are followed", id="a-result-without-a-call"),
    pytest.param([user(), assistant(use()), user(text(), result())], "after other content", id="text-first"),
    pytest.param(
        [user(), assistant(use()), user(result()), assistant(use()), user(result())],
        "2 calls have the id 'c1'",
        id="the-same-id-twice",
    ),
    pytest.param([user(text(" "))], "a text is blank", id="a-blank-text"),
    pytest.param([{"role": "user", "content": []}], "without content", id="no-content"),
    pytest.param([user(*[text(**CACHED)] * 5)], "5 cache markers", id="too-many-markers"),
    pytest.param([user(), clearing(**CACHED)], "where none is allowed", id="a-marked-entry"),
    pytest.param(
        [user(), assistant(use()), user(result("c1", text(**CACHED)))], "where none is allowed", id="a-mark-in-a-result"
    ),
    pytest.param(
        [user(), assistant({"type": "thinking", "thinking": "", **CACHED}, text()), user()],
        "where none is allowed",
        id="a-marked-thought",
    ),
]


@pytest.mark.parametrize(("messages", "complaint"), ANTHROPIC)
def test_what_anthropic_refuses(messages: list[Json], complaint: str | None) -> None:
    betas = [CLEARING_BETA] if any("clear_at" in message for message in messages) else []
    check(PROFILES["anthropic-clearing"], {"messages": messages}, complaint, betas)


@pytest.mark.parametrize(("messages", "betas"), [([user(), clearing()], []), ([user()], [CLEARING_BETA])])
def test_a_beta_is_named_exactly_when_it_is_used(messages: list[Json], betas: list[str]) -> None:
    check(PROFILES["anthropic-clearing"], {"messages": messages}, "clearing entries", betas)


def called(*call_ids: str, content: object = "") -> Json:
    calls = [{"id": call_id, "type": "function", "function": {}} for call_id in call_ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def tool(call_id: str = "c1", content: object = None) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content or [text()]}


CHAT: Final = [
    pytest.param([user(), called("c1", "c2"), tool("c2"), tool("c1"), user()], None, id="a-good-one"),
    pytest.param([user(), called("c1"), user(), tool()], "the calls ['c1'] are followed", id="something-between"),
    pytest.param([user(), called("c1"), tool(), tool()], "the results ['c1', 'c1']", id="two-results"),
    pytest.param([user(), called("c1")], "the results []", id="a-lost-result"),
    pytest.param([user(), *[called("c1"), tool()] * 2], "2 calls have the id 'c1'", id="the-same-id-twice"),
    pytest.param([{"role": "user", "content": "Hi"}], "not a list of parts", id="a-string"),
    pytest.param([{"role": "user", "content": []}], "not a list of parts", id="no-parts"),
    pytest.param([user(text(""))], "a text is blank", id="a-blank-text"),
    pytest.param([user(), called(content=[text(**POINT)])], "in an assistant message", id="a-marked-reply"),
    pytest.param([user(*[text(**POINT)] * 5)], "5 cache markers", id="too-many-markers"),
]


@pytest.mark.parametrize(("messages", "complaint"), CHAT)
def test_what_openai_chat_refuses(messages: list[Json], complaint: str | None) -> None:
    check(PROFILES["chat"], {"messages": messages}, complaint)


def item(kind: str = "message", **fields: object) -> Json:
    return {"type": kind, **fields}


def said(*parts: Json, role: str = "user") -> Json:
    return item(role=role, content=list(parts or ({"type": "input_text", "text": "Hi"},)))


RESPONSES: Final = [
    pytest.param(
        [
            said(),
            item("reasoning"),
            item("function_call", call_id="c1"),
            item("reasoning"),
            item("function_call", call_id="c2"),
            item("function_call_output", call_id="c2"),
            item("function_call_output", call_id="c1"),
            item("reasoning"),
            said(role="assistant"),
            said(),
        ],
        None,
        id="a-good-one",
    ),
    pytest.param(
        [item("function_call", call_id="c1"), said(), item("function_call_output", call_id="c1")],
        "the calls ['c1'] are followed by the results []",
        id="something-between",
    ),
    pytest.param([item("function_call_output", call_id="c1")], "the calls []", id="a-result-without-a-call"),
    pytest.param([item("function_call", call_id="c1")], "the results []", id="a-lost-result"),
    pytest.param(
        [
            item("function_call", call_id="c1"),
            item("function_call_output", call_id="c1"),
            item("function_call", call_id="c2"),
        ],
        "the calls ['c2'] are followed by the results []",
        id="the-second-is-lost",
    ),
    pytest.param(
        [item("function_call", call_id="c1"), item("function_call_output", call_id="c1")] * 2,
        "2 calls have the id 'c1'",
        id="the-same-id-twice",
    ),
    pytest.param([said({"type": "input_text", "text": " "})], "a text is blank", id="a-blank-text"),
    pytest.param([said({"type": "output_text", **POINT}, role="assistant")], "in an assistant message", id="a-mark"),
    pytest.param([said(*[{"type": "input_text", "text": "x", **POINT}] * 5)], "5 cache markers", id="markers"),
]


@pytest.mark.parametrize(("items", "complaint"), RESPONSES)
def test_what_openai_responses_refuses(items: list[Json], complaint: str | None) -> None:
    body = {"input": items, "store": False, "include": ["reasoning.encrypted_content"]}
    check(PROFILES["responses"], body, complaint)


def test_no_state_is_left_at_openai() -> None:
    body = {"input": [said()], "store": True, "include": ["reasoning.encrypted_content"]}
    check(PROFILES["responses"], body, "stores state on the server")


def test_reasoning_comes_back_from_models_that_reason() -> None:
    body = {"input": [said()], "store": False}
    asking = {**body, "include": ["reasoning.encrypted_content"]}
    silent = a_profile(PROFILES["responses"], encrypted_reasoning=False)
    check(PROFILES["responses"], body, "encrypted reasoning is not requested")
    check(silent, asking, "or the reverse")
    check(PROFILES["responses"], asking, None)
    check(silent, body, None)


def turn(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": list(parts or ({"text": "Hi"},))}


CALL: Final = {"functionCall": {"id": "c1", "name": "look", "args": {}}}
RESPONSE: Final = {"functionResponse": {"id": "c1", "name": "look", "response": {"output": "x"}}}

GEMINI: Final = [
    pytest.param([turn("user"), turn("model", CALL), turn("user", RESPONSE, {"text": "x"})], None, id="a-good-one"),
    pytest.param(
        [turn("user"), turn("model", {"text": "", "thoughtSignature": "c2ln"}), turn("user")], None, id="a-blank-signed"
    ),
    pytest.param([turn("user"), turn("user")], "the turns are", id="two-users"),
    pytest.param([turn("user"), turn("model")], "the turns are", id="the-model-ends"),
    pytest.param([turn("model"), turn("user")], "the turns are", id="the-model-begins"),
    pytest.param([turn("user"), turn("model", CALL), turn("user")], "the results []", id="a-lost-result"),
    pytest.param([turn("user", RESPONSE)], "the calls []", id="a-result-without-a-call"),
    pytest.param(
        [turn("user"), *[turn("model", CALL), turn("user", RESPONSE)] * 2],
        "2 calls have the id 'c1'",
        id="the-same-id-twice",
    ),
    pytest.param([turn("user", {"text": ""})], "a text is blank", id="a-blank-text"),
    pytest.param(
        [turn("user"), turn("model", CALL), turn("user", {"text": "x"}, RESPONSE)],
        "after other parts",
        id="text-first",
    ),
]


@pytest.mark.parametrize(("contents", "complaint"), GEMINI)
def test_what_gemini_refuses(contents: list[Json], complaint: str | None) -> None:
    check(PROFILES["gemini"], {"contents": contents}, complaint)


@pytest.mark.parametrize(
    ("calls", "complaint"),
    [
        pytest.param([{**CALL, "thoughtSignature": "c2ln"}], None, id="signed"),
        pytest.param([CALL], "has no signature", id="unsigned"),
    ],
)
def test_what_gemini_refuses_from_3_on(calls: list[Json], complaint: str | None) -> None:
    contents = [turn("user"), turn("model", *calls), turn("user", RESPONSE)]
    check(PROFILES["gemini-signed"], {"contents": contents}, complaint)
    check(PROFILES["gemini"], {"contents": contents}, None)


@pytest.mark.parametrize("message", [{"role": "tool", "tool_call_id": "c1", "content": "x"}, called(content="x")])
def test_what_a_template_without_tools_drops_or_refuses(message: Json) -> None:
    messages = [{"role": "user", "content": "Hi"}, message]
    check(PROFILES["generic-no-tools"], {"messages": messages}, "that the template drops or refuses")


def test_a_profile_may_allow_fewer_markers() -> None:
    check(PROFILES["anthropic-one-marker"], {"messages": [user(text(**CACHED), text(**CACHED))]}, "2 cache markers")


def plain(*roles: str) -> list[Json]:
    return [{"role": role, "content": "Hi"} for role in roles]


GENERIC: Final = [
    pytest.param(plain("system", "user", "assistant", "user"), None, id="a-good-one"),
    pytest.param([user()], "not a string", id="parts"),
    pytest.param(plain("system", "system", "user"), "more than one system message", id="two-system-messages"),
    pytest.param(plain("user", "assistant", "system", "user"), "inside the conversation", id="system-inside"),
    pytest.param(plain("user", "assistant", "developer"), "inside the conversation", id="developer-inside"),
    pytest.param(plain("system", "assistant", "user"), "does not begin with the user", id="the-assistant-begins"),
    pytest.param(plain("user", "assistant"), "ends with the assistant", id="the-assistant-ends"),
    pytest.param(plain("user", "user"), "user after user", id="two-users"),
    pytest.param(plain("user", "assistant", "assistant", "user"), "assistant after assistant", id="assistants"),
    pytest.param(
        [*plain("user"), called("c1"), tool("c1", "x"), *plain("user")], "user after tool", id="user-after-tool"
    ),
    pytest.param([*plain("user"), called("c1"), *plain("user")], "the results []", id="a-lost-result"),
]


@pytest.mark.parametrize(("messages", "complaint"), GENERIC)
def test_what_the_strictest_template_refuses(messages: list[Json], complaint: str | None) -> None:
    check(PROFILES["generic"], {"messages": messages}, complaint)


@pytest.mark.parametrize(
    "messages",
    [
        plain("system", "system", "user", "user", "assistant", "assistant"),
        [*plain("user"), called("c1"), tool("c1", "x"), *plain("user")],
    ],
)
def test_what_a_lenient_template_takes(messages: list[Json]) -> None:
    check(PROFILES["generic-lenient"], {"messages": messages}, None)


def test_a_template_may_want_short_ids() -> None:
    talk = [*plain("user"), called("c1"), tool("c1", "x")]
    check(PROFILES["generic-short-ids"], {"messages": talk}, "does not have 9 characters")
    check(PROFILES["generic"], {"messages": talk}, None)


def test_a_template_with_a_developer_role_takes_developer_messages() -> None:
    profile = Profile(transport="local", developer_role=True, leading_role=LeadingRole.DEVELOPER)
    check(profile, {"messages": plain("developer", "user", "assistant", "developer")}, None)


def test_openai_chat_without_parts_has_the_rules_of_a_template() -> None:
    check(Profile(transport="local", wire=Wire.OPENAI_CHAT), {"messages": plain("user", "user")}, "user after user")


def check(profile: Profile, body: Json, complaint: str | None, betas: list[str] | None = None) -> None:
    found = violations(profile, body, betas or [])
    if complaint is None:
        assert found == []
    else:
        assert any(complaint in entry for entry in found), found

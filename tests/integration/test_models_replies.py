"""What is read from a stream, by the official clients, over real sockets."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sideband.core.events import Usage
from sideband.core.live import LiveIndex
from sideband.core.messages import UNREADABLE, Reply, ToolCall
from sideband.ports import ModelError, OnText
from sideband.render.view import RequestView
from tests import service_replies
from tests.loopback import Stream, a_loopback, over_sockets, sse
from tests.model_kinds import ANTHROPIC, COMPATIBLE, GOOGLE, MODEL_KINDS, OPENAI, OPENAI_CHAT, ModelKind

EVERY_MODEL_KIND = pytest.mark.parametrize("kind", MODEL_KINDS.values(), ids=MODEL_KINDS)
# These send arguments as text; Gemini sends values.
WRITERS = pytest.mark.parametrize("kind", [ANTHROPIC, OPENAI, OPENAI_CHAT], ids=lambda kind: kind.transport)

CALLS = (ToolCall(id="c1", name="read", args={"path": "ä.py", "lines": [1, 2]}), ToolCall(id="c2", name="run", args={}))
VIEW = RequestView(turn=1, system="", messages=[{"role": "user", "content": "Go."}], tools=[], live=LiveIndex())


async def ask(kind: ModelKind, answer: Stream, on_text: OnText | None = None) -> Reply:
    async with a_loopback(answer) as service:
        model = kind.model(service)
        return await model.complete(model.plan(VIEW), on_text)


@EVERY_MODEL_KIND
@over_sockets
async def test_text_is_heard_piece_by_piece_and_whole_in_the_reply(kind: ModelKind) -> None:
    heard: list[str] = []
    reply = await ask(kind, kind.says("Grüße, 世界! 😀 Bye."), heard.append)
    assert heard == service_replies.pieces("Grüße, 世界! 😀 Bye.")
    assert (reply.text, reply.tool_calls) == ("Grüße, 世界! 😀 Bye.", ())


@EVERY_MODEL_KIND
@over_sockets
async def test_calls_come_in_their_order_with_their_arguments(kind: ModelKind) -> None:
    reply = await ask(kind, kind.says("I'll look.", CALLS))
    assert (reply.text, reply.tool_calls) == ("I'll look.", CALLS)


@EVERY_MODEL_KIND
@over_sockets
async def test_the_whole_prompt_is_counted_with_what_of_it_was_cached(kind: ModelKind) -> None:
    reply = await ask(kind, kind.says("Done."))
    written = 0 if kind is GOOGLE else 30
    assert reply.usage == Usage(prompt_tokens=100, cached_tokens=60, written_tokens=written, output_tokens=7)


@EVERY_MODEL_KIND
@over_sockets
async def test_an_empty_answer_is_an_answer(kind: ModelKind) -> None:
    reply = await ask(kind, kind.says())
    assert (reply.text, reply.tool_calls, reply.native) == ("", (), None)


@WRITERS
@pytest.mark.parametrize("written", ['{"path": "a', "[1]", "please read a"], ids=["cut", "a-list", "prose"])
@over_sockets
async def test_arguments_that_are_no_json_object_reach_the_tool_as_what_they_are(kind: ModelKind, written: str) -> None:
    reply = await ask(kind, kind.says("", [service_replies.unreadable("c1", "read", written)]))
    assert reply.tool_calls == (ToolCall(id="c1", name="read", args={UNREADABLE: written}),)


@pytest.mark.parametrize("kind", [ANTHROPIC, OPENAI_CHAT, GOOGLE], ids=lambda kind: kind.transport)
@over_sockets
async def test_where_text_and_calls_are_all_there_is_nothing_else_is_kept(kind: ModelKind) -> None:
    assert (await ask(kind, kind.says("I'll look.", CALLS))).native is None


# What has to be sent back as it came.


def native(reply: Reply, wire: str) -> list[dict[str, Any]]:
    assert reply.native is not None
    assert list(reply.native) == [wire]
    parts: list[dict[str, Any]] = reply.native[wire]
    return parts


@over_sockets
async def test_thinking_of_claude_is_kept_with_its_signature_and_in_its_place() -> None:
    reply = await ask(ANTHROPIC, ANTHROPIC.says("I'll look.", CALLS[:1], thinking="Where is it?"))
    assert native(reply, "anthropic") == [
        {"type": "thinking", "thinking": "Where is it?", "signature": service_replies.SIGNATURE},
        {"type": "text", "text": "I'll look."},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "ä.py", "lines": [1, 2]}},
    ]


@over_sockets
async def test_blocks_of_an_unknown_kind_are_kept_too() -> None:
    events = service_replies.anthropic_events("I'll look.")
    strange = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    events[2:2] = [
        {"type": "content_block_start", "index": 7, "content_block": {"type": "redacted_thinking", "data": "xyz"}},
        {"type": "content_block_start", "index": 8, "content_block": strange},
        {"type": "content_block_delta", "index": 8, "delta": {"type": "input_json_delta", "partial_json": '{"q":"a"}'}},
        {"type": "content_block_delta", "index": 8, "delta": {"type": "unheard_of_delta", "what": 1}},
    ]
    reply = await ask(ANTHROPIC, service_replies.anthropic_stream(*events))
    assert native(reply, "anthropic") == [
        {"type": "text", "text": "I'll look."},
        {"type": "redacted_thinking", "data": "xyz"},
        strange | {"input": {"q": "a"}},
    ]


@over_sockets
async def test_citations_of_a_text_are_kept_with_it() -> None:
    events = service_replies.anthropic_events("Look.")
    cited = [{"type": "char_location", "cited_text": text} for text in ("a", "b")]
    at = next(place for place, event in enumerate(events) if event["type"] == "content_block_stop")
    events[at:at] = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}}
        for citation in cited
    ]
    reply = await ask(ANTHROPIC, service_replies.anthropic_stream(*events))
    assert native(reply, "anthropic") == [{"type": "text", "text": "Look.", "citations": cited}]


@over_sockets
async def test_what_claude_would_not_take_back_is_left_out() -> None:
    events = service_replies.anthropic_events("", thinking="Hm.")
    events[-2:-2] = [{"type": "content_block_start", "index": 5, "content_block": {"type": "text", "text": ""}}]
    reply = await ask(ANTHROPIC, service_replies.anthropic_stream(*events))
    assert (reply.text, reply.native) == ("", None)


@over_sockets
async def test_arguments_claude_could_not_write_are_sent_back_as_an_object() -> None:
    said = ANTHROPIC.says("", [service_replies.unreadable("c1", "read", "{oops")], thinking="Hm.")
    assert native(await ask(ANTHROPIC, said), "anthropic")[1]["input"] == {UNREADABLE: "{oops"}


@over_sockets
async def test_items_of_responses_are_kept_with_their_reasoning_and_phase() -> None:
    reply = await ask(OPENAI, OPENAI.says("I'll look.", CALLS[:1], reasoning="c2VjcmV0"))
    reasoning, message, call = native(reply, "openai_responses")
    assert reasoning == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"}
    assert (message["type"], message["phase"], message["content"][0]["text"]) == ("message", "commentary", "I'll look.")
    assert (call["type"], call["call_id"], call["arguments"]) == (
        "function_call",
        "c1",
        '{"path":"ä.py","lines":[1,2]}',
    )


@over_sockets
async def test_items_are_kept_also_where_the_last_event_does_not_repeat_them() -> None:
    events = service_replies.responses_events("Done.")
    events[-1]["response"] = events[-1]["response"] | {"output": []}
    reply = await ask(OPENAI, service_replies.responses_stream(*events))
    assert [item["type"] for item in native(reply, "openai_responses")] == ["message"]


@over_sockets
async def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    reply = await ask(OPENAI, OPENAI.says("", reasoning="c2VjcmV0"))
    assert (reply.text, reply.native) == ("", None)


@over_sockets
async def test_parts_of_gemini_are_kept_with_their_signatures() -> None:
    reply = await ask(GOOGLE, GOOGLE.says("I'll look.", CALLS, thinking="Where is it?"))
    assert native(reply, "gemini") == [
        {"text": "Where is it?", "thought": True},
        {"text": "I'll look."},
        {
            "functionCall": {"id": "c1", "name": "read", "args": {"path": "ä.py", "lines": [1, 2]}},
            "thoughtSignature": service_replies.SIGNATURE,
        },
        {"functionCall": {"id": "c2", "name": "run", "args": {}}},
    ]


@over_sockets
async def test_a_signed_part_is_not_merged_with_what_stands_before_it() -> None:
    parts = native(await ask(GOOGLE, GOOGLE.says("Done.", thinking="Hm.")), "gemini")
    assert parts[1:] == [{"text": "Done."}, {"text": "", "thoughtSignature": service_replies.SIGNATURE}]


# Services that only resemble the wire.


@over_sockets
async def test_a_call_without_an_id_gets_one_that_its_result_can_name() -> None:
    events = service_replies.gemini_events("", CALLS)
    for event in events:
        for part in event["candidates"][0]["content"]["parts"]:
            part["functionCall"].pop("id")
            part["functionCall"].pop("args") if not part["functionCall"]["args"] else None
    reply = await ask(GOOGLE, service_replies.gemini_stream(*events))
    assert [(call.id, call.name, call.args) for call in reply.tool_calls] == [
        ("resp-1-1", "read", {"path": "ä.py", "lines": [1, 2]}),
        ("resp-1-2", "run", {}),
    ]


def a_chunk(delta: Mapping[str, Any] | None, finish_reason: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}]}


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param(
            [
                {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}}]},
                {"tool_calls": [{"index": 0, "id": "b", "function": {"name": "run", "arguments": "{}"}}]},
            ],
            [("a", "read"), ("b", "run")],
            id="every-call-is-number-0",
        ),
        pytest.param(
            [{"tool_calls": [{"function": {"name": "read", "arguments": {"path": "a"}}}]}],
            [("call-1", "read")],
            id="neither-number-nor-id-and-arguments-that-are-an-object",
        ),
        pytest.param(
            [
                {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "re", "arguments": None}}]},
                {"tool_calls": [{"index": 0, "id": None, "function": {"name": "ad", "arguments": ""}}]},
                {"tool_calls": [{"index": 0}]},
            ],
            [("a", "read")],
            id="a-name-in-pieces-and-nulls",
        ),
        pytest.param(
            [
                {"tool_calls": [{"index": "0", "id": "a", "function": {"name": "read", "arguments": "{"}}]},
                {"tool_calls": [{"index": "1", "id": "b", "function": {"name": "run", "arguments": "{}"}}]},
                {"tool_calls": [{"index": "0", "function": {"arguments": "}"}}]},
            ],
            [("a", "read"), ("b", "run")],
            id="numbers-as-text",
        ),
    ],
)
@over_sockets
async def test_calls_are_told_apart_however_a_server_numbers_them(
    chunks: Sequence[Mapping[str, Any]], calls: Sequence[tuple[str, str]]
) -> None:
    answer = Stream(events=sse(*(a_chunk(chunk) for chunk in chunks), a_chunk(None, "tool_calls"), done=True))
    reply = await ask(COMPATIBLE, answer)
    assert [(call.id, call.name) for call in reply.tool_calls] == calls


@over_sockets
async def test_a_server_may_leave_out_what_it_does_not_count_and_say_null() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": None, "prompt_tokens_details": None}
    last = {"choices": None, "usage": usage}
    answer = Stream(
        events=sse(
            a_chunk({"content": "A"}), a_chunk({"content": "ignored"}, index=1), a_chunk({}, "stop"), last, done=True
        )
    )
    reply = await ask(COMPATIBLE, answer)
    assert (reply.text, reply.usage) == ("A", Usage(prompt_tokens=5))


@over_sockets
async def test_text_in_parts_is_text_and_what_was_thought_beside_it_is_not() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    parts = [thought, {"type": "text", "text": "Hello"}, {"type": "text", "text": None}]
    choices = [{"index": None, "delta": {"content": parts}}, {"index": 1, "delta": {"content": "ignored"}}]
    answer = Stream(events=sse({"choices": choices}, a_chunk({"content": " there."}, "stop"), done=True))
    assert (await ask(COMPATIBLE, answer)).text == "Hello there."


@over_sockets
async def test_a_refusal_stands_where_the_text_would() -> None:
    answer = Stream(events=sse(a_chunk({"refusal": "I can't."}), a_chunk({}, "stop"), done=True))
    assert (await ask(OPENAI_CHAT, answer)).text == "I can't."


@over_sockets
async def test_half_a_character_does_not_break_what_is_kept() -> None:
    torn = b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n'
    rest = b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00\\ud800!"},"finish_reason":"stop"}]}\n\n'
    heard: list[str] = []
    reply = await ask(COMPATIBLE, Stream(events=(torn, rest, b"data: [DONE]\n\n")), heard.append)
    assert (reply.text, heard) == ("😀�!", ["😀�!"])


# Replies that end without an answer.


@pytest.mark.parametrize(
    ("kind", "answer", "why"),
    [
        pytest.param(
            ANTHROPIC,
            ANTHROPIC.says("I mu", stop_reason="refusal"),
            "the model refused to continue",
            id="claude-refuses",
        ),
        pytest.param(
            ANTHROPIC,
            ANTHROPIC.says("", thinking="Hm.", stop_reason="max_tokens"),
            "max_tokens",
            id="claude-thinks-too-long",
        ),
        pytest.param(
            OPENAI_CHAT, OPENAI_CHAT.says("", finish_reason="content_filter"), "content_filter", id="chat-filters"
        ),
        pytest.param(
            OPENAI,
            OPENAI.says("", reasoning="x", incomplete="max_output_tokens"),
            "max_output_tokens",
            id="responses-thinks",
        ),
        pytest.param(
            GOOGLE,
            GOOGLE.says("", thinking="Hm.", finish_reason="MALFORMED_FUNCTION_CALL"),
            "MALFORMED",
            id="gemini-stumbles",
        ),
        pytest.param(
            GOOGLE,
            service_replies.gemini_stream({"promptFeedback": {"blockReason": "SAFETY"}}),
            r"the prompt was blocked \(SAFETY\)",
            id="gemini-blocks",
        ),
    ],
)
@over_sockets
async def test_a_reply_without_an_answer_fails_for_good_and_says_why(kind: ModelKind, answer: Stream, why: str) -> None:
    with pytest.raises(ModelError, match=why) as failed:
        await ask(kind, answer)
    assert not failed.value.retryable


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        pytest.param(ANTHROPIC, {"stop_reason": "max_tokens"}, id="claude"),
        pytest.param(OPENAI_CHAT, {"finish_reason": "length"}, id="chat"),
        pytest.param(OPENAI, {"incomplete": "max_output_tokens"}, id="responses"),
        pytest.param(GOOGLE, {"finish_reason": "MAX_TOKENS"}, id="gemini"),
    ],
)
@over_sockets
async def test_what_was_said_before_the_token_limit_is_an_answer(kind: ModelKind, about: dict[str, str]) -> None:
    assert (await ask(kind, kind.says("As far as", (), **about))).text == "As far as"


@EVERY_MODEL_KIND
@over_sockets
async def test_a_model_that_was_closed_opens_a_new_connection(kind: ModelKind) -> None:
    async with a_loopback(kind.says("One."), kind.says("Two.")) as service:
        model = kind.model(service)
        said = [(await model.complete(model.plan(VIEW))).text]
        await model.aclose()
        said.append((await model.complete(model.plan(VIEW))).text)
    assert said == ["One.", "Two."]

"""The cache oracle, checked on requests small enough to compute by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sideband.render.profiles import Wire
from tests.cache_oracle import (
    AnthropicCache,
    KvCache,
    OpenAiBreakpointCache,
    OpenAiPrefixCache,
    Reading,
    Usage,
    blocks,
    total,
)

MARK = {"cache_control": {"type": "ephemeral"}}
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def text(tokens: int, letter: str = "x", *, marker: Mapping[str, object] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": letter * 4 * tokens, **(marker or {})}


def anthropic(*messages: tuple[str, list[dict[str, Any]]], **fields: object) -> dict[str, Any]:
    system = [text(100, "s", marker=MARK)]
    return {"system": system, "messages": [{"role": role, "content": content} for role, content in messages], **fields}


def chat(*messages: tuple[str, Any], explicit: bool = True) -> dict[str, Any]:
    options = {"prompt_cache_options": {"mode": "explicit"}} if explicit else {}
    return {**options, "messages": [{"role": role, "content": content} for role, content in messages]}


# Reading bodies.


def test_calls_and_results_are_blocks_of_their_own() -> None:
    use = {"type": "tool_use", "id": "1", "name": "look", "input": {"n": 1}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [text(2), text(3)], **MARK}
    body = anthropic(("user", [text(5)]), ("assistant", [text(1), use, use]), ("user", [result, result]))
    found = blocks(Wire.ANTHROPIC, body)
    assert [block.role for block in found] == ["system", *["user"], *["assistant"] * 3, *["user"] * 2]
    assert [block.tokens for block in found] == [100, 5, 1, len('look{"n":1}') / 4, len('look{"n":1}') / 4, 5, 5]
    assert [block.marked for block in found] == [True, *[False] * 4, True, True]
    assert [block.ends for block in found] == [True, True, False, False, True, False, True]


def test_every_wire_gives_the_same_blocks() -> None:
    call = {"id": "1", "name": "look", "arguments": "{}"}
    chatted = chat(("developer", [text(1)]), ("user", [text(2)]), explicit=False)
    chatted["messages"] += [
        {"role": "assistant", "content": "ok", "tool_calls": [{"id": "1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "1", "content": [text(3)]},
    ]
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x" * 4}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x" * 8}]},
        {"type": "message", "role": "assistant", "content": "ok"},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "x" * 12}]},
    ]
    said = [(block.role, block.text) for block in blocks(Wire.OPENAI_CHAT, chatted)]
    assert said == [(block.role, block.text) for block in blocks(Wire.OPENAI_RESPONSES, {"input": items})]
    assert said[2:4] == [("assistant", b"ok"), ("assistant", b"look{}")]


def test_a_gemini_request_is_its_system_text_and_its_parts() -> None:
    call = {"functionCall": {"id": "1", "name": "look", "args": {}}}
    contents = [{"role": "user", "parts": [{"text": "go"}]}, {"role": "model", "parts": [call]}]
    found = blocks(Wire.GEMINI, {"systemInstruction": {"parts": [{"text": "be"}]}, "contents": contents})
    assert [(block.role, block.text) for block in found] == [("system", b"be"), ("user", b"go"), ("model", b"look{}")]


def test_an_entry_that_clears_itself_is_there_until_the_user_speaks() -> None:
    entry = {"role": "system", "clear_at": "next_user_message", "content": [text(7)]}
    said = anthropic(("user", [text(1)]))
    said["messages"].append(entry)
    assert blocks(Wire.ANTHROPIC, said)[-1].tokens == 7
    said["messages"] += anthropic(("assistant", [text(2)]), ("user", [text(3)]))["messages"]
    assert [block.tokens for block in blocks(Wire.ANTHROPIC, said)] == [100, 1, 2, 3]


# Anthropic.


def growing(blocks_between: int, *, previous: bool) -> list[dict[str, Any]]:
    """Two requests: the second adds so many blocks, and marks where the first ended or does not."""
    first = text(10, marker=MARK)
    more = [text(1, chr(ord("A") + number)) for number in range(blocks_between)]
    again = first if previous else text(10)
    return [
        anthropic(("user", [first])),
        anthropic(("user", [again]), ("assistant", more[:-1]), ("user", [{**more[-1], **MARK}])),
    ]


@pytest.mark.parametrize(
    ("added", "previous", "read"),
    [
        pytest.param(19, False, 110, id="twenty-blocks-back"),
        pytest.param(20, False, 100, id="one-too-far"),
        pytest.param(20, True, 110, id="marked-again"),
        pytest.param(60, True, 110, id="marked-again-however-far"),
    ],
)
def test_an_entry_is_found_twenty_blocks_back(added: int, read: int, *, previous: bool) -> None:
    cache = AnthropicCache(Wire.ANTHROPIC)
    first, second = (cache.ask(body) for body in growing(added, previous=previous))
    assert first == Usage(read=0, written=110, plain=0)
    assert second == Usage(read=read, written=110 + added - read, plain=0)


def test_blocks_after_the_last_breakpoint_are_neither_read_nor_written() -> None:
    cache = AnthropicCache(Wire.ANTHROPIC)
    used = [cache.ask(anthropic(("user", [text(10, marker=MARK), text(7, letter)]))) for letter in "ab"]
    assert used == [Usage(0, 110, 7), Usage(110, 0, 7)]
    assert total(used) == Usage(110, 110, 14)
    assert total(used).cost == 0.1 * 110 + 1.25 * 110 + 14
    assert total(used).tokens == 234


def test_automatic_caching_is_a_breakpoint_at_the_end() -> None:
    cache = AnthropicCache(Wire.ANTHROPIC)
    assert cache.ask(anthropic(("user", [text(10), text(7)]), **MARK)) == Usage(0, 117, 0)
    assert cache.ask(anthropic(("user", [text(10)]), **MARK)) == Usage(100, 10, 0)


def test_a_fifth_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 4 breakpoints, not 5"):
        AnthropicCache(Wire.ANTHROPIC).ask(anthropic(("user", [text(1, marker=MARK)] * 4)))


# OpenAI.


def asked(reading: Reading, *bodies: Mapping[str, Any]) -> list[Usage]:
    cache = OpenAiBreakpointCache(Wire.OPENAI_CHAT, reading)
    return [cache.ask(body) for body in bodies]


@pytest.mark.parametrize(("reading", "read"), [(Reading.MARKED, 0), (Reading.WRITTEN, 10), (Reading.LENIENT, 10)])
def test_the_readings_differ_where_an_entry_is_not_marked_again(reading: Reading, read: int) -> None:
    first = chat(("user", [text(10, marker=BREAKPOINT)]))
    second = chat(("user", [text(10)]), ("assistant", "x" * 8), ("user", [text(5, marker=BREAKPOINT)]))
    assert asked(reading, first, second) == [Usage(0, 10, 0), Usage(read, 17 - read, 0)]


@pytest.mark.parametrize(("reading", "read"), [(Reading.MARKED, 10), (Reading.WRITTEN, 10), (Reading.LENIENT, 15)])
def test_the_lenient_reading_finds_every_message(reading: Reading, read: int) -> None:
    begun = ("user", [text(10, marker=BREAKPOINT)]), ("assistant", "")
    first = chat(*begun, ("user", [text(5)]), ("user", [text(6, "a", marker=BREAKPOINT)]))
    second = chat(*begun, ("user", [text(5)]), ("user", [text(6, "b", marker=BREAKPOINT)]))
    assert asked(reading, first, second) == [Usage(0, 21, 0), Usage(read, 21 - read, 0)]


@pytest.mark.parametrize("reading", Reading)
def test_without_breakpoints_of_ours_the_newest_user_or_tool_message_has_one(reading: Reading) -> None:
    body = chat(("user", [text(10)]), ("developer", [text(7)]), explicit=False)
    assert asked(reading, body, body) == [Usage(0, 10, 7), Usage(10, 0, 7)]


@pytest.mark.parametrize(
    ("common", "read"), [(1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152), (2_000, 1_920)]
)
def test_a_common_beginning_is_read_in_steps(common: int, read: int) -> None:
    cache = OpenAiPrefixCache(Wire.OPENAI_CHAT)
    bodies = [chat(("user", [{"type": "text", "text": "x" * 4 * common + tail * 400}])) for tail in ("a", "b")]
    assert [cache.ask(body) for body in bodies] == [
        Usage(plain=common + 100),
        Usage(read=read, plain=common + 100 - read),
    ]


def test_a_common_beginning_may_be_that_of_any_earlier_request() -> None:
    cache = OpenAiPrefixCache(Wire.OPENAI_CHAT)
    one, other = (chat(("user", [text(1_280, letter)]), ("user", [text(100)])) for letter in "ab")
    assert [cache.ask(body).read for body in (one, other, one)] == [0, 0, 1_280]


# A local server.


def computed(bodies: Sequence[Mapping[str, Any]], *, rollback: bool = True) -> list[float]:
    cache = KvCache(Wire.GENERIC, rollback=rollback)
    return [cache.ask(body).plain for body in bodies]


def of_text(role: str, tokens: int) -> float:
    """With the two bytes and the name around each message."""
    return tokens + (len(role) + 2) / 4


def test_a_local_server_has_computed_its_own_reply() -> None:
    user, reply, more = ("user", "u" * 400), ("assistant", "r" * 80), ("user", "m" * 40)
    bodies = [chat(user), chat(user, reply, more)]
    assert computed(bodies) == computed(bodies, rollback=False) == [of_text("user", 100), of_text("user", 10)]


def test_removing_text_makes_a_server_compute_the_reply_again() -> None:
    user, reply, more = ("user", "u" * 400), ("assistant", "r" * 80), ("user", "m" * 40)
    bodies = [chat(("user", "u" * 400 + "v" * 40)), chat(user, reply, more)]
    rest = of_text("assistant", 20) + of_text("user", 10)
    assert computed(bodies) == [of_text("user", 110), rest]
    assert computed(bodies, rollback=False) == [of_text("user", 110), of_text("user", 100) + rest]

"""Replies in the event format of each model service."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sideband.core.messages import ToolCall
from tests.loopback import Stream, sse

SIGNATURE: Final = base64.urlsafe_b64encode(b"signed by the service").decode()

Event = dict[str, Any]


def pieces(text: str) -> list[str]:
    """A text in the pieces in which it is streamed."""
    return [text[start : start + 4] for start in range(0, len(text), 4)]


# Anthropic Messages.


def anthropic_events(
    text: str = "", calls: Sequence[ToolCall] = (), *, thinking: str = "", stop_reason: str = ""
) -> list[Event]:
    blocks: list[tuple[Event, list[Event]]] = []
    if thinking:
        deltas: list[Event] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(thinking)]
        start: Event = {"type": "thinking", "thinking": "", "signature": ""}
        blocks.append((start, [*deltas, {"type": "signature_delta", "signature": SIGNATURE}]))
    if text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(text)]))
    for call in calls:
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        written = pieces(_arguments(call))
        blocks.append((start, [{"type": "input_json_delta", "partial_json": piece} for piece in written]))
    return [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {
                    "input_tokens": 10,
                    "cache_creation_input_tokens": 30,
                    "cache_read_input_tokens": 60,
                    "output_tokens": 1,
                },
            },
        },
        {"type": "ping"},
        *(event for index, (start, deltas) in enumerate(blocks) for event in _block(index, start, deltas)),
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason or ("tool_use" if calls else "end_turn"), "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]


def _block(index: int, start: Event, deltas: Sequence[Event]) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


# OpenAI Chat Completions.


def chat_events(text: str = "", calls: Sequence[ToolCall] = (), *, finish_reason: str = "") -> list[Event]:
    deltas: list[Event] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces(text))]
    for index, call in enumerate(calls):
        function = {"name": call.name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        deltas += (
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces(_arguments(call))
        )
    reason = finish_reason or ("tool_calls" if calls else "stop")
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    }
    return [
        *(_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas),
        _chunk([{"index": 0, "delta": {}, "finish_reason": reason}]),
        _chunk([], usage=usage),
    ]


def _chunk(choices: list[Event], *, usage: Event | None = None) -> Event:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt",
        "choices": choices,
        "usage": usage,
    }


# OpenAI Responses.


def responses_events(
    text: str = "", calls: Sequence[ToolCall] = (), *, reasoning: str = "", incomplete: str = ""
) -> list[Event]:
    items: list[Event] = []
    if reasoning:
        items.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": reasoning})
    if text:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        items.append(message | {"phase": "commentary" if calls else "final_answer"})
    for call in calls:
        place = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
        items.append(place | {"arguments": _arguments(call), "status": "completed"})
    response: Event = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 107,
        },
    }
    events: list[Event] = [
        {"type": "response.created", "response": response | {"output": [], "usage": None, "status": "in_progress"}}
    ]
    for index, item in enumerate(items):
        where = {"item_id": item["id"], "output_index": index}
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        if item["type"] == "message":
            events += (
                {"type": "response.output_text.delta", **where, "content_index": 0, "delta": piece, "logprobs": []}
                for piece in pieces(text)
            )
        if item["type"] == "function_call":
            events += (
                {"type": "response.function_call_arguments.delta", **where, "delta": piece}
                for piece in pieces(item["arguments"])
            )
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{response['status']}", "response": response})
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


# Gemini.


def gemini_events(
    text: str = "", calls: Sequence[ToolCall] = (), *, thinking: str = "", finish_reason: str = "STOP"
) -> list[Event]:
    parts: list[Event] = [{"text": piece, "thought": True} for piece in pieces(thinking)]
    parts += ({"text": piece} for piece in pieces(text))
    for call in calls:
        part: Event = {"functionCall": {"id": call.id, "name": call.name, "args": call.args}}
        # The first call of a step carries the signature of the thinking before it.
        parts.append(part | ({"thoughtSignature": SIGNATURE} if thinking and call is calls[0] else {}))
    if thinking and not calls:
        parts.append({"text": "", "thoughtSignature": SIGNATURE})
    said = [{"content": {"role": "model", "parts": [part]}, "index": 0} for part in parts]
    last = {"content": {"role": "model", "parts": []}, "index": 0, "finishReason": finish_reason}
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 107,
    }
    about = {"modelVersion": "gemini", "responseId": "resp-1"}
    return [
        *({"candidates": [candidate]} | about for candidate in said),
        {"candidates": [last], "usageMetadata": usage} | about,
    ]


def _arguments(call: ToolCall) -> str:
    """The arguments of a call as text; those that are no JSON are given as the text they are."""
    written = call.args.get("written")
    return written if isinstance(written, str) else msgspec.json.encode(call.args).decode()


def unreadable(call_id: str, name: str, written: str) -> ToolCall:
    """A call whose arguments are this text."""
    return ToolCall(id=call_id, name=name, args={"written": written})


# As streams.


def anthropic_stream(*events: Mapping[str, Any]) -> Stream:
    return Stream(events=sse(*events, named=True))


def chat_stream(*events: Mapping[str, Any]) -> Stream:
    return Stream(events=sse(*events, done=True))


def responses_stream(*events: Mapping[str, Any]) -> Stream:
    return Stream(events=sse(*events, named=True))


def gemini_stream(*events: Mapping[str, Any]) -> Stream:
    return Stream(events=sse(*events))

"""The four formats in which stock agents talk to their models: how a reply is streamed, and what a request contains."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.messages import ToolCall
from tests.loopback import sse
from tests.service_replies import anthropic_events, chat_events, gemini_events, responses_events


class Kind(StrEnum):
    """What a part of a message is."""

    TEXT = "text"
    CALL = "call"
    RESULT = "result"


class Part(NamedTuple):
    """A part of a message in a request; `message` is the index of that message."""

    message: int
    role: str
    kind: Kind
    text: str


Events: TypeAlias = Callable[[str, Sequence[ToolCall], int], list[bytes]]


def _events(
    make: Callable[[str, Sequence[ToolCall]], list[dict[str, Any]]], *, named: bool = False, done: bool = False
) -> Events:
    def numbered(text: str, calls: Sequence[ToolCall], number: int) -> list[bytes]:
        # Claude joins replies with the same id in its history.
        message_id = b'"msg_%d"' % number
        return [event.replace(b'"msg_1"', message_id) for event in sse(*make(text, calls), named=named, done=done)]

    return numbered


def _responses_events(text: str, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Codex names a tool of an MCP server by the name of the tool and the namespace of the server."""
    events = responses_events(text, calls)
    for event in events:
        for item in (event.get("item", {}), *event.get("response", {}).get("output", ())):
            if str(item.get("name", "")).startswith("mcp__"):
                item["namespace"], _, item["name"] = item["name"].rpartition("__")
    return events


def _flat(content: object) -> str:
    """The text of a content that is a string, a list of parts or an object."""
    match content:
        case str(text) | {"text": str(text)} | {"content": str(text)}:
            return text
        case list(parts):
            return "".join(map(_flat, parts))
        case _:
            return msgspec.json.encode(content).decode()


def _anthropic_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    for index, message in enumerate(body["messages"]):
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block:
                case {"type": "text", "text": text}:
                    yield Part(index, message["role"], Kind.TEXT, text)
                case {"type": "tool_use", "input": given}:
                    yield Part(index, message["role"], Kind.CALL, _flat(given))
                case {"type": "tool_result"}:
                    yield Part(index, message["role"], Kind.RESULT, _flat(block.get("content", "")))


def _chat_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    for index, message in enumerate(body["messages"]):
        role, content = message["role"], message.get("content") or []
        if role == "tool":
            yield Part(index, role, Kind.RESULT, _flat(content))
            continue
        for part in [content] if isinstance(content, str) else content:
            yield Part(index, role, Kind.TEXT, _flat(part))
        for call in message.get("tool_calls") or ():
            yield Part(index, role, Kind.CALL, call["function"]["arguments"])


def _responses_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    for index, item in enumerate(body["input"]):
        match item:
            case {"type": "function_call", "arguments": arguments}:
                yield Part(index, "assistant", Kind.CALL, arguments)
            case {"type": "function_call_output", "output": output}:
                yield Part(index, "tool", Kind.RESULT, _flat(output))
            case {"role": role, "content": content}:
                for part in content:
                    yield Part(index, role, Kind.TEXT, _flat(part))


def _gemini_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    for index, content in enumerate(body["contents"]):
        for part in content["parts"]:
            match part:
                case {"functionCall": call}:
                    yield Part(index, content["role"], Kind.CALL, _flat(call["args"]))
                case {"functionResponse": {"response": response}}:
                    yield Part(index, content["role"], Kind.RESULT, _flat(response))
                case {"text": text}:
                    yield Part(index, content["role"], Kind.TEXT, text)


def _names(body: Mapping[str, Any]) -> Iterator[str]:
    """The names of the tools of a request, which every format writes in its own place."""
    for tool in body.get("tools") or ():
        match tool:
            case {"functionDeclarations": declarations}:
                yield from (declaration["name"] for declaration in declarations)
            case {"function": {"name": name}} | {"name": name}:
                yield name


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One format.

    `path` finds the requests that it is for. `events` makes the server-sent events of a reply from its text, its tool
    calls and its number. `parts` are the parts of the messages of a request, in their order.
    """

    path: re.Pattern[str]
    events: Events
    parts: Callable[[Mapping[str, Any]], Iterator[Part]]
    tools: Callable[[Mapping[str, Any]], Iterator[str]] = _names


ANTHROPIC: Final = Wire(
    path=re.compile(r"/v1/messages(\?.*)?"),
    events=_events(anthropic_events, named=True),
    parts=_anthropic_parts,
)
CHAT: Final = Wire(
    path=re.compile(r"/v1/chat/completions"),
    events=_events(chat_events, done=True),
    parts=_chat_parts,
)
RESPONSES: Final = Wire(
    path=re.compile(r"/v1/responses"),
    events=_events(_responses_events, named=True),
    parts=_responses_parts,
)
GEMINI: Final = Wire(
    path=re.compile(r"/v1beta/models/[^/]+:streamGenerateContent\?alt=sse"),
    events=_events(gemini_events),
    parts=_gemini_parts,
)
WIRES: Final = (ANTHROPIC, CHAT, RESPONSES, GEMINI)

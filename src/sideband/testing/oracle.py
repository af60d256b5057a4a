"""Rules of the providers that their types do not express: the order of messages, and where cache markers may stand."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sideband.render.profiles import MOST_MARKERS, Profile, Wire

Body: TypeAlias = Mapping[str, Any]

Entry: TypeAlias = Mapping[str, Any]

Complaints: TypeAlias = Iterator[str]


def violations(profile: Profile, body: Body, betas: Sequence[str] = ()) -> list[str]:
    """Everything in a request that the provider would refuse or ignore, each as a sentence."""
    strings = profile.wire is Wire.OPENAI_CHAT and not profile.content_parts
    rules = _RULES[Wire.GENERIC if strings else profile.wire]
    return [*rules(profile, body), *_betas(profile, body, betas), *_media(profile, body)]


def _betas(profile: Profile, body: Body, betas: Sequence[str]) -> Complaints:
    """The beta for clearing entries is named if, and only if, the request has such entries."""
    clears = any("clear_at" in entry for entry in body.get("messages", ()))
    if clears != (profile.self_clearing in betas):
        yield f"clearing entries: {clears}, but the betas are {', '.join(betas) or 'none'}"


def _media(profile: Profile, body: Body) -> Complaints:
    """Images, documents and audio are of types that the model takes."""
    for entry in _objects(body):
        match entry:
            case {"media_type": str(media_type), "data": str()} | {"mimeType": str(media_type), "data": str()}:
                given = media_type
            case {"data": str(), "format": str(suffix)}:
                given = f"audio/{suffix}"
            case {"url": str(url)} | {"image_url": str(url)} | {"file_data": str(url)} if url.startswith("data:"):
                given = url.removeprefix("data:").partition(";")[0]
            case _:
                continue
        if given not in profile.media:
            yield f"content of the type {given}"


# Any wire.


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _markers(profile: Profile, body: Body, key: str) -> Complaints:
    count = sum(key in entry for entry in _objects(body))
    if count > (profile.cache_markers or MOST_MARKERS):
        yield f"{count} cache markers"


def _blank(texts: Sequence[str]) -> Complaints:
    if any(not text.strip() for text in texts):
        yield "a text is blank"


def _answered(calls: Sequence[str], results: Sequence[str]) -> Complaints:
    """Each call is directly followed by exactly one result, and each result follows its call."""
    if sorted(calls) != sorted(results):
        yield f"the calls {list(calls)} are followed by the results {list(results)}"


def _repeated(calls: Sequence[str]) -> Complaints:
    """No two calls of a conversation have the same id."""
    for call_id, times in Counter(calls).items():
        if times > 1:
            yield f"{times} calls have the id {call_id!r}"


# Anthropic.


def _anthropic(profile: Profile, body: Body) -> Complaints:
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    if roles[:1] != ["user"]:
        yield "the conversation does not begin with the user"
    if roles[-1:] == ["assistant"]:
        yield "the conversation ends with the assistant"
    yield from _anthropic_entries(roles)
    if not profile.consecutive_assistant and ("assistant", "assistant") in pairwise(roles):
        yield "two assistant messages in a row"
    for message, following in pairwise([*messages, {"role": "", "content": []}]):
        yield from _anthropic_content(message)
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in following["content"] if block.get("type") == "tool_result"]
        yield from _answered(calls, results)
    yield from _repeated([block["id"] for block in _objects(messages) if block.get("type") == "tool_use"])
    yield from _markers(profile, body, "cache_control")


def _anthropic_entries(roles: Sequence[str]) -> Complaints:
    for before, role, after in zip(["", *roles], roles, [*roles[1:], "assistant"], strict=False):
        if role == "system" and (before != "user" or after != "assistant"):
            yield f"a system entry between {before or 'nothing'} and {after}"


def _anthropic_content(message: Entry) -> Complaints:
    blocks = message["content"]
    kinds = [block["type"] == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        yield "a tool result after other content"
    if not blocks:
        yield "a message without content"
    yield from _blank([block["text"] for block in _objects(blocks) if block.get("type") == "text"])
    inner = [block for outer in blocks if outer["type"] == "tool_result" for block in _objects(outer["content"])]
    thoughts = [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]
    cleared = [*_objects(message)] if message["role"] == "system" else []
    if any("cache_control" in block for block in (*inner, *thoughts, *cleared)):
        yield "a cache marker where none is allowed"


# OpenAI.


def _openai_chat(profile: Profile, body: Body) -> Complaints:
    messages = body["messages"]
    yield from _chat_calls(messages)
    for message in messages:
        parts = message["content"]
        if message["role"] == "assistant":
            if any("prompt_cache_breakpoint" in entry for entry in _objects(message)):
                yield "a cache marker in an assistant message"
        elif isinstance(parts, str) or not parts:
            yield f"the content of a {message['role']} message is not a list of parts"
        else:
            yield from _blank([part["text"] for part in parts if part["type"] == "text"])
    yield from _markers(profile, body, "prompt_cache_breakpoint")


def _chat_calls(messages: Sequence[Entry]) -> Complaints:
    """The message with the calls is directly followed by one result for each call, and no two calls have one id."""
    yield from _repeated([call["id"] for message in messages for call in message.get("tool_calls", ())])
    calls: list[str] = []
    results: list[str] = []
    for message in (*messages, {"role": ""}):
        if message["role"] == "tool":
            results.append(message["tool_call_id"])
        else:
            yield from _answered(calls, results)
            calls, results = [call["id"] for call in message.get("tool_calls", ())], []


def _openai_responses(profile: Profile, body: Body) -> Complaints:
    calls: list[str] = []
    results: list[str] = []
    for item in (*body["input"], {"type": ""}):
        own = item["type"] in ("reasoning", "function_call") or item.get("role") == "assistant"
        if item["type"] == "function_call_output":
            results.append(item["call_id"])
        elif results or not own:
            yield from _answered(calls, results)
            calls, results = [], []
        if item["type"] == "function_call":
            calls.append(item["call_id"])
        if own and any("prompt_cache_breakpoint" in entry for entry in _objects(item)):
            yield "a cache marker in an assistant message"
        yield from _blank([entry["text"] for entry in _objects(item) if entry.get("type") == "input_text"])
    yield from _repeated([item["call_id"] for item in body["input"] if item["type"] == "function_call"])
    if body["store"]:
        yield "the request stores state on the server"
    if profile.encrypted_reasoning is not ("reasoning.encrypted_content" in body.get("include", ())):
        yield "encrypted reasoning is not requested although the model has it, or the reverse"
    yield from _markers(profile, body, "prompt_cache_breakpoint")


# Gemini.


def _gemini(profile: Profile, body: Body) -> Complaints:
    contents = body["contents"]
    roles = [content["role"] for content in contents]
    expected = ["user", "model"] * len(contents)
    if roles != expected[: len(contents)] or len(contents) % 2 == 0:
        yield f"the turns are {roles}"
    for content, following in pairwise([{"parts": []}, *contents, {"parts": []}]):
        called = [part for part in content["parts"] if "functionCall" in part]
        if profile.call_signature is not None and any("thoughtSignature" not in part for part in called[:1]):
            yield "the first call has no signature"
        calls = [part["functionCall"]["id"] for part in called]
        results = [part["functionResponse"]["id"] for part in following["parts"] if "functionResponse" in part]
        yield from _answered(calls, results)
        # A signature may come with an empty text, and has to be sent back with it.
        said = [part["text"] for part in following["parts"] if "text" in part and "thoughtSignature" not in part]
        yield from _blank(said)
        kinds = ["functionResponse" in part for part in following["parts"]]
        if kinds != sorted(kinds, reverse=True):
            yield "a result after other parts"
    parts = [part for content in contents for part in content["parts"]]
    yield from _repeated([part["functionCall"]["id"] for part in parts if "functionCall" in part])


# Chat templates.


def _generic(profile: Profile, body: Body) -> Complaints:
    messages = body["messages"]
    yield from _chat_calls(messages)
    yield from _short_ids(profile, messages)
    if not profile.tool_role and any(message["role"] == "tool" or "tool_calls" in message for message in messages):
        yield "a call or a result that the template drops or refuses"
    for message in messages:
        # The messages of the user, and only they, are lists where the template knows lists.
        in_parts = profile.content_parts and profile.wire is Wire.GENERIC and message["role"] == "user"
        if isinstance(message["content"], str) is in_parts:
            yield f"the content of a {message['role']} message is not a {'list' if in_parts else 'string'}"
    roles = [message["role"] for message in messages]
    talk = roles[_leading(roles) :]
    if _leading(roles) > 1 and not profile.multiple_leading_system:
        yield "more than one system message"
    if "system" in talk or ("developer" in talk and not profile.developer_role):
        yield "a system message inside the conversation"
    if profile.strict_alternation and talk[:1] != ["user"]:
        yield "the conversation does not begin with the user"
    if not profile.consecutive_assistant and talk[-1:] == ["assistant"]:
        yield "the conversation ends with the assistant"
    for pair in pairwise(talk):
        if pair in _FORBIDDEN and _FORBIDDEN[pair](profile):
            yield f"{pair[1]} after {pair[0]}"


def _short_ids(profile: Profile, messages: Sequence[Entry]) -> Complaints:
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    if profile.call_id_length and any(len(call["id"]) != profile.call_id_length for call in calls):
        yield f"the id of a call does not have {profile.call_id_length} characters"


def _leading(roles: Sequence[str]) -> int:
    return next((place for place, role in enumerate(roles) if role not in ("system", "developer")), len(roles))


_FORBIDDEN: Final[Mapping[tuple[str, str], Callable[[Profile], bool]]] = MappingProxyType(
    {
        ("user", "user"): lambda profile: profile.strict_alternation,
        ("assistant", "assistant"): lambda profile: not profile.consecutive_assistant,
        ("tool", "user"): lambda profile: not profile.user_after_tool,
    }
)

_RULES: Final[Mapping[Wire, Callable[[Profile, Body], Complaints]]] = MappingProxyType(
    {
        Wire.ANTHROPIC: _anthropic,
        Wire.OPENAI_CHAT: _openai_chat,
        Wire.OPENAI_RESPONSES: _openai_responses,
        Wire.GEMINI: _gemini,
        Wire.GENERIC: _generic,
    }
)

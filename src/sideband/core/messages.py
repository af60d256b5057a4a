"""The messages of a conversation: tool calls, replies, tool results, and user content."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from sideband.core.blocks import BlockKind, check_block
from sideband.core.errors import BodyTooLarge, InvalidOption, shown
from sideband.core.events import InboxItem, Usage
from sideband.core.limits import Limits
from sideband.core.serialize import lost_number

Message: TypeAlias = dict[str, Any]
# What a user says: a text, or blocks as `sideband.core.blocks` describes them.
Content: TypeAlias = str | Sequence[Mapping[str, Any]]


# Replies and tool calls.


# If the arguments of a call cannot be parsed, the call has this argument only, with the text that the model wrote; it is
# empty if the reply ended before the arguments. Such a call is not run.
UNREADABLE: Final = "unreadable_arguments"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that a model asks for; `id` comes from the model and is unique in its reply."""

    id: str
    name: str
    args: dict[str, Any] = {}


class ToolStatus(StrEnum):
    """How a tool call ended; every call ends in exactly one of these."""

    OK = "ok"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    DENIED = "denied"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a model.

    `native` holds the reply as the provider's wire format needs it in later requests, for example signed reasoning, under
    the name of the wire; None if text and calls suffice.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    native: dict[str, Any] | None = None


# The content of user messages.


def as_blocks(content: object) -> tuple[dict[str, Any], ...]:
    """Content as a tuple of blocks: a text becomes one block, and blocks are copied."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray | memoryview):
        raise InvalidOption(
            f"content must be a string or a list of blocks, not {shown(content)}", field="content", value=content
        )
    for block in content:
        if not isinstance(block, Mapping):
            raise InvalidOption(
                f"a block of content must be an object, like {{'type': 'text', 'text': ...}}, not {shown(block)}",
                field="content",
                value=block,
            )
    return tuple(dict(block) for block in content)


def read_content(content: object, limits: Limits) -> tuple[dict[str, Any], ...]:
    """The blocks as the journal returns them; content that the journal cannot hold is refused before it is accepted."""
    try:
        raw = msgspec.json.encode(content)
        blocks = msgspec.json.decode(raw, type=tuple[dict[str, Any], ...])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOption(f"content must be blocks that can be written as JSON: {error}", field="content") from None
    if len(raw) > limits.content_bytes:
        raise BodyTooLarge(len(raw), limits.content_bytes, field="content")
    for place, block in enumerate(blocks):
        check_block(block, place)
    if not has_content(blocks):
        raise InvalidOption("content is blank: a message needs text, or a block of another type", field="content")
    if (wrong := lost_number(content, raw)) is not None:
        raise InvalidOption(
            f"content must be blocks that can be written as JSON, which has no {wrong}", field="content"
        )
    return blocks


def has_content(content: Content) -> bool:
    """Whether content is more than blank text."""
    return any(
        block.get("type", BlockKind.TEXT) != BlockKind.TEXT or block.get("text", "").strip()
        for block in as_blocks(content)
    )


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message without its other blocks."""
    content = message.get("content", "")
    return content if isinstance(content, str) else "\n".join(block["text"] for block in content if "text" in block)


# The messages of replies and tool results.


def reply_message(reply: Reply) -> Message:
    """The message of a reply. The arguments of its calls are copied, because a tool may change the ones it gets."""
    message: Message = {"role": "assistant", "content": storable(reply.text)}
    if reply.native is not None:
        message["native"] = reply.native
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "name": call.name, "args": copied(call.args)} for call in reply.tool_calls
        ]
    return message


def read_call(call: Mapping[str, Any]) -> ToolCall:
    """The call that an entry of a message's `tool_calls` describes."""
    return ToolCall(id=call["id"], name=call["name"], args=copied(call["args"]))


def copied(args: dict[str, Any]) -> dict[str, Any]:
    """A deep copy of a call's arguments, which are plain JSON values."""
    copy: dict[str, Any] = msgspec.to_builtins(args)
    return copy


def result_message(call: ToolCall, status: ToolStatus, text: str, *, truncated: bool = False) -> Message:
    """The message with the result of a tool call."""
    message: Message = {
        "role": "tool",
        "tool_call_id": call.id,
        "name": call.name,
        "status": str(status),
        "content": storable(text),
    }
    if truncated:
        message["truncated"] = True
    return message


def interrupted_message(call: ToolCall, taken: Sequence[InboxItem]) -> Message:
    """The result of a call that was not run, because a drain took these interrupts."""
    senders = ", ".join(dict.fromkeys(_sender(item) for item in taken))
    text = f"Not run: interrupted by {senders}. What it says follows; decide again with it in mind."
    return result_message(call, ToolStatus.INTERRUPTED, text)


def _sender(item: InboxItem) -> str:
    name = item.provenance.principal or item.provenance.provider_id
    return escaped_name(name) if name else "the operator"


_UNFINISHED: Final[Mapping[ToolStatus, str]] = MappingProxyType(
    {
        ToolStatus.CANCELLED: "Cancelled before it reported a result; it may have run in part.",
        ToolStatus.UNKNOWN: "It is not known whether this ran: the process ended before it reported. "
        "It was not run again.",
    }
)


def unfinished_message(call: ToolCall, status: ToolStatus) -> Message:
    """The result of a call that was cancelled, or whose process ended."""
    return result_message(call, status, _UNFINISHED[status])


# Checks of messages that were not made here.


def is_content(content: object) -> bool:
    """Whether a value can be the content of a message: a string, or blocks whose `text`, if any, is a string."""
    if isinstance(content, str):
        return True
    return isinstance(content, list | tuple) and all(
        isinstance(block, dict) and isinstance(block.get("text", ""), str) for block in content
    )


def are_calls(calls: object) -> bool:
    """Whether a value can be the `tool_calls` of a message: each needs an id, a name and arguments."""
    return isinstance(calls, list | tuple) and all(
        isinstance(call, dict)
        and isinstance(call.get("id"), str)
        and isinstance(call.get("name"), str)
        and isinstance(call.get("args"), dict)
        for call in calls
    )


# Text from elsewhere.

_MARKUP: Final = frozenset("&<>\"'")


def escaped_name(name: str) -> str:
    """A name on one line and without markup, so that it cannot imitate the text around it."""
    return "".join(f"&#{ord(letter)};" if letter in _MARKUP or not letter.isprintable() else letter for letter in name)


# Text that the journal can hold.


def storable(text: str) -> str:
    """The text with lone surrogates replaced. File names can contain them, and UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def storable_tree(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value with `storable` applied to every string in it, including keys."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable_tree(key): storable_tree(entry) for key, entry in value.items()}
    return [storable_tree(entry) for entry in value] if isinstance(value, list | tuple) else value

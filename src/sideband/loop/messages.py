"""The messages of a conversation: what was said, what was called, and what came of it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.content import as_blocks
from sideband.core.items import InboxItem
from sideband.ports import Message, Reply, ToolCall, ToolStatus

_UNFINISHED: Final[Mapping[ToolStatus, str]] = MappingProxyType(
    {
        ToolStatus.CANCELLED: "Cancelled before it reported a result; it may have run in part.",
        ToolStatus.UNKNOWN: "It is not known whether this ran: the process ended before it reported. "
        "It was not run again.",
    }
)


def reply_message(reply: Reply) -> Message:
    """A reply; its arguments are copied, for whoever gets the calls may change them."""
    message: Message = {"role": "assistant", "content": storable(reply.text)}
    if reply.native is not None:
        message["native"] = reply.native
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "name": call.name, "args": copied(call.args)} for call in reply.tool_calls
        ]
    return message


def read_call(call: Mapping[str, Any]) -> ToolCall:
    """A call as it stands in the message of a reply."""
    return ToolCall(id=call["id"], name=call["name"], args=copied(call["args"]))


def copied(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call, for somebody who may change them. They are plain values, as JSON has them."""
    copy: dict[str, Any] = msgspec.to_builtins(args)
    return copy


def result_message(call: ToolCall, status: ToolStatus, text: str, *, truncated: bool = False) -> Message:
    """The result of a call."""
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
    """The result of a call that was not made, because of what was taken from the inbox."""
    senders = ", ".join(dict.fromkeys(_sender(item) for item in taken))
    text = f"Not run: interrupted by {senders}. What it says follows; decide again with it in mind."
    return result_message(call, ToolStatus.INTERRUPTED, text)


def unfinished_message(call: ToolCall, status: ToolStatus) -> Message:
    """The result of a call that will never report one."""
    return result_message(call, status, _UNFINISHED[status])


def user_content(text: str) -> tuple[dict[str, Any], ...]:
    """A text as the content blocks of a user message."""
    return as_blocks(text)


def text_of(message: Mapping[str, Any]) -> str:
    """What a message says, as plain text."""
    content = message.get("content", "")
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def is_content(content: object) -> bool:
    """Whether a message can have it: a text, or blocks, of which those with a text have one that is a text."""
    if isinstance(content, str):
        return True
    return isinstance(content, list | tuple) and all(
        isinstance(block, dict) and isinstance(block.get("text", ""), str) for block in content
    )


def are_calls(calls: object) -> bool:
    """Whether a message of the model can have them: each is a tool's name, arguments, and an id for its result."""
    return isinstance(calls, list | tuple) and all(
        isinstance(call, dict)
        and isinstance(call.get("id"), str)
        and isinstance(call.get("name"), str)
        and isinstance(call.get("args"), dict)
        for call in calls
    )


def storable(text: str) -> str:
    """The text without halves of characters, which a name of a file may contain and no journal can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def storable_tree(value: Any) -> Any:  # noqa: ANN401 - whatever JSON is made of
    """The same for every text in a value, the keys included."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable_tree(key): storable_tree(entry) for key, entry in value.items()}
    return [storable_tree(entry) for entry in value] if isinstance(value, list | tuple) else value


def _sender(item: InboxItem) -> str:
    return item.provenance.principal or item.provenance.provider_id or "the operator"

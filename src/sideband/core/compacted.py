"""What a compactor may return: whether a conversation can go on with its messages."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from sideband.core.blocks import check_block
from sideband.core.errors import InvalidOption, shown
from sideband.core.lifecycle import archived_count, content_key
from sideband.core.messages import Message, are_calls, has_content, is_content

ROLES: Final = ("system", "user", "assistant", "tool")


class _Half(Enum):
    """A tool call or its result, without the other: how an error names it, and what is missing."""

    CALL = ("the call", "result")
    RESULT = ("the result of call", "call")


def fault_in_compacted(before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """Why a conversation cannot go on with `after`, which a compactor returned for `before`; None if it can.

    Messages that the compactor kept as they were are not checked.
    """
    if before and not after:
        return "a compactor returned no message; return a summary, or the same messages if there is nothing to compact"
    keys = [content_key(message) for message in before]
    kept = frozenset(keys)
    for place, message in enumerate(after):
        wrong = None if content_key(message) in kept else _fault_in_message(message)
        if wrong is not None:
            return f"a compactor returned message {place} with {wrong}"
    known = _unpaired(before)
    for half, call_id in _unpaired(after):
        if (half, call_id) not in known:
            what, missing = half.value
            return (
                f"a compactor returned {what} {shown(call_id)} without its {missing}; "
                "keep both, the result directly after its call, or neither"
            )
    if before and not archived_count(before, after) and keys != [content_key(message) for message in after]:
        return (
            "a compactor returned all messages, in another order or with new ones; leave some out, "
            "or return the same messages if there is nothing to compact"
        )
    return None


def _fault_in_message(message: Message) -> str | None:
    role, calls = message.get("role"), message.get("tool_calls", ())
    content: Any = message.get("content")
    if role not in ROLES:
        return f"the role {shown(role)}; the roles are {', '.join(ROLES)}"
    if not is_content(content):
        return (
            f"the content {shown(content)}; content is a text or a list of blocks, each with a text or of another type"
        )
    if not isinstance(content, str):
        try:
            for place, block in enumerate(content):
                check_block(block, place)
        except InvalidOption as fault:
            return f"a block that no request can show: {str(fault).removeprefix(f'{fault.code}: ')}"
    if not are_calls(calls):
        return f"the tool_calls {shown(calls)}; each call needs an id, a name and args"
    if not calls and not has_content(content):
        return "blank content; only a message with tool calls may have no content"
    return None


def _unpaired(messages: Sequence[Message]) -> list[tuple[_Half, str]]:
    """Every tool call without a result directly after it, and every result without such a call."""
    unpaired: list[tuple[_Half, str]] = []
    calls: dict[str, None] = {}
    for message in messages:
        answered = str(message.get("tool_call_id"))
        if message.get("role") != "tool":
            unpaired.extend((_Half.CALL, call_id) for call_id in calls)
            calls = dict.fromkeys(str(call.get("id")) for call in message.get("tool_calls", ()))
        elif answered in calls:
            del calls[answered]
        else:
            unpaired.append((_Half.RESULT, answered))
    return [*unpaired, *((_Half.CALL, call_id) for call_id in calls)]

"""Compaction of a running conversation: the compactors, and the step that calls one with its hooks."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from sideband.core.errors import shown
from sideband.core.hookevents import SessionEvent
from sideband.core.lifecycle import plan_compaction
from sideband.core.messages import Message, are_calls, is_content, text_of
from sideband.core.reminder import Reminder
from sideband.core.transcript import DEFAULT_KEEP_LAST, tail_start
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, UserCodeFailed, call_guarded, describe, read_guarded
from sideband.loop.hooks import HookRunner, blocks
from sideband.ports import Compactor

# A run with a compactor compacts by itself when a prompt has reached this share of the context window.
AUTOMATIC_AT: Final = 0.90

ROLES: Final = frozenset({"system", "user", "assistant", "tool"})

Summarise = Callable[[Sequence[Message]], Awaitable[str]]


class KeepLast:
    """Keeps the last messages only, and never separates a tool result from its call."""

    def __init__(self, keep_last: int = DEFAULT_KEEP_LAST) -> None:
        self.keep_last = keep_last

    async def compact(self, messages: Sequence[Message], _reminders: Sequence[Reminder]) -> Sequence[Message]:
        return messages[_kept_from(messages, self.keep_last) :]


class Summarize:
    """Replaces all but the last messages with a summary."""

    def __init__(self, summarise: Summarise, keep_last: int = DEFAULT_KEEP_LAST) -> None:
        self.summarise = summarise
        self.keep_last = keep_last

    async def compact(self, messages: Sequence[Message], _reminders: Sequence[Reminder]) -> Sequence[Message]:
        start = _kept_from(messages, self.keep_last)
        if start == 0:
            return messages
        summary = await self.summarise(messages[:start])
        return [{"role": "system", "content": summary}, *messages[start:]]


class Custom:
    """Calls a function of the user with the messages and the reminders that survive."""

    def __init__(self, compactor: Callable[[Sequence[Message], Sequence[Reminder]], Any]) -> None:
        self.compactor = compactor

    async def compact(self, messages: Sequence[Message], reminders: Sequence[Reminder]) -> Sequence[Message]:
        # The time limit is the run's, in `compact` below.
        result: Any = await call_guarded(self.compactor, messages, reminders)
        if isinstance(result, Mapping):
            result = result.get("messages")
        # Reminder events in a returned transcript are ignored: which reminders survive is already decided.
        return _read_messages(getattr(result, "messages", result))


async def compact(talk: Conversation, compactor: Compactor, hooks: HookRunner, *, seconds: float) -> int:
    """Compact and return how many messages were archived; 0 if nothing was compacted, a hook blocked it, or it failed."""
    before = tuple(talk.state.messages)
    payload = {"messages": len(before), "reminders": len(talk.state.live)}
    if any(map(blocks, await hooks.notify(SessionEvent.PRE_COMPACT, payload))):
        return 0
    begun_at, in_turn = talk.state.live.next_place, talk.state.running
    survivors = plan_compaction(talk.state).survivors
    try:
        returned = await call_guarded(compactor.compact, before, survivors, scope=hooks.scope, seconds=seconds)
        after = read_guarded(_read_messages, returned)
    except UserCodeFailed as error:
        # The run continues with the conversation as it is.
        hooks.report(Problem("compactor", str(error)))
        return 0
    archived = await talk.compact(before, after, begun_at=begun_at, in_turn=in_turn)
    if archived:
        done = {
            "archived_messages": archived,
            "summary": _summary(before, after),
            "kept_messages": len(after),
            "preserved_reminders": len(talk.state.live),
        }
        await hooks.notify(SessionEvent.POST_COMPACT, done)
    return archived


def _kept_from(messages: Sequence[Message], keep_last: int) -> int:
    """Where the kept tail begins. Messages after the last reply are always kept: no request has shown them yet."""
    replies = (place for place, message in enumerate(messages) if message.get("role") == "assistant")
    return min(tail_start(messages, keep_last), max(replies, default=0))


def _read_messages(result: object) -> tuple[Message, ...]:
    """Validate what a compactor returned, before anything is committed."""
    if not isinstance(result, list | tuple) or not all(map(_is_message, result)):
        raise UserCodeFailed(f"a compactor must return a list of messages, not {shown(result)}")
    try:
        # Plain copies, so that no method of the compactor's objects runs inside a commit.
        return msgspec.json.decode(msgspec.json.encode(result), type=tuple[Message, ...])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UserCodeFailed(
            f"a compactor must return messages that can be stored as JSON: {describe(error)}"
        ) from error


def _is_message(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("role") in ROLES
        and is_content(entry.get("content"))
        and are_calls(entry.get("tool_calls", ()))
    )


def _summary(before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """The summary that replaces the archived messages; None if the compactor wrote none."""
    if not after or after[0]["role"] != "system" or after[0] in before:
        return None
    return text_of(after[0])

"""Compacting a running conversation: by whom, and what hooks and providers are told of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from sideband.core.errors import shown
from sideband.core.hookevents import SessionEvent
from sideband.core.lifecycle import plan_compaction
from sideband.core.reminder import Reminder
from sideband.core.transcript import DEFAULT_KEEP_LAST, tail_start
from sideband.loop.conversation import Conversation
from sideband.loop.foreign import Failed, ask, read
from sideband.loop.messages import are_calls, is_content, text_of
from sideband.loop.problems import Problem, describe
from sideband.loop.telling import Teller, blocks
from sideband.ports import Compactor, Message

# Above this share of the context window a run compacts by itself, if it has a compactor.
AUTOMATIC_AT: Final = 0.90

ROLES: Final = frozenset({"system", "user", "assistant", "tool"})

Summarise = Callable[[Sequence[Message]], Awaitable[str]]


class KeepLast:
    """Drops all but the last messages, never parting a result from its call."""

    def __init__(self, keep_last: int = DEFAULT_KEEP_LAST) -> None:
        self.keep_last = keep_last

    async def compact(self, messages: Sequence[Message], _reminders: Sequence[Reminder]) -> Sequence[Message]:
        return messages[_kept_from(messages, self.keep_last) :]


class Summarize:
    """Replaces all but the last messages by a summary of them."""

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
    """Asks a function of the user's, which is shown the surviving reminders too."""

    def __init__(self, compactor: Callable[[Sequence[Message], Sequence[Reminder]], Any]) -> None:
        self.compactor = compactor

    async def compact(self, messages: Sequence[Message], reminders: Sequence[Reminder]) -> Sequence[Message]:
        # Like a hook it runs beside the loop if it is no coroutine; how long it may take is for the run to say.
        result: Any = await ask(self.compactor, messages, reminders)
        if isinstance(result, Mapping):
            result = result.get("messages")
        # A transcript's reminder events are ignored: what survives is decided here.
        return _read(getattr(result, "messages", result))


async def compact(talk: Conversation, compactor: Compactor, teller: Teller, *, seconds: float) -> int:
    """How many messages were archived; 0 where a hook blocked it, it failed, or there was nothing to compact."""
    before = tuple(talk.state.messages)
    answers = await teller.tell(SessionEvent.PRE_COMPACT, messages=len(before), reminders=len(talk.state.live))
    if any(map(blocks, answers)):
        return 0
    survivors = plan_compaction(talk.state.live).survivors
    try:
        after = read(_read, await ask(compactor.compact, before, survivors, scope=teller.scope, seconds=seconds))
    except Failed as error:
        # The conversation goes on, longer than it should be.
        teller.report(Problem("compactor", str(error)))
        return 0
    archived = await talk.compact(before, after)
    if archived:
        await teller.tell(
            SessionEvent.POST_COMPACT,
            archived_messages=archived,
            summary=_summary(before, after),
            kept_messages=len(after),
            preserved_reminders=len(talk.state.live),
        )
    return archived


def _kept_from(messages: Sequence[Message], keep_last: int) -> int:
    """Where the kept tail begins. What came after the last reply is in it: no request has shown that yet."""
    replies = (place for place, message in enumerate(messages) if message.get("role") == "assistant")
    return min(tail_start(messages, keep_last), max(replies, default=0))


def _read(result: object) -> tuple[Message, ...]:
    """What a compactor returned, if it is a conversation: nothing has changed yet, and a bad one never will."""
    if not isinstance(result, list | tuple) or not all(map(_is_message, result)):
        raise Failed(f"a compactor must return messages, not {shown(result)}")
    try:
        msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Failed(f"a compactor must return messages that a journal can hold: {describe(error)}") from error
    return tuple(result)


def _is_message(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("role") in ROLES
        and is_content(entry.get("content"))
        and are_calls(entry.get("tool_calls", ()))
    )


def _summary(before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """The text that stands for what was archived; None where there is none."""
    if not after or after[0]["role"] != "system" or after[0] in before:
        return None
    return text_of(after[0])

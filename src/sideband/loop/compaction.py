"""Compaction of a running conversation: the compactors, and the step that calls one with its hooks."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.blocks import estimated_tokens
from sideband.core.errors import shown
from sideband.core.hookevents import SessionEvent
from sideband.core.lifecycle import plan_compaction
from sideband.core.messages import Message, text_of
from sideband.core.reminder import Reminder
from sideband.core.transcript import DEFAULT_KEEP_LAST, content_key, fault_in_compacted
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, UserCodeFailed, call_guarded, describe, read_guarded
from sideband.loop.hooks import HookRunner, blocks
from sideband.ports import Compactor, ModelError
from sideband.render.escape import neutralise_all

# A run with a compactor compacts by itself when a prompt has reached this share of the context window.
AUTOMATIC_AT: Final = 0.90
# The built-in compactors bring the prompt under this share of the context window.
TARGET: Final = 0.50

Summarise = Callable[[Sequence[Message]], Awaitable[str]]


# Sizes.


class PromptSize(NamedTuple):
    """What is known of the size of the prompt, in tokens.

    `measured` is what the model counted in the last request (0: nothing was counted), `fixed` an estimate of the system
    text and the tools, and `window` the context window (None: unknown).
    """

    measured: int = 0
    fixed: int = 0
    window: int | None = None

    @property
    def target(self) -> float | None:
        """The size that a compaction has to reach; None if the window is unknown."""
        return None if self.window is None else TARGET * self.window


UNKNOWN_SIZE: Final = PromptSize()


def estimate_message(message: Mapping[str, Any]) -> int:
    """Estimate the number of tokens in a message."""
    calls = message.get("tool_calls")
    written = "" if not calls else msgspec.json.encode(calls).decode()
    return estimated_tokens(message.get("content", "")) + estimated_tokens(written)


class _Sizes:
    """The estimated size of each message, scaled so that the messages of the last request add up to what was measured."""

    def __init__(self, messages: Sequence[Message], prompt: PromptSize) -> None:
        self.last_reply = max((place for place, message in enumerate(messages) if _is_reply(message)), default=0)
        sizes = [estimate_message(message) for message in messages]
        estimated = prompt.fixed + sum(sizes[: self.last_reply])
        scale = prompt.measured / estimated if prompt.measured and estimated else 1.0
        self.fixed = scale * prompt.fixed
        self.messages = [scale * size for size in sizes]

    @property
    def whole(self) -> float:
        return self.fixed + sum(self.messages)


def _is_reply(message: Message) -> bool:
    return message.get("role") == "assistant"


# Compactors.


class TokenCompactor(ABC):
    """A built-in compactor: it archives the oldest messages, until the rest fits into half of the context window.

    At most `keep_last` messages are kept, also if the window is unknown. A tool result is never separated from its call,
    and the last reply and what came after it are always kept, because no request has shown them yet. If the prompt is
    over the target and nothing can be archived, this is reported once, until something could be archived again.
    """

    def __init__(self, keep_last: int = DEFAULT_KEEP_LAST) -> None:
        self.keep_last = keep_last
        self._has_reported = False

    async def compact(
        self, messages: Sequence[Message], _reminders: Sequence[Reminder], prompt: PromptSize = UNKNOWN_SIZE
    ) -> Sequence[Message]:
        sizes, target = _Sizes(messages, prompt), prompt.target
        start = self._kept_from(messages, sizes, target)
        if self._archives_nothing(messages[:start]):
            if target is not None and sizes.whole > target and not self._has_reported:
                self._has_reported = True
                raise UserCodeFailed(
                    f"nothing can be archived: the prompt has about {sizes.whole:,.0f} tokens, and the target is "
                    f"{target:,.0f}, but everything in it is part of the last step; shorten the system text, the tools "
                    "or their results"
                )
            return messages
        self._has_reported = False
        return [*await self._replacement(messages[:start]), *messages[start:]]

    def _kept_from(self, messages: Sequence[Message], sizes: _Sizes, target: float | None) -> int:
        """The index of the first message to keep."""
        start, used = len(messages), sizes.fixed
        while start > 0 and len(messages) - start < self.keep_last:
            used += sizes.messages[start - 1]
            if target is not None and used > target:
                break
            start -= 1
        while start < len(messages) and messages[start].get("role") == "tool":
            start += 1
        return min(start, sizes.last_reply)

    def _archives_nothing(self, archived: Sequence[Message]) -> bool:
        return not archived

    @abstractmethod
    async def _replacement(self, archived: Sequence[Message]) -> Sequence[Message]:
        """What stands for the archived messages."""


class KeepLast(TokenCompactor):
    """Keeps the last messages only."""

    async def _replacement(self, _archived: Sequence[Message]) -> Sequence[Message]:
        return ()


class Summarize(TokenCompactor):
    """Replaces all but the last messages with a summary."""

    def __init__(self, summarise: Summarise, keep_last: int = DEFAULT_KEEP_LAST) -> None:
        super().__init__(keep_last)
        self.summarise = summarise

    def _archives_nothing(self, archived: Sequence[Message]) -> bool:
        # A summary of nothing but the last summary would cost a request in every turn, and make nothing shorter.
        return all(message.get("role") == "system" for message in archived)

    async def _replacement(self, archived: Sequence[Message]) -> Sequence[Message]:
        try:
            return ({"role": "system", "content": await self.summarise(archived)},)
        except ModelError as error:
            raise UserCodeFailed(f"the model wrote no summary: {error}") from error


def as_document(messages: Sequence[Message]) -> str:
    """The messages as one text, for a model that is to summarise them and not to go on with the conversation.

    What users and tools have said cannot pass for a reminder there.
    """
    return neutralise_all("\n\n".join(_paragraph(message) for message in messages))


def _paragraph(message: Message) -> str:
    content = message["content"]
    kinds = [] if isinstance(content, str) else [block.get("type", "text") for block in content]
    others = [f"[{kind}]" for kind in kinds if kind != "text"]
    calls = [f"calls {call['name']} with {msgspec.json.encode(call['args']).decode()}" for call in _calls(message)]
    name = f" {message['name']}" if "name" in message else ""
    return f"{message['role']}{name}: " + "\n".join(filter(None, (text_of(message).strip(), *others, *calls)))


def _calls(message: Message) -> Sequence[dict[str, Any]]:
    calls: Sequence[dict[str, Any]] = message.get("tool_calls", ())
    return calls


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
        return _read_list(getattr(result, "messages", result))


# The step.


async def compact(
    talk: Conversation, compactor: Compactor, hooks: HookRunner, *, seconds: float, prompt: PromptSize = UNKNOWN_SIZE
) -> int:
    """Compact and return how many messages were archived; 0 if nothing was compacted, a hook blocked it, or it failed."""
    before = tuple(talk.state.messages)
    payload = {"messages": len(before), "reminders": len(talk.state.live)}
    if any(map(blocks, await hooks.notify(SessionEvent.PRE_COMPACT, payload))):
        return 0
    begun_at, in_turn = talk.state.live.next_place, talk.state.running
    survivors = plan_compaction(talk.state).survivors
    # User code gets copies, so that changing a message does not change the session.
    given = (before, survivors, prompt) if isinstance(compactor, TokenCompactor) else (deepcopy(before), survivors)
    try:
        returned = await call_guarded(compactor.compact, *given, scope=hooks.scope, seconds=seconds)
        after = read_guarded(_read_messages, before, returned)
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


def _read_list(result: object) -> Sequence[Message]:
    if not isinstance(result, list | tuple) or not all(isinstance(message, dict) for message in result):
        raise UserCodeFailed(f"a compactor must return a list of messages, not {shown(result)}")
    return result


def _read_messages(before: Sequence[Message], result: object) -> tuple[Message, ...]:
    """Validate what a compactor returned, before anything is committed."""
    try:
        # Plain copies, so that no method of the compactor's objects runs inside a commit.
        after = msgspec.json.decode(msgspec.json.encode(_read_list(result)), type=tuple[Message, ...])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UserCodeFailed(
            f"a compactor must return messages that can be stored as JSON: {describe(error)}"
        ) from error
    wrong = fault_in_compacted(before, after) or _lost_question(before, after)
    if wrong is not None:
        raise UserCodeFailed(wrong)
    return after


def _lost_question(before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """Why a run cannot go on with `after`: a message of the user that has no reply yet is missing."""
    returned = {content_key(message) for message in after}
    replies = (place for place, message in enumerate(before) if _is_reply(message))
    for message in before[max(replies, default=-1) + 1 :]:
        if message.get("role") == "user" and content_key(message) not in returned:
            return (
                f"a compactor left out the message {shown(text_of(message))} of the user, which has no reply yet; "
                "keep the messages after the last reply"
            )
    return None


def _summary(before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """The text that stands for the archived messages, whatever its role; None if the compactor wrote none."""
    known = {content_key(message) for message in before}
    new = (message for message in after if content_key(message) not in known)
    # A call or a result that a compactor has shortened is not a summary.
    return next(
        (text_of(message) for message in new if message["role"] != "tool" and "tool_calls" not in message), None
    )

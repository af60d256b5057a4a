"""Compaction of a running conversation: the compactors, and the step that calls one with its hooks."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import deepcopy
from itertools import dropwhile
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.blocks import UnreadableBlock, estimated_tokens, resource_text
from sideband.core.compacted import fault_in_compacted
from sideband.core.errors import InvalidOption, shown
from sideband.core.hookevents import SessionEvent
from sideband.core.lifecycle import content_key, plan_compaction
from sideband.core.messages import Message, text_of
from sideband.core.reminder import Reminder
from sideband.core.transcript import DEFAULT_KEEP_LAST, read_compacted
from sideband.loop.cancel import CancelScope
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, UserCodeFailed, call_guarded, describe, read_guarded
from sideband.loop.hooks import HookRunner, blocks
from sideband.ports import ModelError
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
        self._scale = prompt.measured / estimated if prompt.measured and estimated else 1.0
        self.fixed = self._scale * prompt.fixed
        self.messages = [self._scale * size for size in sizes]

    def whole(self, messages: Sequence[Message]) -> float:
        """The size of a prompt with these messages."""
        return self.fixed + self._scale * sum(map(estimate_message, messages))


def _is_reply(message: Message) -> bool:
    return message.get("role") == "assistant"


def _is_summary(message: Message) -> bool:
    return message.get("role") == "system"


# Compactors.


class Compaction(NamedTuple):
    """The messages to go on with, and what there is to report about them, if anything."""

    messages: Sequence[Message]
    problem: str | None = None


class TokenCompactor(ABC):
    """A built-in compactor: it archives the oldest messages, until the rest fits into half of the context window.

    At most `keep_last` messages are kept, also if the window is unknown. A tool result is never separated from its call,
    and the last reply and what came after it are always kept, because no request has shown them yet. If the prompt is
    still over the target, this is reported once, until a compaction reaches the target again.
    """

    def __init__(self, keep_last: int = DEFAULT_KEEP_LAST) -> None:
        self.keep_last = keep_last
        self._has_reported = False

    async def compact(
        self, messages: Sequence[Message], _reminders: Sequence[Reminder], prompt: PromptSize = UNKNOWN_SIZE
    ) -> Compaction:
        sizes, target = _Sizes(messages, prompt), prompt.target
        kept = self._always_kept(messages)
        start = self._kept_from(messages, sizes, kept, target)
        archived = [message for place, message in enumerate(messages[:start]) if place not in kept]
        if self._archives_nothing(archived):
            return Compaction(messages, self._overlong(sizes.whole(messages), target, "nothing can be archived"))
        try:
            replacement = await self._replacement(archived)
        except ModelError as error:
            return Compaction(messages, f"the model wrote no summary: {error}")
        after = [*replacement, *(messages[place] for place in sorted(kept) if place < start), *messages[start:]]
        archiving = f"{len(archived)} of {len(messages)} messages were archived, which is not enough"
        return Compaction(after, self._overlong(sizes.whole(after), target, archiving))

    def _kept_from(
        self, messages: Sequence[Message], sizes: _Sizes, kept: Collection[int], target: float | None
    ) -> int:
        """The index from which on all messages are kept; `kept` are the indices of messages that are kept anyway."""
        start, used = len(messages), sizes.fixed + sum(sizes.messages[place] for place in kept)
        while start > 0 and len(messages) - start < self.keep_last:
            used += 0 if start - 1 in kept else sizes.messages[start - 1]
            if target is not None and used > target:
                break
            start -= 1
        while start < len(messages) and messages[start].get("role") == "tool":
            start += 1
        return min(start, sizes.last_reply)

    def _overlong(self, size: float, target: float | None, archiving: str) -> str | None:
        """What to report of a prompt of this size; None if it is under the target, or was reported before."""
        is_reported, self._has_reported = self._has_reported, target is not None and size > target
        if target is None or not self._has_reported or is_reported:
            return None
        return (
            f"{archiving}: the prompt has about {size:,.0f} tokens, and the target is {target:,.0f}, but everything in it "
            "is part of the last step; shorten the task, the system text, the tools or their results"
        )

    def _always_kept(self, _messages: Sequence[Message]) -> Collection[int]:
        """The indices of messages that are kept even if they are old."""
        return ()

    def _archives_nothing(self, archived: Sequence[Message]) -> bool:
        return not archived

    @abstractmethod
    async def _replacement(self, archived: Sequence[Message]) -> Sequence[Message]:
        """What stands for the archived messages."""


class KeepLast(TokenCompactor):
    """Keeps the last messages only, and what the user has said in the turn that runs: its task."""

    def _always_kept(self, messages: Sequence[Message]) -> Collection[int]:
        # A reply without calls ends a turn, unless it is the last message: a reminder may ask for one more reply.
        ends = (place for place, message in enumerate(messages[:-1]) if _is_reply(message) and not _calls(message))
        begun = max(ends, default=-1) + 1
        return frozenset(place for place in range(begun, len(messages)) if messages[place].get("role") == "user")

    async def _replacement(self, _archived: Sequence[Message]) -> Sequence[Message]:
        return ()


class Summarize(TokenCompactor):
    """Replaces all but the last messages with a summary."""

    def __init__(self, summarise: Summarise, keep_last: int = DEFAULT_KEEP_LAST) -> None:
        super().__init__(keep_last)
        self.summarise = summarise

    def _archives_nothing(self, archived: Sequence[Message]) -> bool:
        # A summary of nothing but the last summary would cost a request in every turn, and make nothing shorter.
        return all(map(_is_summary, archived))

    async def _replacement(self, archived: Sequence[Message]) -> Sequence[Message]:
        return ({"role": "system", "content": await self.summarise(archived)},)


def as_document(messages: Sequence[Message]) -> str:
    """The messages as one text, for a model that is to summarise them and not to go on with the conversation.

    What users and tools have said cannot pass for a reminder there.
    """
    return neutralise_all("\n\n".join(_paragraph(message) for message in messages))


def _paragraph(message: Message) -> str:
    content = message["content"]
    blocks = [content] if isinstance(content, str) else map(_block_text, content)
    calls = [f"calls {call['name']} with {msgspec.json.encode(call['args']).decode()}" for call in _calls(message)]
    name = f" {message['name']}" if "name" in message else ""
    return f"{message['role']}{name}: " + "\n".join(filter(None, (*(text.strip() for text in blocks), *calls)))


def _block_text(block: Mapping[str, Any]) -> str:
    """The text of a block; of other content its type, and its URI if it is a resource."""
    kind = block.get("type", "text")
    if kind == "text":
        return str(block.get("text", ""))
    inner = block.get("resource")
    uri = (inner if isinstance(inner, Mapping) else block).get("uri")
    try:
        text = resource_text(block)
    except UnreadableBlock:
        text = None
    return "\n".join(filter(None, (f"[{kind}]" if uri is None else f"[{kind} {uri}]", text)))


def _calls(message: Message) -> Sequence[dict[str, Any]]:
    calls: Sequence[dict[str, Any]] = message.get("tool_calls", ())
    return calls


class Custom:
    """Calls a compactor of the user with copies of the messages, and with the reminders that survive."""

    def __init__(self, compactor: Callable[..., Any]) -> None:
        self.compactor = compactor

    async def compact(
        self, messages: Sequence[Message], reminders: Sequence[Reminder], _prompt: PromptSize = UNKNOWN_SIZE
    ) -> Compaction:
        # Copies, so that changing a message does not change the session. The time limit is the run's, in `compact` below.
        returned = await call_guarded(self.compactor, deepcopy(messages), reminders)
        return Compaction(read_guarded(_read_plain, returned))


RunCompactor: TypeAlias = TokenCompactor | Custom


def _read_plain(returned: object) -> tuple[Message, ...]:
    """The returned messages as plain copies, so that no method of the compactor's objects runs inside a commit."""
    try:
        return msgspec.json.decode(msgspec.json.encode(read_compacted(returned)), type=tuple[Message, ...])
    except InvalidOption as error:
        raise UserCodeFailed(str(error)) from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UserCodeFailed(
            f"a compactor must return messages that can be stored as JSON: {describe(error)}"
        ) from error


# The step.


async def compact(
    talk: Conversation, compactor: RunCompactor, hooks: HookRunner, *, seconds: float, prompt: PromptSize = UNKNOWN_SIZE
) -> int:
    """Compact and return how many messages were archived; 0 if nothing was compacted, a hook blocked it, or it failed."""
    before = tuple(talk.state.messages)
    payload = {"messages": len(before), "reminders": len(talk.state.live)}
    if any(map(blocks, await hooks.notify(SessionEvent.PRE_COMPACT, payload))):
        return 0
    begun_at, in_turn = talk.state.live.next_place, talk.state.running
    survivors = plan_compaction(talk.state).survivors
    after, problem = await _compacted(compactor.compact, before, survivors, prompt, scope=hooks.scope, seconds=seconds)
    if problem is not None:
        hooks.report(Problem("compactor", problem))
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


async def _compacted(
    compact: Callable[..., Awaitable[Compaction]],
    before: Sequence[Message],
    *given: object,
    scope: CancelScope,
    seconds: float,
) -> Compaction:
    """What the compactor makes of `before`; the same messages and a problem if it failed, or if they cannot be used."""
    try:
        compaction: Any = await call_guarded(compact, before, *given, scope=scope, seconds=seconds)
    except UserCodeFailed as error:
        return Compaction(before, str(error))
    after, problem = compaction
    wrong = fault_in_compacted(before, after) or _lost_question(before, after)
    return Compaction(after, problem) if wrong is None else Compaction(before, wrong)


def _lost_question(before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """Why a run cannot go on with `after`: it does not end with the messages that have no reply yet."""
    replies = (place for place, message in enumerate(before) if _is_reply(message))
    # A summary at the beginning asks nothing.
    asked = list(dropwhile(_is_summary, before[max(replies, default=-1) + 1 :]))
    wanted, found = list(map(_asked_key, asked)), list(map(_asked_key, after))
    if not asked or found[-len(asked) :] == wanted:
        return None
    lost = next((message for message in asked if _asked_key(message) not in found), asked[-1])
    return (
        f"a compactor left out or moved {shown(text_of(lost))}, which has no reply yet; the messages after the last reply "
        "must stay the last ones, in their order"
    )


def _asked_key(message: Message) -> str:
    """What identifies a message without a reply; a compactor may shorten the result of a tool."""
    return f"result of {message.get('tool_call_id')}" if message.get("role") == "tool" else content_key(message)


def _summary(before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """The text that stands for the archived messages, whatever its role; None if the compactor wrote none."""
    known = {content_key(message) for message in before}
    new = (message for message in after if content_key(message) not in known)
    # A call or a result that a compactor has shortened is not a summary.
    return next(
        (text_of(message) for message in new if message["role"] != "tool" and "tool_calls" not in message), None
    )

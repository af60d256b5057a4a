"""A chat: a session that answers prompts one after another, for as long as the program wants."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, nullcontext, suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, Unpack

import msgspec

from sideband.core.errors import CursorExpired, CursorLost, StoreClosed, UnknownSession, shown
from sideband.core.events import (
    Closed,
    Deleted,
    Event,
    InjectRevoked,
    Started,
    TurnCommitted,
    Usage,
)
from sideband.core.messages import Message, text_of
from sideband.loop.guard import Problem
from sideband.ports import Logged
from sideband.runtime.options import AgentOptions
from sideband.runtime.runner import Runner, TurnStatus, status_of_end, status_of_withdrawn
from sideband.runtime.session import Session

# Of the prompts that `send` has answered, so many are remembered, so that the chat does not yield their replies again.
MAX_SENT: Final = 4096


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a prompt.

    `id` is the id of the last message of the model (None: it sent none), and `prompt_id` that of the prompt (None: an
    interrupt started the turn). `status` is that of the run, or `closed` if the session was closed first. `turns` and `usage` count what this prompt has used. `error` is the model's final failure. `error` and
    `problems` are known if this process has run the prompt.
    """

    text: str
    id: str | None
    prompt_id: str | None
    status: TurnStatus
    turns: int = 0
    usage: Usage = Usage()
    error: str | None = None
    problems: tuple[Problem, ...] = ()


class _Answer(NamedTuple):
    """The answer to a prompt as far as the journal tells it; `is_open` while its turn runs."""

    prompt_id: str = ""
    is_open: bool = False
    reply: Message | None = None
    turns: int = 0
    usage: Usage = Usage()

    def after(self, event: Event) -> "_Answer":
        match event:
            case Started(message_id=prompt_id):
                return _Answer(prompt_id, is_open=True)
            case TurnCommitted(reply=reply, usage=usage):
                return self._replace(
                    reply=reply or self.reply, turns=self.turns + 1, usage=self.usage + (usage or Usage())
                )
            case _:
                return self

    def ended(self, status: TurnStatus) -> ChatReply:
        return ChatReply(
            text="" if self.reply is None else text_of(self.reply),
            id=None if self.reply is None else self.reply.get("id"),
            prompt_id=self.prompt_id or None,
            status=status,
            turns=self.turns,
            usage=self.usage,
        )


class _Position(NamedTuple):
    """A place in the journal and the answer that is open there; `reply` is the one that the event there has completed.

    A prompt that was withdrawn before its turn has a reply too, for the caller of `send`.
    """

    at: int
    answer: _Answer
    reply: ChatReply | None = None
    is_withdrawn: bool = False


class Chat:
    """Answers the prompts of a session, each in a run of its own; `Session.chat` makes one.

    `send` sends a prompt and returns its reply. Iterating yields the replies to all other prompts, which this or another
    program has queued with `Session.prompt`, in order, until the session or the chat is closed. A failing model is a
    reply with the status `failed`, and the chat goes on. So it does after a cancelled turn: without
    `queue_after_cancel="hold"`, what is queued is answered next.

    Write `async with session.chat(model=…) as chat:`, or iterate directly: `async for reply in session.chat(model=…):`.
    """

    def __init__(self, session: Session, **options: Unpack[AgentOptions]) -> None:
        # With "hold", a prompt that waits in `send` would wait for another prompt after any cancelled turn.
        options.setdefault("queue_after_cancel", "deliver")
        self.session = session
        self._runner = Runner(session, **options)
        self._holds_queue = options["queue_after_cancel"] == "hold"
        self._journal = session.talk.journal
        # Up to where the chat has yielded replies; None before it is entered.
        self._position: _Position | None = None
        self._closed = asyncio.Event()
        self._sent: dict[str, None] = {}

    async def __aenter__(self) -> Self:
        if self._position is not None:
            raise RuntimeError("a chat can be entered once; make another one with session.chat(...)")
        if self.session.talk.state.closed:
            raise UnknownSession(f"session {shown(self.session.id)} is closed", field="session", value=self.session.id)
        self._position = await self._now()
        self._runner.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the chat: a turn that runs is cancelled, and what is queued stays queued."""
        await self._runner.aclose()
        self._closed.set()

    # Prompts and replies.

    async def send(self, content: str | Sequence[Mapping[str, Any]]) -> ChatReply:
        """Send a prompt and return the reply to it, whichever process answers it.

        Prompts are answered in the order in which they were accepted. If the task that waits here is cancelled, or its
        time is up, the turn of this prompt is cancelled too; the other prompts are answered.
        """
        if self._position is None or self._closed.is_set():
            state = "closed" if self._closed.is_set() else "not open yet"
            raise RuntimeError(f"the chat is {state}; write 'async with session.chat(...) as chat:'")
        now = await self._now()
        prompting = asyncio.ensure_future(self.session.prompt(content))
        try:
            prompt_id = await asyncio.shield(prompting)
            self._remember(prompt_id)
            async with aclosing(self._follow(now)) as positions:
                async for position in positions:
                    if position.reply is not None and position.reply.prompt_id == prompt_id:
                        return position.reply
        except asyncio.CancelledError:
            # A commit cannot be cancelled: the prompt is accepted, or will be in a moment.
            with suppress(Exception):
                await self.session.cancel(await prompting, hold_queue=False)
            raise
        if self._closed.is_set():
            raise RuntimeError(f"the chat was closed before prompt {prompt_id} was answered; it is still queued")
        raise StoreClosed

    async def cancel(self, prompt_id: str | None = None) -> bool:
        """End the turn that runs, or only that of this prompt; the chat goes on with what is queued.

        With `queue_after_cancel="hold"`, what is queued waits for the next prompt. See `Session.cancel`.
        """
        return await self.session.cancel(prompt_id, hold_queue=self._holds_queue)

    async def __aiter__(self) -> AsyncIterator[ChatReply]:
        async with nullcontext() if self._position is not None else self, aclosing(self._others()) as replies:
            async for reply in replies:
                yield reply

    async def _others(self) -> AsyncGenerator[ChatReply, None]:
        """The replies that no call of `send` returns."""
        async with aclosing(self._follow(self._position or await self._now())) as positions:
            async for position in positions:
                self._position, reply = position, position.reply
                if reply is None or position.is_withdrawn or reply.prompt_id in self._sent:
                    continue
                if reply.turns or reply.prompt_id is not None:
                    yield reply

    def _remember(self, prompt_id: str) -> None:
        self._sent[prompt_id] = None
        if len(self._sent) > MAX_SENT:
            del self._sent[next(iter(self._sent))]

    # The journal.

    async def _now(self) -> _Position:
        answer, at = await self._journal.read(
            self.session.id, lambda state: _Answer(state.prompt, is_open=state.running)
        )
        return _Position(at, answer)

    async def _follow(self, position: _Position) -> AsyncGenerator[_Position, None]:
        """Every position after this one."""
        async with aclosing(self._events(position.at)) as events:
            async for logged in events:
                event, answer, reply = logged.event, position.answer.after(logged.event), None
                is_withdrawn = isinstance(event, InjectRevoked)
                if isinstance(event, InjectRevoked):
                    reply = _Answer(event.message_id).ended(status_of_withdrawn(event))
                elif answer.is_open and (status := status_of_end(event)) is not None:
                    reply = await self._completed(answer.ended(status))
                    answer = _Answer()
                position = _Position(logged.sequence, answer, reply, is_withdrawn)
                yield position
                if isinstance(event, Closed | Deleted):
                    return

    async def _completed(self, reply: ChatReply) -> ChatReply:
        """The reply with what the journal does not have."""
        result = None if reply.prompt_id is None else await self._runner.result(reply.prompt_id)
        if result is None:
            return reply
        return msgspec.structs.replace(reply, error=result.error, problems=result.problems)

    async def _events(self, after: int) -> AsyncGenerator[Logged, None]:
        """The events of the session until the store is closed, or up to the last one if the chat is closed."""
        session_id = self.session.id
        while True:
            is_closed = self._closed.is_set()
            read = self._journal.history if is_closed else self._journal.subscribe
            try:
                async with aclosing(read(session_id=session_id, after=after)) as events:
                    while (logged := await self._next(events, wait=is_closed)) is not None:
                        after = logged.sequence
                        yield logged
            except CursorLost:
                # The journal still has what this subscriber was too slow for.
                continue
            except CursorExpired as expired:
                after = expired.oldest
                continue
            except StoreClosed:
                return
            if is_closed or not self._closed.is_set():
                return

    async def _next(self, events: AsyncGenerator[Logged, None], *, wait: bool) -> Logged | None:
        """The next event; None at the end, or when the chat is closed unless `wait`."""
        if wait:
            return await anext(events, None)
        waiting = asyncio.ensure_future(anext(events, None))
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((waiting, closing), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            closing.cancel()
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait((waiting,))

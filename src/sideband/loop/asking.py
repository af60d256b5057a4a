"""One turn: a request planned, put on record, sent, retried where that helps, and answered."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from sideband.core.lifecycle import OpenRequest
from sideband.core.state import SessionState
from sideband.loop.conversation import Conversation
from sideband.loop.problems import Problem, describe
from sideband.loop.scope import Ended, OutOfTime, Scope
from sideband.ports import Advice, Clock, Model, ModelError, OnText, Plan, Reply, ToolCall
from sideband.render.view import RequestView, SystemText

# A request is sent at most so often: once, and four times more.
MAX_ATTEMPTS: Final = 5
BACKOFF_SECONDS: Final = 0.5
MAX_REPLY_CHARACTERS: Final = 10_000_000


OnRestart: TypeAlias = Callable[[int, ModelError], None]


class Asker:
    """Asks a model on behalf of a conversation."""

    def __init__(
        self,
        talk: Conversation,
        model: Model,
        clock: Clock,
        scope: Scope,
        report: Callable[[Problem], None],
        *,
        seconds: float,
        on_text: OnText | None = None,
        on_restart: OnRestart | None = None,
    ) -> None:
        self._talk = talk
        self._model = model
        self._clock = clock
        self._scope = scope
        self._report = report
        self._seconds = seconds
        self._on_text = on_text
        self._on_restart = on_restart
        self._advised: set[Advice] = set()

    async def turn(self, system: SystemText, tools: Sequence[Mapping[str, Any]]) -> Reply:
        """The reply, committed. A request that failed for good leaves its turn open, to be voided."""
        opened = await self._talk.open_request(lambda state, left: self._plan(state, left, system, tools))
        self._advise(opened.plan.advice)
        attempt, tries = opened.attempt, 1
        while True:
            try:
                reply = await self._send(opened.plan)
            except ModelError as error:
                if not error.retryable or tries == MAX_ATTEMPTS:
                    raise
                await self._scope.inside(self._clock.sleep(BACKOFF_SECONDS * 2 ** (tries - 1)))
                attempt, tries = attempt + 1, tries + 1
                self._restarted(attempt, error)
                await self._talk.retry_request(opened, attempt=attempt)
            else:
                if not await self._talk.close_turn(reply):
                    raise Ended
                return reply

    def _plan(
        self, state: SessionState, left: OpenRequest | None, system: SystemText, tools: Sequence[Mapping[str, Any]]
    ) -> Plan:
        view = RequestView(
            turn=state.live.turn + 1,
            system=system.before,
            system_after=system.after,
            messages=state.messages,
            tools=tools,
            live=state.live,
            session_id=self._talk.session_id,
            window=state.window,
            ledger=state.ledger,
            again=None if left is None else left.fragments,
        )
        try:
            return self._model.plan(view)
        except Exception as error:
            raise ModelError(f"no request could be built: {describe(error)}") from error

    def _advise(self, advice: Sequence[Advice]) -> None:
        # Once is enough: the same would be said of every request that shows the reminder.
        for entry in advice:
            if entry not in self._advised:
                self._advised.add(entry)
                self._report(Problem(entry.code, entry.message))

    async def _send(self, plan: Plan) -> Reply:
        try:
            answer = self._model.complete(plan, None if self._on_text is None else self._say)
            return _checked(await self._scope.inside(answer, seconds=self._seconds))
        except OutOfTime:
            raise ModelError(f"no reply within {self._seconds:g} s", retryable=True) from None
        except (ModelError, Ended):
            raise
        except Exception as error:
            lost = isinstance(error, ConnectionError | TimeoutError)
            raise ModelError(f"the model failed: {describe(error)}", retryable=lost) from error

    # Whoever listens may fail; the reply is none the worse for it.

    async def _say(self, text: str) -> None:
        if self._on_text is None:
            return
        try:
            told = self._on_text(text)
            if isinstance(told, Awaitable):
                await told
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._on_text = None
            self._report(Problem("on_text", describe(error)))

    def _restarted(self, attempt: int, why: ModelError) -> None:
        # Text of the broken attempt may have been shown already: whoever shows it starts over.
        if self._on_restart is None:
            return
        try:
            self._on_restart(attempt, why)
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._report(Problem("on_restart", describe(error)))


def _checked(reply: object) -> Reply:
    """A reply that can be kept, and whose calls can each have a result of their own."""
    if not isinstance(reply, Reply):
        raise ModelError(f"the model returned {type(reply).__name__}, which is no reply")
    try:
        reply = msgspec.convert(msgspec.to_builtins(reply), Reply)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the model returned a reply that cannot be kept: {describe(error)}") from error
    if len(reply.text) > MAX_REPLY_CHARACTERS:
        raise ModelError(f"the model's reply has {len(reply.text):,} characters")
    if len(reply.tool_calls) <= 1 or len({call.id for call in reply.tool_calls}) == len(reply.tool_calls):
        return reply
    calls: dict[str, ToolCall] = {}
    for call in reply.tool_calls:
        call_id = call.id
        while call_id in calls:
            call_id += "'"
        calls[call_id] = msgspec.structs.replace(call, id=call_id)
    return msgspec.structs.replace(reply, tool_calls=tuple(calls.values()))

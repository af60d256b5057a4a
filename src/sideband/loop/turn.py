"""One turn: plan a request, record it, send it, and commit the reply."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from sideband.core.errors import NothingToAnswer, shown
from sideband.core.ledger import Fragment, RequestHead
from sideband.core.live import LiveIndex
from sideband.core.messages import Reply, ToolCall, storable_tree
from sideband.core.state import SessionState
from sideband.core.turn import Shown, Unusable, repeatable_request
from sideband.loop.cancel import CancelScope, Ended, OutOfTime
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, describe, name_of
from sideband.loop.lease import HeldLease
from sideband.ports import Clock, Model, ModelError, OnText, Tool
from sideband.render.plan import Advice, Plan
from sideband.render.view import RequestView, SystemText

# One request and four retries.
MAX_ATTEMPTS: Final = 5
BACKOFF_SECONDS: Final = 0.5
# A service may ask for a longer pause, up to this.
LONGEST_PAUSE_SECONDS: Final = 60.0

# Larger than any real reply. A larger one is a fault of the model, and every later request would have to carry it.
MAX_REPLY_BYTES: Final = 10_000_000
MAX_CALLS: Final = 256
MAX_CALL_ID: Final = 1_024
MAX_CALL_NAME: Final = 256

OnRestart: TypeAlias = Callable[[int, ModelError], Awaitable[None] | None]
# Awaited before a request is sent again, with the number of the attempt.
OnRetry: TypeAlias = Callable[[int], Awaitable[None]]

# How a failure begins that describes an exception, whose text may not be meant for the other end of a connection.
NOT_BUILT: Final = "no request could be built: "
CRASHED: Final = "the model failed: "
NOT_STORED: Final = "the model's reply cannot be stored: "
DESCRIBES_EXCEPTION: Final = (NOT_BUILT, CRASHED, NOT_STORED)

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Reply)


class TurnRunner:
    """Runs the turns of one conversation with one model, system text and set of tools.

    With a lease that can lapse, no request is sent unless enough of the lease is left.
    """

    def __init__(
        self,
        talk: Conversation,
        model: Model,
        sender: "RequestSender",
        report: Callable[[Problem], None],
        *,
        system: SystemText,
        tools: Sequence[Mapping[str, Any]] = (),
        lease: HeldLease | None = None,
    ) -> None:
        self._talk = talk
        self._model = model
        self._sender = sender
        self._report = report
        self._system = system
        self._tools = tools
        self._lease = lease if lease is not None and lease.lapses else None
        self._advised: set[Advice] = set()

    async def run(self) -> Reply:
        """Run one turn and return its committed reply.

        Raise `Ended` if the turn was cancelled. After `ModelError` the turn is still open, for the caller to void.
        """
        if self._lease is not None:
            await self._lease.ensure()
        opened, plan = await self._talk.open_request(self._plan)
        self._advise(plan.advice)

        async def retry(attempt: int) -> None:
            if self._lease is not None:
                await self._lease.ensure()
            if not await self._talk.repeat_request(opened.turn, attempt=attempt):
                raise Ended

        reply = await self._sender.send(plan, attempt=opened.attempt, on_retry=retry)
        if not await self._talk.close_turn(reply):
            raise Ended
        return reply

    def _plan(self, state: SessionState) -> tuple[Plan, bool]:
        """The request for this state, and whether it repeats the request that a dead process left open."""
        left = repeatable_request(state)
        if left is not None:
            plan = make_plan(self._model, self._view(state, again=left.fragments))
            if plan.route == left.route:
                return plan, True
        return make_plan(self._model, self._view(state, again=None)), False

    def _view(self, state: SessionState, *, again: tuple[Fragment, ...] | None) -> RequestView:
        return RequestView(
            turn=state.live.turn + 1,
            system=self._system.before,
            system_after=self._system.after,
            messages=state.messages,
            tools=self._tools,
            live=state.live,
            session_id=self._talk.session_id,
            window=state.window,
            ledger=state.ledger,
            again=again,
            known_route="" if state.head is None else state.head.route,
        )

    def _advise(self, advice: Sequence[Advice]) -> None:
        """Report each piece of advice once; every later request that shows the reminder would repeat it."""
        for entry in advice:
            if entry not in self._advised:
                self._advised.add(entry)
                self._report(Problem("request", f"{entry.code}: {entry.message}"))


# Planning.


def described(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as a request describes them."""
    return [{"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)} for tool in tools]


def make_plan(model: Model, view: RequestView) -> Plan:
    """The model's plan for a view, validated before it is committed; `ModelError` if there is no valid one.

    `NothingToAnswer` if a request would say nothing new.
    """
    try:
        plan: object = model.plan(view)
        return _validated(plan, view)
    except (KeyboardInterrupt, NothingToAnswer):
        raise
    except BaseException as error:
        raise ModelError(f"{NOT_BUILT}{describe(error)}") from error


def _validated(plan: object, view: RequestView) -> Plan:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan() returned {type(plan).__name__}, not a Plan")
    # Only plain values: the plan is read again inside the commit, where no code of the model may run.
    if type(plan.route) is not str:
        raise TypeError(f"route must be a string, not {shown(plan.route)}")
    for name in ("shown", "left_out", "unusable", "fragments"):
        if type(getattr(plan, name)) is not tuple:
            raise TypeError(f"{name} must be a tuple, not {shown(getattr(plan, name))}")
    for entry in plan.shown:
        # A repeated request may show a reminder that has ended since.
        if type(entry) is not Shown or (view.again is None and entry.reminder_id not in view.live):
            raise ValueError(f"the plan shows {shown(entry)}, which is not live")
    _validate_rest(plan, view.live)
    return plan


def _validate_rest(plan: Plan, live: LiveIndex) -> None:
    for entries, kind in ((plan.unusable, Unusable), (plan.fragments, Fragment), (plan.advice, Advice)):
        if not all(isinstance(entry, kind) for entry in entries):
            raise TypeError(f"the plan has {shown(entries)} instead of {kind.__name__}s")
    if not isinstance(plan.head, RequestHead | None):
        raise TypeError(f"the plan has {shown(plan.head)} instead of a RequestHead")
    for reminder_id in (*plan.left_out, *(entry.reminder_id for entry in plan.unusable)):
        if reminder_id not in live:
            raise ValueError(f"the plan leaves out {shown(reminder_id)}, which is not live")


# Sending.


class RequestSender:
    """Sends requests to a model: with a time-out, retries, and listeners for streamed text.

    A request has `seconds`; a listener has `listener_seconds` for each piece of text.
    """

    def __init__(
        self,
        model: Model,
        clock: Clock,
        scope: CancelScope,
        report: Callable[[Problem], None],
        *,
        seconds: float,
        listener_seconds: float,
        on_text: OnText | None = None,
        on_restart: OnRestart | None = None,
    ) -> None:
        self._model = model
        self._clock = clock
        self._scope = scope
        self._report = report
        self._seconds = seconds
        # Shorter than the time-out of the request, so that a slow listener is not reported as a slow model.
        self._listener_seconds = min(listener_seconds, seconds / 2)
        # Cancelling the request does not cancel a listener: text that has arrived is handed over.
        self._listening = scope.sibling()
        self._on_text = on_text
        self._on_restart = on_restart

    async def send(self, plan: Plan, *, attempt: int = 1, on_retry: OnRetry | None = None) -> Reply:
        """The reply, after retries if needed; `ModelError` if the model fails for good."""
        tries = 1
        while True:
            try:
                return await self._send_once(plan)
            except ModelError as error:
                if not error.retryable or tries == MAX_ATTEMPTS:
                    raise
                await self._scope.run(self._clock.sleep(_pause(error, tries)))
                attempt, tries = attempt + 1, tries + 1
                if on_retry is not None:
                    await on_retry(attempt)
                # A listener may already have shown text of the failed attempt: it has to start over.
                if self._on_restart is not None:
                    await self._notify("on_restart", self._on_restart, attempt, error)

    async def _send_once(self, plan: Plan) -> Reply:
        try:
            return read_reply(await self._scope.run(self._complete(plan), seconds=self._seconds))
        except OutOfTime:
            raise ModelError(f"no reply within {self._seconds:g} s", retryable=True) from None
        except (ModelError, Ended):
            raise
        except Exception as error:
            lost = isinstance(error, ConnectionError | TimeoutError)
            raise ModelError(f"{CRASHED}{describe(error)}", retryable=lost) from error

    async def _complete(self, plan: Plan) -> object:
        return await self._model.complete(plan, None if self._on_text is None else self._pass_text)

    async def _pass_text(self, text: str) -> None:
        # A listener that fails gets no more text; the reply is not affected.
        if self._on_text is not None and not await self._notify("on_text", self._on_text, text):
            self._on_text = None

    async def _notify(self, name: str, listener: Callable[..., Any], *args: object) -> bool:
        """Call a listener; report a failure and return False."""
        try:
            await self._listening.run(_call(listener, *args), seconds=self._listener_seconds)
        except OutOfTime:
            self._report(Problem(name, f"{name_of(listener)} took longer than {self._listener_seconds:g} s"))
        except Exception as error:  # noqa: BLE001 - a listener is user code
            self._report(Problem(name, describe(error)))
        else:
            return True
        return False


def _pause(error: ModelError, tries: int) -> float:
    own = BACKOFF_SECONDS * 2.0 ** (tries - 1)
    return own if error.retry_after is None else max(own, min(error.retry_after, LONGEST_PAUSE_SECONDS))


async def _call(listener: Callable[..., Any], *args: object) -> None:
    result = listener(*args)
    if isinstance(result, Awaitable):
        await result


def read_reply(reply: object) -> Reply:
    """The reply as the journal will give it back, with call ids that are unique."""
    if not isinstance(reply, Reply):
        raise ModelError(f"the model returned {type(reply).__name__} instead of a Reply")
    try:
        try:
            raw = _ENCODER.encode(reply)
        except UnicodeEncodeError:
            # Lone surrogates are replaced; the rest of the reply is kept.
            raw = _ENCODER.encode(storable_tree(msgspec.to_builtins(reply)))
        kept = _DECODER.decode(raw)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelError(f"{NOT_STORED}{describe(error)}") from error
    if len(raw) > MAX_REPLY_BYTES:
        raise ModelError(f"the model's reply has {len(raw):,} bytes; at most {MAX_REPLY_BYTES:,} are accepted")
    usage, calls = kept.usage, kept.tool_calls
    if usage.prompt_tokens < 0 or usage.cached_tokens < 0 or usage.written_tokens < 0 or usage.output_tokens < 0:
        raise ModelError("the model reported a negative number of tokens")
    return kept if not calls else _with_unique_calls(kept, calls)


def _with_unique_calls(reply: Reply, calls: tuple[ToolCall, ...]) -> Reply:
    if len(calls) > MAX_CALLS:
        raise ModelError(f"the model asks for {len(calls):,} calls at once; at most {MAX_CALLS} are accepted")
    for call in calls:
        if len(call.id) > MAX_CALL_ID or len(call.name) > MAX_CALL_NAME:
            raise ModelError(
                f"the model's call has a name of {len(call.name):,} and an id of {len(call.id):,} characters; "
                f"at most {MAX_CALL_NAME} and {MAX_CALL_ID:,} are accepted"
            )
    if len(calls) == 1 or len({call.id for call in calls}) == len(calls):
        return reply
    renamed: dict[str, ToolCall] = {}
    for call in calls:
        call_id = call.id
        while call_id in renamed:
            call_id += "'"
        renamed[call_id] = msgspec.structs.replace(call, id=call_id)
    return msgspec.structs.replace(reply, tool_calls=tuple(renamed.values()))

"""Sending a request: within its time, again where that helps, and never for a reply that nobody could keep."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec

from sideband.loop.foreign import name_of
from sideband.loop.messages import storable_tree
from sideband.loop.problems import Problem, describe
from sideband.loop.scope import Ended, OutOfTime, Scope
from sideband.ports import Clock, Model, ModelError, OnText, Plan, Reply, ToolCall

# A request is sent at most so often: once, and four times more.
MAX_ATTEMPTS: Final = 5
BACKOFF_SECONDS: Final = 0.5
# A service may ask for a longer pause, up to this.
LONGEST_PAUSE_SECONDS: Final = 60.0

# More than any model writes; beyond it the reply is a mistake, and would be one in every request to come.
MAX_REPLY_BYTES: Final = 10_000_000
MAX_CALLS: Final = 256
MAX_CALL_ID: Final = 1_024
MAX_CALL_NAME: Final = 256

OnRestart: TypeAlias = Callable[[int, ModelError], Awaitable[None] | None]
# Asked before a request leaves again, with the number of the attempt.
Again: TypeAlias = Callable[[int], Awaitable[None]]

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Reply)


class Sender:
    """Sends requests to a model, and tells whoever listens what arrives.

    A request has `seconds`; a listener has `listener_seconds` for each piece of text.
    """

    def __init__(
        self,
        model: Model,
        clock: Clock,
        scope: Scope,
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
        # Less than the request has, so that nobody takes a slow listener for a slow model.
        self._listener_seconds = min(listener_seconds, seconds / 2)
        # Whoever listens is not ended with the request: text that has arrived is told.
        self._listening = scope.beside()
        self._on_text = on_text
        self._on_restart = on_restart

    async def send(self, plan: Plan, *, attempt: int = 1, again: Again | None = None) -> Reply:
        """The reply; `ModelError` where there is none to be had."""
        tries = 1
        while True:
            try:
                return await self._sent(plan)
            except ModelError as error:
                if not error.retryable or tries == MAX_ATTEMPTS:
                    raise
                await self._scope.inside(self._clock.sleep(_pause(error, tries)))
                attempt, tries = attempt + 1, tries + 1
                if again is not None:
                    await again(attempt)
                # Text of the broken attempt may have been shown already: whoever shows it starts over.
                if self._on_restart is not None:
                    await self._tell("on_restart", self._on_restart, attempt, error)

    async def _sent(self, plan: Plan) -> Reply:
        try:
            return read_reply(await self._scope.inside(self._complete(plan), seconds=self._seconds))
        except OutOfTime:
            raise ModelError(f"no reply within {self._seconds:g} s", retryable=True) from None
        except (ModelError, Ended):
            raise
        except Exception as error:
            lost = isinstance(error, ConnectionError | TimeoutError)
            raise ModelError(f"the model failed: {describe(error)}", retryable=lost) from error

    async def _complete(self, plan: Plan) -> object:
        return await self._model.complete(plan, None if self._on_text is None else self._say)

    # Whoever listens may fail; the reply is none the worse for it.

    async def _say(self, text: str) -> None:
        if self._on_text is not None and not await self._tell("on_text", self._on_text, text):
            self._on_text = None

    async def _tell(self, what: str, listener: Callable[..., Any], *args: object) -> bool:
        """Whether the listener has taken it well."""
        try:
            await self._listening.inside(_told(listener, *args), seconds=self._listener_seconds)
        except OutOfTime:
            self._report(Problem(what, f"{name_of(listener)} took longer than {self._listener_seconds:g} s"))
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._report(Problem(what, describe(error)))
        else:
            return True
        return False


def _pause(error: ModelError, tries: int) -> float:
    own = BACKOFF_SECONDS * 2.0 ** (tries - 1)
    return own if error.retry_after is None else max(own, min(error.retry_after, LONGEST_PAUSE_SECONDS))


async def _told(listener: Callable[..., Any], *args: object) -> None:
    told = listener(*args)
    if isinstance(told, Awaitable):
        await told


def read_reply(reply: object) -> Reply:
    """A reply as the journal will give it back, whose calls can each have a result of their own."""
    if not isinstance(reply, Reply):
        raise ModelError(f"the model returned {type(reply).__name__}, which is no reply")
    try:
        try:
            raw = _ENCODER.encode(reply)
        except UnicodeEncodeError:
            # Half a character: the rest of the reply is none the worse for it.
            raw = _ENCODER.encode(storable_tree(msgspec.to_builtins(reply)))
        kept = _DECODER.decode(raw)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelError(f"the model returned a reply that cannot be kept: {describe(error)}") from error
    if len(raw) > MAX_REPLY_BYTES:
        raise ModelError(f"the model's reply has {len(raw):,} bytes")
    usage, calls = kept.usage, kept.tool_calls
    if usage.prompt_tokens < 0 or usage.cached_tokens < 0 or usage.written_tokens < 0 or usage.output_tokens < 0:
        raise ModelError("the model says that it has used less than no tokens")
    return kept if not calls else _with_calls(kept, calls)


def _with_calls(reply: Reply, calls: tuple[ToolCall, ...]) -> Reply:
    if len(calls) > MAX_CALLS:
        raise ModelError(f"the model asks for {len(calls):,} calls at once")
    for call in calls:
        if len(call.id) > MAX_CALL_ID or len(call.name) > MAX_CALL_NAME:
            raise ModelError(
                f"the model calls a tool under a name or an id of {len(call.name):,} and {len(call.id):,} characters"
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

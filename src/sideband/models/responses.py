"""A reply on the OpenAI Responses wire while it arrives."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from sideband.core.usage import Usage
from sideband.models.arguments import read_arguments
from sideband.models.errors import cut_off, refused, status_named, unanswered
from sideband.models.speech import Speech, whole_value
from sideband.ports import ModelError, Reply, ToolCall
from sideband.render.profile import Wire

_SAID: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_OVER: Final = frozenset({"response.completed", "response.incomplete"})


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Spent(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _Details | None = None


class _Failure(msgspec.Struct):
    code: str | int | None = None
    message: str | None = None
    type: str | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    output: list[dict[str, Any]] = []
    usage: _Spent | None = None
    error: _Failure | None = None
    incomplete_details: _Incomplete | None = None


class Event(msgspec.Struct):
    """One event of the stream, as far as it matters here."""

    type: str
    delta: Any = None
    item: dict[str, Any] | None = None
    response: _Response | None = None
    code: str | int | None = None
    message: str | None = None


class _Call(msgspec.Struct):
    call_id: str
    name: str
    arguments: str = ""


class Answer:
    """A reply while it arrives."""

    def __init__(self, service: str, speech: Speech) -> None:
        self._service = service
        self._speech = speech
        self._items: list[dict[str, Any]] = []
        self._response: _Response | None = None
        self._failure: ModelError | None = None

    async def take(self, event: Event) -> None:
        if event.type in _SAID and isinstance(event.delta, str):
            await self._speech.say(event.delta)
        elif event.type == "response.output_item.done" and event.item is not None:
            self._items.append(event.item)
        elif event.type in _OVER:
            self._response = event.response
        elif event.type == "response.failed":
            failure = (event.response or _Response()).error or _Failure()
            self._failure = refused(self._service, status_named(failure.code, failure.type), failure.message)
        elif event.type == "error":
            self._failure = refused(self._service, status_named(event.code), event.message)

    def reply(self) -> Reply:
        if self._failure is not None:
            raise self._failure
        if self._response is None:
            raise cut_off(self._service)
        incomplete = self._response.incomplete_details
        items = _returnable(whole_value(self._response.output or self._items))
        if not items and incomplete is not None:
            raise unanswered(self._service, f"it stopped with {incomplete.reason}")
        calls = tuple(
            _call(item, is_cut=incomplete is not None and item is items[-1])
            for item in items
            if item.get("type") == "function_call"
        )
        return Reply(
            text=self._speech.text,
            tool_calls=calls,
            usage=_usage(self._response.usage or _Spent()),
            native={Wire.OPENAI_RESPONSES.value: items} if items else None,
        )


def _call(item: dict[str, Any], *, is_cut: bool) -> ToolCall:
    call = msgspec.convert(item, _Call)
    return ToolCall(id=call.call_id, name=call.name, args=read_arguments(call.arguments, is_cut=is_cut))


def _returnable(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that a later request may hold: reasoning without what it led to is refused."""
    kept = list(items)
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    return kept


def _usage(spent: _Spent) -> Usage:
    details = spent.input_tokens_details or _Details()
    return Usage(
        prompt_tokens=spent.input_tokens,
        cached_tokens=details.cached_tokens or 0,
        written_tokens=details.cache_write_tokens or 0,
        output_tokens=spent.output_tokens,
    )

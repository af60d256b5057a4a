"""Models on the two OpenAI APIs, Responses and Chat Completions, through the official client."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable
from typing import Any, ClassVar, Final

import msgspec
import openai
from openai import AsyncOpenAI, AsyncStream, not_given

from sideband.core.events import Usage
from sideband.core.messages import Reply, ToolCall
from sideband.models.client import Endpoint
from sideband.models.errors import COMMON_FAILURES, cut_off, lost, read_failure, refused, status_named, unanswered
from sideband.models.rendered import RenderedModel
from sideband.models.stream import TextStream, read_arguments, whole, whole_value
from sideband.ports import ModelError
from sideband.render.profiles import Wire
from sideband.render.renderer import Rendered

# The SDK requires a key; servers that need no key ignore it.
NO_KEY: Final = "none"


def client_at(endpoint: Endpoint) -> AsyncOpenAI:
    """A client without retries of its own: the loop decides when to retry."""
    timeout = not_given if endpoint.seconds is None else endpoint.seconds
    return AsyncOpenAI(api_key=endpoint.api_key, base_url=endpoint.base_url, timeout=timeout, max_retries=0)


class _OpenAIModel(RenderedModel[AsyncOpenAI]):
    """What the two OpenAI APIs share."""

    SERVICE = "OpenAI"
    KEY_VARIABLES = ("OPENAI_API_KEY",)
    ENVIRONMENT: ClassVar[tuple[str, ...]] = ("OPENAI_",)
    FAILURES = (openai.APIError, *COMMON_FAILURES)
    PATH: ClassVar[str]

    @staticmethod
    async def _opened(endpoint: Endpoint) -> AsyncGenerator[AsyncOpenAI, None]:
        async with client_at(endpoint) as client:
            yield client

    async def _ask(self, client: AsyncOpenAI, rendered: Rendered, text: TextStream) -> Reply:
        async with await client.post(
            self.PATH, content=rendered.body, cast_to=object, stream=True, stream_cls=AsyncStream[object]
        ) as stream:
            return await self._receive(stream, text)

    @abstractmethod
    async def _receive(self, stream: AsyncStream[object], text: TextStream) -> Reply: ...

    def _read(self, error: Exception) -> ModelError:
        match error:
            case openai.APIConnectionError():
                return lost(self._service, error.__cause__ or error)
            case openai.APIStatusError():
                return refused(self._service, error.status_code, error.message, error.response.headers)
            case openai.APIError():
                return refused(self._service, status_named(error.code, error.type), error.message)
            case _:
                return read_failure(self._service, error)


class ResponsesModel(_OpenAIModel):
    """A model on the Responses API; every request sends the whole conversation, and the service stores none of it."""

    PATH = "/responses"

    async def _receive(self, stream: AsyncStream[object], text: TextStream) -> Reply:
        reply = _ResponseReply(self._service, text)
        async for event in stream:
            await reply.take(msgspec.convert(event, _ResponseEvent))
        await text.end()
        return reply.reply()


class ChatModel(_OpenAIModel):
    """A model on the Chat Completions API, at OpenAI or at a compatible server (`base_url`)."""

    PATH = "/chat/completions"

    async def _receive(self, stream: AsyncStream[object], text: TextStream) -> Reply:
        reply = _ChatReply(self._service, text)
        async for chunk in stream:
            await reply.take(msgspec.convert(chunk, _ChatChunk))
        await text.end()
        return reply.reply()


_CHAT_FINISHED: Final = frozenset({"stop", "tool_calls", "function_call"})
_CHAT_CUT: Final = "length"


class _ChatFunction(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ChatCallDelta(msgspec.Struct):
    index: int | str | None = None
    id: str | None = None
    function: _ChatFunction | None = None


class _ChatPart(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _ChatDelta(msgspec.Struct):
    content: str | list[_ChatPart] | None = None
    refusal: str | None = None
    tool_calls: list[_ChatCallDelta] | None = None


class _ChatChoice(msgspec.Struct):
    index: int | None = None
    delta: _ChatDelta | None = None
    finish_reason: str | None = None


class _TokenDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _TokenDetails | None = None


class _ChatChunk(msgspec.Struct):
    """One event of a Chat Completions stream; compatible servers omit fields, or send null."""

    id: str | None = None
    choices: list[_ChatChoice] | None = None
    usage: _ChatUsage | None = None


class _ChatCall:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class _ChatReply:
    """Assembles a reply from the events of a Chat Completions stream."""

    def __init__(self, service: str, text: TextStream) -> None:
        self._service = service
        self._text = text
        self._id = ""
        self._calls: list[_ChatCall] = []
        self._open: dict[int | str, _ChatCall] = {}
        self._spent = _ChatUsage()
        self._finish_reason: str | None = None

    async def take(self, chunk: _ChatChunk) -> None:
        self._id = chunk.id or self._id
        self._spent = chunk.usage or self._spent
        for choice in chunk.choices or ():
            if choice.index:
                continue
            self._finish_reason = choice.finish_reason or self._finish_reason
            if choice.delta is not None:
                # A refusal is shown as the text of the reply.
                await self._text.add(_delta_text(choice.delta.content))
                await self._text.add(choice.delta.refusal or "")
                for piece in choice.delta.tool_calls or ():
                    self._grow(piece)

    def _grow(self, piece: _ChatCallDelta) -> None:
        # Some servers number every call 0: a different id starts a different call.
        number = piece.index if piece.index is not None else max(len(self._calls) - 1, 0)
        call = self._open.get(number)
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = self._open[number] = _ChatCall()
            self._calls.append(call)
        call.id = call.id or piece.id or ""
        if piece.function is not None:
            call.name += piece.function.name or ""
            arguments = piece.function.arguments
            call.arguments.append(_encoded(arguments) if isinstance(arguments, dict) else arguments or "")

    def reply(self) -> Reply:
        if self._finish_reason is None:
            raise cut_off(self._service)
        text = self._text.text
        if not (text or self._calls or self._finish_reason in _CHAT_FINISHED):
            raise unanswered(self._service, f"it stopped with {self._finish_reason}")
        details = self._spent.prompt_tokens_details or _TokenDetails()
        return Reply(
            text=text,
            tool_calls=tuple(self._call(call, place) for place, call in enumerate(self._calls, start=1)),
            usage=Usage(
                prompt_tokens=self._spent.prompt_tokens or 0,
                cached_tokens=details.cached_tokens or 0,
                written_tokens=details.cache_write_tokens or 0,
                output_tokens=self._spent.completion_tokens or 0,
            ),
        )

    def _call(self, call: _ChatCall, place: int) -> ToolCall:
        # Every result must name its call, so a call without an id gets one.
        call_id = whole(call.id) or f"{self._id or 'call'}-{place}"
        is_cut = self._finish_reason == _CHAT_CUT and place == len(self._calls)
        args = read_arguments(whole("".join(call.arguments)), is_cut=is_cut)
        return ToolCall(id=call_id, name=whole(call.name), args=args)


def _delta_text(content: str | list[_ChatPart] | None) -> str:
    """The text of a delta; some servers send a list of parts, including thinking, which is not text."""
    if isinstance(content, list):
        return "".join(part.text or "" for part in content if part.type == "text")
    return content or ""


def _encoded(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(whole_value(arguments)).decode()


_TEXT_DELTAS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_FINAL_EVENTS: Final = frozenset({"response.completed", "response.incomplete"})


class _ResponseUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _TokenDetails | None = None


class _ResponseError(msgspec.Struct):
    code: str | int | None = None
    message: str | None = None
    type: str | None = None


class _ResponseIncomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    output: list[dict[str, Any]] = []
    usage: _ResponseUsage | None = None
    error: _ResponseError | None = None
    incomplete_details: _ResponseIncomplete | None = None


class _ResponseEvent(msgspec.Struct):
    """One event of a Responses stream, with the fields that are read here."""

    type: str
    delta: Any = None
    item: dict[str, Any] | None = None
    response: _Response | None = None
    code: str | int | None = None
    message: str | None = None


class _ResponseCall(msgspec.Struct):
    call_id: str
    name: str
    arguments: str = ""


class _ResponseReply:
    """Assembles a reply from the events of a Responses stream."""

    def __init__(self, service: str, text: TextStream) -> None:
        self._service = service
        self._text = text
        self._items: list[dict[str, Any]] = []
        self._response: _Response | None = None
        self._failure: ModelError | None = None

    async def take(self, event: _ResponseEvent) -> None:
        if event.type in _TEXT_DELTAS and isinstance(event.delta, str):
            await self._text.add(event.delta)
        elif event.type == "response.output_item.done" and event.item is not None:
            self._items.append(event.item)
        elif event.type in _FINAL_EVENTS:
            self._response = event.response
        elif event.type == "response.failed":
            failure = (event.response or _Response()).error or _ResponseError()
            self._failure = refused(self._service, status_named(failure.code, failure.type), failure.message)
        elif event.type == "error":
            self._failure = refused(self._service, status_named(event.code), event.message)

    def reply(self) -> Reply:
        if self._failure is not None:
            raise self._failure
        if self._response is None:
            raise cut_off(self._service)
        incomplete = self._response.incomplete_details
        items = _returnable_items(whole_value(self._response.output or self._items))
        if not items and incomplete is not None:
            raise unanswered(self._service, f"it stopped with {incomplete.reason}")
        calls = tuple(
            _response_call(item, is_cut=incomplete is not None and item is items[-1])
            for item in items
            if item.get("type") == "function_call"
        )
        return Reply(
            text=self._text.text,
            tool_calls=calls,
            usage=_response_usage(self._response.usage or _ResponseUsage()),
            native={Wire.OPENAI_RESPONSES.value: items} if items else None,
        )


def _response_call(item: dict[str, Any], *, is_cut: bool) -> ToolCall:
    call = msgspec.convert(item, _ResponseCall)
    return ToolCall(id=call.call_id, name=call.name, args=read_arguments(call.arguments, is_cut=is_cut))


def _returnable_items(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that the API accepts in a later request: reasoning must be followed by its result."""
    kept = list(items)
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    return kept


def _response_usage(spent: _ResponseUsage) -> Usage:
    details = spent.input_tokens_details or _TokenDetails()
    return Usage(
        prompt_tokens=spent.input_tokens,
        cached_tokens=details.cached_tokens or 0,
        written_tokens=details.cache_write_tokens or 0,
        output_tokens=spent.output_tokens,
    )

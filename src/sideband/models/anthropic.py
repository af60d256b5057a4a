"""Models on the Anthropic Messages wire, through the official client."""

from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

import anthropic
import msgspec
from anthropic import AsyncAnthropic, AsyncStream, not_given

from sideband.core.events import Usage
from sideband.core.messages import Reply, ToolCall
from sideband.models.client import Endpoint
from sideband.models.errors import COMMON_FAILURES, cut_off, lost, read_failure, refused, status_named, unanswered
from sideband.models.rendered import RenderedModel
from sideband.models.stream import TextStream, read_arguments, whole, whole_value
from sideband.ports import ModelError
from sideband.render.profiles import Wire
from sideband.render.renderer import Rendered

PATH: Final = "/v1/messages"

# The deltas that add text to a block, and the field that holds the added text.
_GROWING: Final[Mapping[str, str]] = MappingProxyType(
    {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
)
_FINISHED: Final = frozenset({"end_turn", "stop_sequence", "tool_use", "pause_turn"})
_CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded"})


class AnthropicModel(RenderedModel[AsyncAnthropic]):
    """Claude, or another server at `base_url` that implements the Messages API."""

    SERVICE = "Anthropic"
    KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")
    ENVIRONMENT: ClassVar[tuple[str, ...]] = ("ANTHROPIC_",)
    FAILURES = (anthropic.APIError, *COMMON_FAILURES)

    @staticmethod
    async def _opened(endpoint: Endpoint) -> AsyncGenerator[AsyncAnthropic, None]:
        timeout = not_given if endpoint.seconds is None else endpoint.seconds
        async with AsyncAnthropic(
            api_key=endpoint.api_key, base_url=endpoint.base_url, timeout=timeout, max_retries=0
        ) as client:
            yield client

    async def _ask(self, client: AsyncAnthropic, rendered: Rendered, text: TextStream) -> Reply:
        message = _Message(self._service, text)
        async with await client.post(
            PATH,
            content=rendered.body,
            cast_to=object,
            options={"headers": {"anthropic-beta": ",".join(rendered.betas)} if rendered.betas else {}},
            stream=True,
            stream_cls=AsyncStream[object],
        ) as stream:
            async for event in stream:
                await message.take(msgspec.convert(event, _Event))
        await text.end()
        return message.reply()

    def _read(self, error: Exception) -> ModelError:
        match error:
            case anthropic.APIConnectionError():
                return lost(self._service, error.__cause__ or error)
            case anthropic.APIStatusError():
                # An error event inside a stream arrives with status 200: only its type tells what failed.
                status = error.status_code if error.response.is_error else status_named(error.type)
                return refused(self._service, status, error.api_message or error.message, error.response.headers)
            case anthropic.APIError():
                return refused(self._service, None, error.message)
            case _:
                return read_failure(self._service, error)


class _Spent(msgspec.Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: Any = None
    stop_reason: str | None = None


class _Start(msgspec.Struct):
    usage: _Spent = msgspec.field(default_factory=_Spent)


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Start | None = None
    content_block: dict[str, Any] | None = None
    delta: _Delta = msgspec.field(default_factory=_Delta)
    usage: _Spent = msgspec.field(default_factory=_Spent)


class _Call(msgspec.Struct):
    id: str
    name: str
    input: dict[str, Any] = {}

    def block(self) -> dict[str, Any]:
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.input}


class _Block:
    """Assembles one content block from its stream events."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self._grown: dict[str, list[str]] = {}

    def grow(self, delta: _Delta) -> None:
        if (member := _GROWING.get(delta.type)) is not None:
            self._grown.setdefault(member, []).append(getattr(delta, member))
        elif delta.type == "signature_delta":
            self._start["signature"] = delta.signature
        elif delta.type == "citations_delta":
            self._start["citations"] = [*(self._start.get("citations") or ()), delta.citation]

    def done(self, *, is_cut: bool) -> dict[str, Any]:
        """The block as the next request sends it back; `is_cut` if the reply ended in the middle of this block."""
        block = dict(self._start)
        if is_cut and block.get("type") == "tool_use":
            self._grown.setdefault("partial_json", [])
        for member, pieces in self._grown.items():
            grown = "".join(pieces)
            if member == "partial_json":
                block["input"] = read_arguments(whole(grown), is_cut=is_cut)
            else:
                block[member] = (block.get(member) or "") + grown
        finished: dict[str, Any] = whole_value(block)
        return finished


class _Message:
    """Assembles a reply from the events of a Messages stream."""

    def __init__(self, service: str, text: TextStream) -> None:
        self._service = service
        self._text = text
        self._blocks: dict[int, _Block] = {}
        self._spent = _Spent()
        self._stop_reason: str | None = None
        self._stopped = False

    async def take(self, event: _Event) -> None:
        match event.type:
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                self._blocks[event.index] = _Block(event.content_block)
                await self._text.add(_text(event.content_block))
            case "content_block_delta" if event.index in self._blocks:
                self._blocks[event.index].grow(event.delta)
                await self._text.add(event.delta.text)
            case "message_delta":
                self._count(event.usage)
                self._stop_reason = event.delta.stop_reason or self._stop_reason
            case "message_stop":
                self._stopped = True

    def _count(self, spent: _Spent) -> None:
        # Counts are running totals; a later event omits those that did not change.
        for name in msgspec.structs.asdict(spent):
            if (count := getattr(spent, name)) is not None:
                setattr(self._spent, name, count)

    def reply(self) -> Reply:
        if not self._stopped:
            raise cut_off(self._service)
        if self._stop_reason == "refusal":
            raise unanswered(self._service, "the model refused to continue")
        last = max(self._blocks) if self._stop_reason in _CUT and self._blocks else None
        arrived = sorted(self._blocks.items())
        blocks = _returnable([block.done(is_cut=place == last) for place, block in arrived])
        if not blocks and self._stop_reason not in _FINISHED:
            raise unanswered(self._service, f"it stopped with {self._stop_reason}")
        text = "".join(map(_text, blocks))
        calls = tuple(msgspec.convert(block, _Call) for block in blocks if block.get("type") == "tool_use")
        plain = [*([{"type": "text", "text": text}] if text else ()), *map(_Call.block, calls)]
        return Reply(
            text=text,
            tool_calls=tuple(ToolCall(id=call.id, name=call.name, args=call.input) for call in calls),
            usage=self._usage(),
            native=None if blocks == plain else {Wire.ANTHROPIC.value: blocks},
        )

    def _usage(self) -> Usage:
        cached, written = self._spent.cache_read_input_tokens or 0, self._spent.cache_creation_input_tokens or 0
        return Usage(
            prompt_tokens=(self._spent.input_tokens or 0) + cached + written,
            cached_tokens=cached,
            written_tokens=written,
            output_tokens=self._spent.output_tokens or 0,
        )


def _text(block: Mapping[str, Any]) -> str:
    text = block.get("text", "") if block.get("type") == "text" else ""
    return str(text)


def _returnable(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks that the API accepts in a later request: no empty text, and no thinking at the end."""
    kept = [block for block in blocks if block.get("type") != "text" or block.get("text")]
    while kept and kept[-1].get("type") in ("thinking", "redacted_thinking"):
        kept.pop()
    return kept

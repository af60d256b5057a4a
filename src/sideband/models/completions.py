"""A reply on the OpenAI Chat Completions wire while it arrives."""

from typing import Any, Final

import msgspec

from sideband.core.usage import Usage
from sideband.models.arguments import read_arguments
from sideband.models.errors import cut_off, unanswered
from sideband.models.speech import Speech, whole, whole_value
from sideband.ports import Reply, ToolCall

_FINISHED: Final = frozenset({"stop", "tool_calls", "function_call"})
_CUT: Final = "length"


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallPiece(msgspec.Struct):
    index: int | str | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _Delta(msgspec.Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Spent(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class Chunk(msgspec.Struct):
    """One event of the stream. Servers that only resemble the wire leave out what they do not know, or say null."""

    id: str | None = None
    choices: list[_Choice] | None = None
    usage: _Spent | None = None


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class Completion:
    """A reply while it arrives."""

    def __init__(self, service: str, speech: Speech) -> None:
        self._service = service
        self._speech = speech
        self._id = ""
        self._calls: list[_Call] = []
        self._open: dict[int | str, _Call] = {}
        self._spent = _Spent()
        self._finish_reason: str | None = None

    async def take(self, chunk: Chunk) -> None:
        self._id = chunk.id or self._id
        self._spent = chunk.usage or self._spent
        for choice in chunk.choices or ():
            if choice.index:
                continue
            self._finish_reason = choice.finish_reason or self._finish_reason
            if choice.delta is not None:
                # A refusal is an answer too: it stands where the text would.
                await self._speech.say(_said(choice.delta.content))
                await self._speech.say(choice.delta.refusal or "")
                for piece in choice.delta.tool_calls or ():
                    self._grow(piece)

    def _grow(self, piece: _CallPiece) -> None:
        # Some servers number every call 0: another id is another call all the same.
        number = piece.index if piece.index is not None else max(len(self._calls) - 1, 0)
        call = self._open.get(number)
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = self._open[number] = _Call()
            self._calls.append(call)
        call.id = call.id or piece.id or ""
        if piece.function is not None:
            call.name += piece.function.name or ""
            arguments = piece.function.arguments
            call.arguments.append(_encoded(arguments) if isinstance(arguments, dict) else arguments or "")

    def reply(self) -> Reply:
        if self._finish_reason is None:
            raise cut_off(self._service)
        text = self._speech.text
        if not (text or self._calls or self._finish_reason in _FINISHED):
            raise unanswered(self._service, f"it stopped with {self._finish_reason}")
        details = self._spent.prompt_tokens_details or _Details()
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

    def _call(self, call: _Call, place: int) -> ToolCall:
        # A result has to name its call, also where the server gave it no name.
        call_id = whole(call.id) or f"{self._id or 'call'}-{place}"
        is_cut = self._finish_reason == _CUT and place == len(self._calls)
        args = read_arguments(whole("".join(call.arguments)), is_cut=is_cut)
        return ToolCall(id=call_id, name=whole(call.name), args=args)


def _said(content: str | list[_Part] | None) -> str:
    """The text of a piece; some servers send parts, and what their model thought among them."""
    if isinstance(content, list):
        return "".join(part.text or "" for part in content if part.type == "text")
    return content or ""


def _encoded(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(whole_value(arguments)).decode()

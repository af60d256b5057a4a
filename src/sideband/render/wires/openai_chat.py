"""OpenAI Chat Completions: each message is a list of parts, so that each can carry a cache breakpoint."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final

from sideband.core.blocks import BlockKind, Media
from sideband.render.profiles import Wire
from sideband.render.tape import Tape, TextPart, encode
from sideband.render.wires.dialect import MESSAGE, Dialect, Opening, Preamble

LONGEST_KEY: Final = 64
_NO_ID: Final = "_"
# A document needs a name.
UNTITLED: Final = "document.pdf"


class OpenAiChat(Dialect):
    """`native` of a reply is a list with its message."""

    wire: ClassVar[Wire] = Wire.OPENAI_CHAT
    marker: ClassVar[bytes] = b'"prompt_cache_breakpoint":{"mode":"explicit"},'
    tokens_field: ClassVar[str] = "max_completion_tokens"
    longest_id: ClassVar[int] = 40
    linked: ClassVar[frozenset[BlockKind]] = frozenset({BlockKind.IMAGE})

    def preamble(self, opening: Opening) -> Preamble:
        settings = opening.settings
        fields: dict[str, Any] = {"model": settings.model, "stream": settings.stream, **self.constants(opening)}
        if settings.max_output_tokens is not None:
            fields[self.tokens_field] = settings.max_output_tokens
        if self.marking:
            # Only explicit breakpoints count, and the key routes the requests of a session to the same cache.
            fields["prompt_cache_options"] = {"mode": "explicit"}
            if opening.session_id:
                fields["prompt_cache_key"] = shortened(opening.session_id, LONGEST_KEY)
        if opening.tools:
            fields["tools"] = [self.tool(tool) for tool in opening.tools]
        return Preamble(encode({**fields, **settings.parameters})[:-1])

    def constants(self, opening: Opening) -> dict[str, Any]:
        """Fields that are the same in every request."""
        return {"stream_options": {"include_usage": True}} if opening.settings.stream else {}

    def tool(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        """The declaration of a tool."""
        return {"type": "function", "function": declared(tool)}

    def piece(self, text: str) -> bytes:
        return encode(TextPart(text))

    def media_piece(self, media: Media) -> bytes:
        if media.kind is BlockKind.IMAGE:
            return encode({"type": "image_url", "image_url": {"url": media.url or data_url(media)}})
        if media.kind is BlockKind.DOCUMENT:
            file = {"filename": media.title or UNTITLED, "file_data": data_url(media)}
            return encode({"type": "file", "file": file})
        audio = {"data": media.data, "format": media.media_type.rpartition("/")[2]}
        return encode({"type": "input_audio", "input_audio": audio})

    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        return b'{"role":"tool","tool_call_id":%b,"content":[' % encode(message["tool_call_id"])

    def call_id(self, call_id: str) -> str:
        return shortened(call_id, self.longest_id) or _NO_ID

    def reply(self, tape: Tape, said: Sequence[str], calls: Sequence[Mapping[str, Any]]) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(said)}
        if calls:
            message["tool_calls"] = [{"id": call["id"], "type": "function", "function": called(call)} for call in calls]
        self.repeat(tape, [message])

    def repeat(self, tape: Tape, native: Sequence[Mapping[str, Any]]) -> None:
        for item in native:
            tape.add(MESSAGE, encode(item), mark=None)

    def renamed(self, native: Sequence[Mapping[str, Any]], ids: Iterator[str]) -> Sequence[Mapping[str, Any]]:
        return [
            {**item, "tool_calls": [{**call, "id": next(ids, call["id"])} for call in calls]}
            if (calls := item.get("tool_calls"))
            else item
            for item in native
        ]


def data_url(media: Media) -> str:
    """The content of a block as a URL."""
    return f"data:{media.media_type};base64,{media.data}"


def shortened(name: str, longest: int) -> str:
    """The name, or a hash of it if it is longer than the provider allows."""
    return name if len(name) <= longest else blake2b(name.encode(), digest_size=longest // 2).hexdigest()


def declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "parameters": tool["parameters"]}


def called(call: Mapping[str, Any]) -> dict[str, str]:
    """The function and arguments of a call; the arguments are JSON in a string."""
    return {"name": call["name"], "arguments": encode(call["args"]).decode()}

"""OpenAI Responses without server-side state: a list of items; those of the model are sent back unchanged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sideband.core.blocks import BlockKind, Media
from sideband.render.profiles import Wire
from sideband.render.tape import Tape, encode
from sideband.render.wires.dialect import Opening
from sideband.render.wires.openai_chat import UNTITLED, OpenAiChat, called, data_url, declared


class OpenAiResponses(OpenAiChat):
    """`native` of a reply is the list of its output items: reasoning, messages with their phase, calls."""

    wire: ClassVar[Wire] = Wire.OPENAI_RESPONSES
    array: ClassVar[bytes] = b"input"
    opening: ClassVar[bytes] = b'{"type":"message","role":"%b","content":['
    tokens_field: ClassVar[str] = "max_output_tokens"
    longest_id: ClassVar[int] = 64
    linked: ClassVar[frozenset[BlockKind]] = frozenset({BlockKind.IMAGE, BlockKind.DOCUMENT})

    def constants(self, _opening: Opening) -> dict[str, Any]:
        # Without server-side state, the reasoning has to be returned and sent back by the client.
        include = {"include": ["reasoning.encrypted_content"]} if self.profile.encrypted_reasoning else {}
        return {"store": False, **include}

    def tool(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", **declared(tool), "strict": False}

    def piece(self, text: str) -> bytes:
        return b'{"type":"input_text","text":%b}' % encode(text)

    def media_piece(self, media: Media) -> bytes:
        if media.kind is BlockKind.IMAGE:
            return encode({"type": "input_image", "detail": "auto", "image_url": media.url or data_url(media)})
        if media.url:
            return encode({"type": "input_file", "file_url": media.url})
        return encode({"type": "input_file", "filename": media.title or UNTITLED, "file_data": data_url(media)})

    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        return b'{"type":"function_call_output","call_id":%b,"output":[' % encode(message["tool_call_id"])

    def reply(self, tape: Tape, said: Sequence[str], calls: Sequence[Mapping[str, Any]]) -> None:
        self.repeat(tape, [{"type": "message", "role": "assistant", "content": text} for text in said])
        self.repeat(tape, [{"type": "function_call", "call_id": call["id"], **called(call)} for call in calls])

    def renamed(self, native: Sequence[Mapping[str, Any]], ids: Iterator[str]) -> Sequence[Mapping[str, Any]]:
        return [
            {**item, "call_id": next(ids, item["call_id"])} if item.get("type") == "function_call" else item
            for item in native
        ]

"""Gemini: user and model turns made of parts; tool results are parts of the user's turn."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sideband.core.blocks import BlockKind, Media
from sideband.render.profiles import LeadingRole, Wire
from sideband.render.tape import Container, Tape, encode, quoted_inside
from sideband.render.wires.dialect import MESSAGE, RESULT, Dialect, Opening, Preamble


class Gemini(Dialect):
    """`native` of a reply is the list of its parts with their signatures. Model and streaming are in the URL."""

    wire: ClassVar[Wire] = Wire.GEMINI
    array: ClassVar[bytes] = b"contents"
    opening: ClassVar[bytes] = b'{"role":"%b","parts":['
    # A result is one string.
    result_level: ClassVar[Container] = Container(RESULT, b'"}}}', b"\\n\\n")
    results_in_user: ClassVar[bool] = True
    linked: ClassVar[frozenset[BlockKind]] = frozenset({BlockKind.IMAGE, BlockKind.DOCUMENT, BlockKind.AUDIO})
    merges = True
    starts_with_user = True

    def preamble(self, opening: Opening) -> Preamble:
        settings = opening.settings
        generation = dict(settings.parameters.get("generationConfig", {}))
        if settings.max_output_tokens is not None:
            generation["maxOutputTokens"] = settings.max_output_tokens
        fields: dict[str, Any] = {**settings.parameters, "generationConfig": generation}
        if opening.tools:
            fields["tools"] = [{"functionDeclarations": [_declared(tool) for tool in opening.tools]}]
        if opening.system and self._has_system_field:
            fields["systemInstruction"] = {"parts": [{"text": opening.system}]}
        return Preamble(encode(fields)[:-1])

    @property
    def _has_system_field(self) -> bool:
        return self.profile.leading_role is not LeadingRole.USER

    def lead(self, tape: Tape, system: str) -> None:
        """The system text is a field of the body; for models without that field it is the first user text."""
        if not self._has_system_field:
            self.say(tape, [system])

    def piece(self, text: str) -> bytes:
        return b'{"text":%b}' % encode(text)

    def media_piece(self, media: Media) -> bytes:
        if media.data:
            return encode({"inlineData": {"mimeType": media.media_type, "data": media.data}})
        named = {"mimeType": media.media_type} if media.media_type else {}
        return encode({"fileData": {**named, "fileUri": media.url}})

    def result_piece(self, text: str) -> bytes:
        return quoted_inside(text)

    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        word = b"output" if message["status"] == "ok" else b"error"
        names = (encode(message["tool_call_id"]), encode(message["name"]))
        return b'{"functionResponse":{"id":%b,"name":%b,"response":{"%b":"' % (*names, word)

    def reply(self, tape: Tape, said: Sequence[str], calls: Sequence[Mapping[str, Any]]) -> None:
        made = [{"id": call["id"], "name": call["name"], "args": call["args"]} for call in calls]
        self.repeat(tape, [*({"text": text} for text in said), *({"functionCall": call} for call in made)])

    def renamed(self, native: Sequence[Mapping[str, Any]], ids: Iterator[str]) -> Sequence[Mapping[str, Any]]:
        return [
            {**part, "functionCall": {**call, "id": next(ids, call.get("id"))}}
            if (call := part.get("functionCall")) is not None
            else part
            for part in native
        ]

    def repeat(self, tape: Tape, native: Sequence[Mapping[str, Any]]) -> None:
        parts = native if self.profile.call_signature is None else _signed(native, self.profile.call_signature)
        tape.add(MESSAGE, encode({"role": "model", "parts": parts}), mark=None)


def _signed(parts: Sequence[Mapping[str, Any]], signature: str) -> Sequence[Mapping[str, Any]]:
    """The parts of a reply, with a signature on the first call: the API requires it there and nowhere else."""
    first = next((place for place, part in enumerate(parts) if "functionCall" in part), None)
    if first is None or "thoughtSignature" in parts[first]:
        return parts
    return [*parts[:first], {**parts[first], "thoughtSignature": signature}, *parts[first + 1 :]]


def _declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "parametersJsonSchema": tool["parameters"]}

"""Anthropic Messages: content blocks, results inside the user's turn, and system entries that clear themselves."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from sideband.core.blocks import BlockKind, Media
from sideband.render.escape import Escape
from sideband.render.profiles import Profile, Wire
from sideband.render.tape import Tape, TextPart, encode
from sideband.render.wires.dialect import MESSAGE, Dialect, Opening, Preamble

# The field is required; every current model supports at least this many.
DEFAULT_MAX_TOKENS: Final = 32_000
# Thinking blocks cannot carry a cache marker.
_MARKABLE: Final = frozenset({"text", "tool_use"})
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_NOT_IN_AN_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")


class _ToolUse(msgspec.Struct, tag_field="type", tag="tool_use", gc=False):
    id: str
    name: str
    input: Any


class Anthropic(Dialect):
    """`native` of a reply is the list of its content blocks."""

    wire: ClassVar[Wire] = Wire.ANTHROPIC
    marker: ClassVar[bytes] = b'"cache_control":{"type":"ephemeral"},'
    results_in_user: ClassVar[bool] = True
    automatic: ClassVar[bool] = True
    merges = True
    starts_with_user = True

    def __init__(self, profile: Profile, shield: Escape | None = None) -> None:
        super().__init__(profile, shield)
        self.binds = profile.prefix_bound_thinking

    def preamble(self, opening: Opening) -> Preamble:
        model, most, stream, parameters = opening.settings
        fields = {"model": model, "max_tokens": DEFAULT_MAX_TOKENS if most is None else most, "stream": stream}
        data, marks = encode({**fields, **parameters})[:-1], []
        tools = [encode(_tool(tool)) for tool in opening.tools]
        system = [self.piece(opening.system)] if opening.system else []
        for name, blocks in ((b"tools", tools), (b"system", system)):
            if blocks:
                data += b',"%b":[%b]' % (name, b",".join(blocks))
                # One byte after the opening brace of the last block: the closing bracket follows the block.
                marks.append(len(data) - len(blocks[-1]))
        return Preamble(data, tuple(marks))

    def lead(self, tape: Tape, system: str) -> None:
        """Nothing: the system text is a field of the body."""

    def piece(self, text: str) -> bytes:
        return encode(TextPart(text))

    def media_piece(self, media: Media) -> bytes:
        source: dict[str, str] = {"type": "url", "url": media.url}
        if media.data:
            source = {"type": "base64", "media_type": media.media_type, "data": media.data}
        titled = media.kind is BlockKind.DOCUMENT and media.title
        return encode({"type": media.kind, "source": source, **({"title": media.title} if titled else {})})

    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        failed = b"" if message["status"] == "ok" else b'"is_error":true,'
        return b'{"type":"tool_result","tool_use_id":%b,%b"content":[' % (
            encode(message["tool_call_id"]),
            failed,
        )

    def reply(self, tape: Tape, said: Sequence[str], calls: Sequence[Mapping[str, Any]]) -> None:
        uses = [_ToolUse(call["id"], call["name"], call["args"]) for call in calls]
        self._write_reply(tape, [*map(encode, map(TextPart, said)), *map(encode, uses)])

    def unbound(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without thinking: if it is bound to its prefix, the provider refuses it after any other."""
        native = message.get("native")
        if not (self.binds and native and native.get(self._name)):
            return message
        said = [block for block in native[self._name] if block["type"] not in _THOUGHTS]
        return {**message, "native": {**native, self._name: said}}

    def repeat(self, tape: Tape, native: Sequence[Mapping[str, Any]]) -> None:
        self._write_reply(tape, [*map(encode, native)], markable=native[-1]["type"] in _MARKABLE)

    @staticmethod
    def _write_reply(tape: Tape, pieces: Sequence[bytes], *, markable: bool = True) -> None:
        written = b'{"role":"assistant","content":[%b]}' % b",".join(pieces)
        mark = len(written) - len(pieces[-1]) - len(b"]}") if markable else None
        tape.add(MESSAGE, written, mark=mark, blocks=len(pieces))

    def call_id(self, call_id: str) -> str:
        if call_id.isascii() and f"_{call_id.replace('-', '')}".isidentifier():
            return call_id or "_"
        return _NOT_IN_AN_ID.sub(lambda found: f"_{ord(found[0]):x}", call_id)

    def renamed(self, native: Sequence[Mapping[str, Any]], ids: Iterator[str]) -> Sequence[Mapping[str, Any]]:
        return [{**block, "id": next(ids, block["id"])} if block["type"] == "tool_use" else block for block in native]

    def entry(self, tape: Tape, role: str, text: str) -> None:
        """Write a system entry that the provider clears by itself; it cannot carry a cache marker."""
        opening = b'{"role":"%b","clear_at":"next_user_message","content":[%b]}'
        tape.add(MESSAGE, opening % (role.encode(), self.piece(text)), mark=None)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}

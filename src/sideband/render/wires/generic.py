"""Any server with the OpenAI Chat format, down to the strictest chat template.

That one takes content as strings, one system message, and strictly alternating roles.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final

from sideband.render.escape import Escape, Lead, quote_user_line
from sideband.render.profiles import Profile, Wire
from sideband.render.tape import Container, Tape, encode, quoted_inside
from sideband.render.wires.dialect import RESULT, USER
from sideband.render.wires.openai_chat import OpenAiChat

_PARAGRAPH: Final = b"\\n\\n"


class GenericChat(OpenAiChat):
    """The tape stays open inside the content string of the last message."""

    wire: ClassVar[Wire] = Wire.GENERIC
    marker: ClassVar[bytes] = b""
    opening: ClassVar[bytes] = b'{"role":"%b","content":"'
    content: ClassVar[Container] = Container("content", b'"}', _PARAGRAPH)
    result_level: ClassVar[Container] = Container(RESULT, b'"}', _PARAGRAPH)
    tokens_field: ClassVar[str] = "max_tokens"

    def __init__(self, profile: Profile, shield: Escape | None = None) -> None:
        super().__init__(profile, shield)
        self.merges = self.starts_with_user = profile.strict_alternation

    def piece(self, text: str) -> bytes:
        return quoted_inside(text)

    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        return b'{"role":"tool","tool_call_id":%b,"content":"' % encode(message["tool_call_id"])

    def call_id(self, call_id: str) -> str:
        length = self.profile.call_id_length
        if not length or (len(call_id) == length and call_id.isascii() and call_id.isalnum()):
            return call_id
        return blake2b(call_id.encode()).hexdigest()[:length]

    def speaker(self, tape: Tape) -> str:
        return "tool" if self._folds(tape) else USER

    def _folds(self, tape: Tape) -> bool:
        return tape.top.name == RESULT and not self.profile.user_after_tool

    def say(self, tape: Tape, said: Sequence[str], *, join: bool = False) -> None:
        if self._folds(tape):
            # The lead line keeps user text from being read as tool output.
            self.fold(tape, "\n\n".join(said if join else [f"{Lead.USER}:", *said]))
        else:
            # A system text with the user role is in the same message as the first user text.
            super().say(tape, said, join=join or not tape.end)

    def _shielded(self, message: Mapping[str, Any]) -> list[str]:
        said = super()._shielded(message)
        # If user text is folded into results, tool output must not imitate it in any placement.
        needless = self._shield is not None or self.profile.user_after_tool
        return said if needless else [*map(quote_user_line, said)]

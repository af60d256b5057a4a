"""Any server that speaks OpenAI Chat, down to the strictest template: strings, one system message, alternation."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final

from sideband.render.dialect import CONTENT, RESULT, USER
from sideband.render.profile import LeadingRole, Profile, Wire
from sideband.render.shapes import USER_LEAD, Escape, quote_user_line
from sideband.render.tape import Level, Tape, encode, quoted_inside
from sideband.render.wires.openai_chat import OpenAiChat

_PARAGRAPH: Final = b"\\n\\n"


class Generic(OpenAiChat):
    """The end of a conversation is open inside the string of its last message."""

    wire: ClassVar[Wire] = Wire.GENERIC
    marker: ClassVar[bytes] = b""
    opening: ClassVar[bytes] = b'{"role":"%b","content":"'
    content: ClassVar[Level] = Level("content", b'"}', _PARAGRAPH)
    result_level: ClassVar[Level] = Level(RESULT, b'"}', _PARAGRAPH)
    tokens_field: ClassVar[str] = "max_tokens"

    def __init__(self, profile: Profile, shield: Escape | None = None) -> None:
        super().__init__(profile, shield)
        self.merges = self.starts_with_user = profile.strict_alternation

    def piece(self, text: str) -> bytes:
        return quoted_inside(text)

    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        return b'{"role":"tool","tool_call_id":%b,"content":"' % encode(self.call_id(message["tool_call_id"]))

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
            # What the user says must not be taken for words of the tool.
            self.fold(tape, "\n\n".join(said if join else [f"{USER_LEAD}:", *said]))
        else:
            # A system text that is the user's stands in the same message as the first that the user says.
            super().say(tape, said, join=join or not tape.end)

    def _shielded(self, message: Mapping[str, Any]) -> list[str]:
        said = super()._shielded(message)
        # Where the user speaks inside of results, no tool may seem to do so.
        return said if self.profile.user_after_tool else [quote_user_line(text) for text in said]

    def summary(self, tape: Tape, text: str) -> None:
        """Part of the one system message where a second would be lost or refused."""
        several = self.profile.multiple_leading_system and self.profile.leading_role is not LeadingRole.USER
        if tape.end:
            self.say(tape, [text], join=True)
        elif tape.top.turn and not several:
            tape.add(CONTENT, self.piece(text))
        else:
            self.lead(tape, text)

"""Any server with the OpenAI Chat format, down to the strictest chat template.

That one takes content as strings, one system message, and strictly alternating roles.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final

from sideband.core.blocks import Media
from sideband.render.escape import Escape, Lead, quote_user_line
from sideband.render.profiles import Profile, Wire
from sideband.render.shapes import call_result
from sideband.render.tape import ROOT, Container, Nesting, Tape, encode, quoted_inside, texts
from sideband.render.wires.dialect import CONTENT, MESSAGE, RESULT, USER
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
        if profile.content_parts:
            # Only the user's messages: templates that know parts look for them there.
            self._user_opening = OpenAiChat.opening % USER.encode()
        self.calls_are_text = not profile.tool_role
        # A user message that ends with tool results.
        self._results = self._turn(USER)

    def _turn(self, role: str) -> Nesting:
        in_parts = role == USER and self.profile.content_parts
        return Nesting((OpenAiChat.content if in_parts else self.content)._replace(name=role), ROOT)

    def piece(self, text: str) -> bytes:
        return quoted_inside(text)

    def user_piece(self, text: str) -> bytes:
        return super().piece(text) if self.profile.content_parts else self.piece(text)

    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        return b'{"role":"tool","tool_call_id":%b,"content":"' % encode(message["tool_call_id"])

    def call_id(self, call_id: str) -> str:
        length = self.profile.call_id_length
        if not length or (len(call_id) == length and call_id.isascii() and call_id.isalnum()):
            return call_id
        return blake2b(call_id.encode()).hexdigest()[:length]

    def reply(self, tape: Tape, said: Sequence[str], calls: Sequence[Mapping[str, Any]]) -> None:
        if self.calls_are_text:
            said = [*said, *(f"Call {call['id']}: {call['name']} {encode(call['args']).decode()}" for call in calls)]
            calls = ()
        super().reply(tape, said, calls)

    def result(self, tape: Tape, message: Mapping[str, Any]) -> None:
        """Write a result as text of the user if the template has no place for it."""
        if not self.calls_are_text:
            super().result(tape, message)
            return
        written = self.user_piece(call_result(message["tool_call_id"], message["name"], texts(message)))
        if tape.top.turn == USER:
            tape.open(CONTENT, written, self._results)
        else:
            tape.open(MESSAGE, self._user_opening + written, self._results)
        tape.last_role = USER

    def speaker(self, tape: Tape) -> str:
        return "tool" if self._folds(tape) else USER

    def _folds(self, tape: Tape) -> bool:
        return tape.top.name == RESULT and not self.profile.user_after_tool

    def refusal(self, tape: Tape, media: Media) -> str | None:
        if self._folds(tape):
            return "it would stand inside a tool result, which holds text only"
        return super().refusal(tape, media)

    def say(self, tape: Tape, said: Sequence[str | bytes], *, join: bool = False) -> None:
        if self._folds(tape):
            # The lead line keeps user text from being read as tool output.
            written = [part for part in said if isinstance(part, str)]
            self.fold(tape, "\n\n".join(written if join else [f"{Lead.USER}:", *written]))
        elif tape.top is self._results:
            super().say(tape, said if join else [f"{Lead.USER}:", *said], join=True)
        else:
            # A system text with the user role is in the same message as the first user text.
            super().say(tape, said, join=join or not tape.end)

    def _shielded(self, message: Mapping[str, Any]) -> list[str]:
        said = super()._shielded(message)
        # If user text is folded into results, tool output must not imitate it in any placement.
        needless = self._shield is not None or self.profile.user_after_tool
        return said if needless else [*map(quote_user_line, said)]

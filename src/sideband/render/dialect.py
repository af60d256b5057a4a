"""What all wires share: how a conversation is written down piece by piece so that its end stays open."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from sideband.core.ledger import Form, Fragment
from sideband.render.ending import GO_ON
from sideband.render.profile import MOST_MARKERS, Cache, Profile, Wire
from sideband.render.shapes import Escape
from sideband.render.tape import EMPTY, ROOT, Level, Open, Tape, texts

# Depths: what goes into the array of messages, and what goes into a message.
MESSAGE: Final = 1
CONTENT: Final = 2

USER: Final = "user"
ASSISTANT: Final = "assistant"
RESULT: Final = "result"

# Breakpoints in the conversation: where the last answered request ended, and where what stays ends now.
MARKS_BEHIND: Final = 2

NO_RESULT: Final = "No result was recorded."

_ID_AND_NAME: Final = itemgetter("id", "name")


class Settings(NamedTuple):
    """What all requests of a model say; `max_output_tokens` None: as many as the provider gives by itself."""

    model: str
    max_output_tokens: int | None = None
    stream: bool = True
    parameters: Mapping[str, Any] = MappingProxyType({})


class Opening(NamedTuple):
    """What all requests of a window say before the conversation."""

    settings: Settings
    system: str
    tools: Sequence[Mapping[str, Any]] = ()
    session_id: str = ""


class Preamble(NamedTuple):
    """The fields of a body in front of its messages, not yet closed; a cache marker may stand at `marks`."""

    data: bytes
    marks: tuple[int, ...] = ()


class Head(NamedTuple):
    """All of a body before the conversation; the tape of that begins with `top` open."""

    data: bytes
    marks: tuple[int, ...]
    top: Open


class Dialect(ABC):
    """How one wire writes a conversation; what wires have in common is here, each of them says the rest.

    A result is a message, or with `results_in_user` a block in a message of the user. With `merges` user messages in a
    row are written as one. `starts_with_user`: a conversation may not start with words of the model. `binds`: what the
    model thought counts only behind the beginning that it had then. `automatic`: a marker at the very beginning asks the
    provider to place a breakpoint by itself. A `shield` goes over what tools say, and over what is said of that, so that
    none of it looks like a reminder (None: it could not be taken for one).
    """

    wire: ClassVar[Wire]
    array: ClassVar[bytes] = b"messages"
    marker: ClassVar[bytes] = b""
    opening: ClassVar[bytes] = b'{"role":"%b","content":['
    content: ClassVar[Level] = Level("content", b"]}")
    result_level: ClassVar[Level] = Level(RESULT, b"]}")
    results_in_user: ClassVar[bool] = False
    automatic: ClassVar[bool] = False
    binds: bool = False
    merges: bool = False
    starts_with_user: bool = False

    def __init__(self, profile: Profile, shield: Escape | None = None) -> None:
        self.profile = profile
        self._shield = shield
        self.marking = bool(self.marker) and profile.cache is Cache.EXPLICIT
        self.most_marks = profile.cache_markers or MOST_MARKERS
        self.automatically = self.automatic and profile.cache is Cache.IMPLICIT
        self._name = self.wire.value
        self._user_opening = self.opening % USER.encode()
        self._user = self._turn(USER)
        self._between = self.result_level.between
        self._result = Open(self.result_level, ROOT)
        self._user_result = Open(self.result_level, self._user)

    # The head.

    def head(self, opening: Opening) -> Head:
        """Everything before the first message of the conversation."""
        lead = Tape(marking=self.marking)
        if opening.system:
            self.lead(lead, opening.system)
        data, marks = self.preamble(opening)
        data += b',"%b":[' % self.array
        marks = (*marks, *(len(data) + mark for mark in lead.marks))
        # Where there are too few for all, the ones behind it cover the head too.
        marked = self.marking and self.most_marks > MARKS_BEHIND
        return Head(data + lead.data, marks[-1:] if marked else (), lead.top)

    @abstractmethod
    def preamble(self, opening: Opening) -> Preamble:
        """The fields in front of the conversation."""

    def lead(self, tape: Tape, system: str) -> None:
        """The system text, on wires where that is a message."""
        self.entry(tape, self.profile.leading_role.value, system)

    # The conversation.

    def write(self, tape: Tape, message: Mapping[str, Any]) -> None:
        """One more message. What no wire accepts is mended: a call without a result, a result without its call.

        A compactor of the user's may leave both, and results that do not say what they are of; a model may give several
        calls one id.
        """
        role, pending = message["role"], tape.pending
        if pending:
            if role == "tool" and (name := pending.pop(message.get("tool_call_id", ""), None)) is not None:
                is_whole = "name" in message and "status" in message
                self.result(tape, message if is_whole else {"name": name, "status": "ok", **message})
                return
            self.settle(tape)
        if role == ASSISTANT:
            self._answer(tape, message)
        elif role == "system":
            said = "\n\n".join(self._shielded(message))
            self.summary(tape, f"<conversation-summary>\n{said}\n</conversation-summary>")
        elif role == "tool":
            self.say(tape, [f"Result of {message.get('name') or 'a tool'}:", *self._shielded(message)], join=True)
        else:
            self.say(tape, texts(message))

    def unbound(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """A message that is older than the window, without what counts only behind the beginning that it had then."""
        return message

    def settle(self, tape: Tape) -> None:
        """A call that has no result gets one: nothing else may follow it."""
        while tape.pending:
            call_id, name = next(iter(tape.pending.items()))
            lost = {"role": "tool", "tool_call_id": call_id, "name": name, "status": "unknown", "content": NO_RESULT}
            self.write(tape, lost)

    def put_all(self, tape: Tape, fragments: Sequence[Fragment]) -> list[int]:
        """Fragments, behind all there is on a fork; how many bytes that has at the end of each."""
        data, ends = tape.data, []
        for fragment in fragments:
            top = tape.top
            # Most of what requests say: more text in the turn of the user, which no breakpoint may stand on.
            if fragment.form is Form.TEXT and top.turn == USER and not tape.marking:
                data += top.joints[CONTENT]
                data += self.piece(fragment.text)
                tape.top = top.left[CONTENT]
                tape.blocks += 1
            else:
                self.put(tape, fragment)
            ends.append(len(data))
        return ends

    def put(self, tape: Tape, fragment: Fragment) -> None:
        """A fragment, behind all there is."""
        form, text, top = fragment.form, fragment.text, tape.top
        if form is Form.MESSAGE and fragment.role != USER:
            self.entry(tape, fragment.role, text)
        elif form is Form.RESULT and top.name == RESULT:
            self.fold(tape, text)
        elif top.turn == USER:
            tape.add(CONTENT, self.piece(text))
            tape.last_role = USER
        else:
            self.say(tape, [text], join=True)

    def say(self, tape: Tape, said: Sequence[str], *, join: bool = False) -> None:
        """Texts of the user: a message of their own, unless they join the one that is open."""
        user, joins = self._user_opening, (join or self.merges) and tape.top.turn == USER
        for text in said:
            if joins:
                tape.add(CONTENT, self.piece(text))
            else:
                tape.open(MESSAGE, user + self.piece(text), self._user, mark=len(user))
                joins = True
        tape.last_role = USER

    def result(self, tape: Tape, message: Mapping[str, Any]) -> None:
        """The result of a call; it stays open, so that more text can go into it."""
        pieces = [*map(self.result_piece, self._shielded(message))]
        written = self.result_opening(message) + (pieces[0] if len(pieces) == 1 else self._between.join(pieces))
        if not self.results_in_user:
            tape.open(MESSAGE, written, self._result, mark=len(written) - len(pieces[-1]), blocks=len(pieces))
        elif tape.top.turn == USER:
            tape.open(CONTENT, written, self._user_result)
        else:
            user = self._user_opening
            tape.open(MESSAGE, user + written, self._user_result, mark=len(user))
        tape.last_role = USER

    def _shielded(self, message: Mapping[str, Any]) -> list[str]:
        shield, said = self._shield, texts(message)
        return said if shield is None else [*map(shield, said)]

    def fold(self, tape: Tape, text: str) -> None:
        """Text into the result that is open."""
        tape.add(tape.top.depth, self.result_piece(text), mark=None if self.results_in_user else 0)

    def entry(self, tape: Tape, role: str, text: str) -> None:
        """A message of its own that is neither the user's nor the model's."""
        opening = self.opening % role.encode()
        tape.open(MESSAGE, opening + self.piece(text), self._turn(role), mark=len(opening))
        # In front of the conversation it is nobody's turn yet.
        tape.last_role = tape.last_role and role

    def summary(self, tape: Tape, text: str) -> None:
        """What stands for messages that are gone."""
        self.say(tape, [text], join=True)

    def _answer(self, tape: Tape, message: Mapping[str, Any]) -> None:
        tape.answer()
        if tape.last_role != USER and self._lacks_a_user(tape):
            self.say(tape, [GO_ON])
        said, calls, native = texts(message), message.get("tool_calls") or (), message.get("native")
        pending = tape.pending = dict(map(_ID_AND_NAME, calls))
        if len(pending) != len(calls):
            # Only one of several calls of one id can have the result; what comes of the others is told as text.
            first = {call["id"]: call for call in reversed(calls)}
            calls, native = [first[call_id] for call_id in pending], None
        if native and native.get(self._name):
            self.repeat(tape, native[self._name])
        else:
            self.reply(tape, [] if calls and said == [EMPTY] else said, calls)
        tape.last_role = ASSISTANT

    def _lacks_a_user(self, tape: Tape) -> bool:
        """Whether the model may not speak here before somebody else has."""
        if tape.last_role == ASSISTANT:
            return not self.profile.consecutive_assistant
        return self.starts_with_user and not tape.last_role

    def speaker(self, _tape: Tape) -> str:
        """The role of the message that would carry more text of the user now."""
        return USER

    def _turn(self, role: str) -> Open:
        """A message of this role."""
        return Open(self.content._replace(name=role), ROOT)

    # What each wire says in its own way.

    @abstractmethod
    def piece(self, text: str) -> bytes:
        """A text in a message."""

    def result_piece(self, text: str) -> bytes:
        """A text in a result."""
        return self.piece(text)

    @abstractmethod
    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        """A result, up to where its text begins."""

    @abstractmethod
    def reply(self, tape: Tape, said: Sequence[str], calls: Sequence[Mapping[str, Any]]) -> None:
        """An answer of the model, made of its texts and calls."""

    @abstractmethod
    def repeat(self, tape: Tape, native: Sequence[Mapping[str, Any]]) -> None:
        """An answer of the model as this wire gave it, which may hold what only that understands."""

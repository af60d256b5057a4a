"""What all wires share: how a conversation is written down piece by piece so that its end stays open."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from sideband.core.ledger import Form, Fragment
from sideband.render.ending import GO_ON
from sideband.render.profile import MOST_MARKERS, Cache, Profile, Wire
from sideband.render.shapes import Escape
from sideband.render.tape import EMPTY, Level, Tape, texts

# Depths: what goes into the array of messages, and what goes into a message.
MESSAGE: Final = 1
CONTENT: Final = 2

USER: Final = "user"
ASSISTANT: Final = "assistant"
RESULT: Final = "result"

# Breakpoints in the conversation: where the last answered request ended, and where what stays ends now.
MARKS_BEHIND: Final = 2

NO_RESULT: Final = "No result was recorded."

# Looking a member up in its class takes longer than comparing with it.
_MESSAGE: Final = Form.MESSAGE
_RESULT: Final = Form.RESULT


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
    """All of a body before the conversation; the tape of that begins with `levels` open."""

    data: bytes
    marks: tuple[int, ...]
    levels: tuple[Level, ...]
    fresh: bool

    def tape(self, *, marking: bool) -> Tape:
        """An empty tape that goes on where the head ends."""
        return Tape(self.levels, fresh=self.fresh, marking=marking)


class Dialect(ABC):
    """How one wire writes a conversation; what wires have in common is here, each of them says the rest.

    A result is a message, or with `results_in_user` a block in a message of the user. With `merges` user messages in a
    row are written as one. `starts_with_user`: a conversation may not start with words of the model. `automatic`: a
    marker at the very beginning asks the provider to place a breakpoint by itself. A `shield` goes over what tools say,
    and over what is said of that, so that none of it looks like a reminder (None: it could not be taken for one).
    """

    wire: ClassVar[Wire]
    array: ClassVar[bytes] = b"messages"
    marker: ClassVar[bytes] = b""
    opening: ClassVar[bytes] = b'{"role":"%b","content":['
    content: ClassVar[Level] = Level("content", b"]}")
    result_level: ClassVar[Level] = Level(RESULT, b"]}")
    results_in_user: ClassVar[bool] = False
    automatic: ClassVar[bool] = False
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
        self._user_levels = (self.content._replace(name=USER),)
        self._result_levels = (self.result_level,)
        self._user_result_levels = (*self._user_levels, self.result_level)

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
        return Head(data + lead.data, marks[-1:] if marked else (), tuple(lead.levels), lead.fresh)

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
        if role == "tool" and (name := pending.pop(message.get("tool_call_id", ""), None)) is not None:
            is_whole = "name" in message and "status" in message
            self.result(tape, message if is_whole else {"name": name, "status": "ok", **message})
            return
        if pending:
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

    def put(self, tape: Tape, fragment: Fragment) -> None:
        """A fragment, behind all there is."""
        form, levels = fragment.form, tape.levels
        if form is _MESSAGE and fragment.role != USER:
            self.entry(tape, fragment.role, fragment.text)
        elif form is _RESULT and levels[-1].name == RESULT:
            self.fold(tape, fragment.text)
        elif len(levels) > MESSAGE and levels[MESSAGE].name == USER:
            tape.add(CONTENT, self.piece(fragment.text))
            tape.last_role = USER
        else:
            self.say(tape, [fragment.text], join=True)

    def say(self, tape: Tape, said: Sequence[str], *, join: bool = False) -> None:
        """Texts of the user: a message of their own, unless they join the one that is open."""
        joins = (join or self.merges) and self._user_is_open(tape)
        for text in said:
            if joins:
                tape.add(CONTENT, self.piece(text))
            else:
                tape.open(MESSAGE, self._user_opening, self._user_levels, [self.piece(text)])
                joins = True
        tape.last_role = USER

    def result(self, tape: Tape, message: Mapping[str, Any]) -> None:
        """The result of a call; it stays open, so that more text can go into it."""
        opening = self.result_opening(message)
        pieces = [self.result_piece(text) for text in self._shielded(message)]
        if not self.results_in_user:
            tape.open(MESSAGE, opening, self._result_levels, pieces)
        elif self._user_is_open(tape):
            tape.open(CONTENT, opening, self._result_levels, pieces, mark=0)
        else:
            user = self._user_opening
            tape.open(MESSAGE, user + opening, self._user_result_levels, pieces, mark=len(user))
        tape.last_role = USER

    def _shielded(self, message: Mapping[str, Any]) -> list[str]:
        shield, said = self._shield, texts(message)
        return said if shield is None else [shield(text) for text in said]

    def fold(self, tape: Tape, text: str) -> None:
        """Text into the result that is open."""
        tape.add(len(tape.levels), self.result_piece(text), markable=not self.results_in_user)

    def entry(self, tape: Tape, role: str, text: str) -> None:
        """A message of its own that is neither the user's nor the model's."""
        tape.open(MESSAGE, self.opening % role.encode(), (self.content._replace(name=role),), [self.piece(text)])
        # In front of the conversation it is nobody's turn yet.
        tape.last_role = tape.last_role and role

    def summary(self, tape: Tape, text: str) -> None:
        """What stands for messages that are gone."""
        self.say(tape, [text], join=True)

    def _answer(self, tape: Tape, message: Mapping[str, Any]) -> None:
        tape.answered = len(tape.data)
        tape.answered_marks = len(tape.marks)
        tape.answered_blocks = tape.blocks
        again = tape.last_role == ASSISTANT and not self.profile.consecutive_assistant
        if again or (self.starts_with_user and not tape.last_role):
            self.say(tape, [GO_ON])
        said = texts(message)
        calls = message.get("tool_calls") or ()
        native = message.get("native")
        pending = tape.pending = {call["id"]: call["name"] for call in calls}
        if len(pending) != len(calls):
            # Only one of several calls of one id can have the result; what comes of the others is told as text.
            first = {call["id"]: call for call in reversed(calls)}
            calls, native = [first[call_id] for call_id in pending], None
        if native and native.get(self._name):
            self.repeat(tape, native[self._name])
        else:
            self.reply(tape, [] if calls and said == [EMPTY] else said, calls)
        tape.last_role = ASSISTANT

    def speaker(self, _tape: Tape) -> str:
        """The role of the message that would carry more text of the user now."""
        return USER

    @staticmethod
    def _user_is_open(tape: Tape) -> bool:
        levels = tape.levels
        return len(levels) > MESSAGE and levels[MESSAGE].name == USER

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

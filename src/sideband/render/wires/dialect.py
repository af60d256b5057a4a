"""What all wires share: encoding a conversation message by message onto a tape whose end stays open."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from sideband.core.blocks import BlockKind, Media, UnreadableBlock, kind_of_media, media_in, resource_text
from sideband.core.ledger import Form, Fragment
from sideband.core.messages import escaped_name
from sideband.render.escape import Escape, attribute, neutralise_all
from sideband.render.profiles import MOST_MARKERS, Cache, Profile, Wire
from sideband.render.shapes import summary
from sideband.render.tape import EMPTY, ROOT, Container, Nesting, PendingCall, Tape, block_text, texts

# Depths on the tape: inside the array of messages, and inside a message.
MESSAGE: Final = 1

CONTENT: Final = 2

USER: Final = "user"

ASSISTANT: Final = "assistant"

RESULT: Final = "result"

# Breakpoints in the conversation: at the end of the last answered request, and at the end of what stays now.
CONVERSATION_MARKS: Final = 2

NO_RESULT: Final = "No result was recorded."

# Where a wire requires a user turn before a reply and there is none: the reply to a message that was compacted away, to
# a reminder that another model was shown, or to nothing.
UNPROMPTED: Final = summary(["The next reply answers no message that is shown here."])

# Providers refuse a blank message, and any other text in its place would be the user's.
BLANK: Final = summary(["The user sent a message without content."])

_KINDS: Final = frozenset(BlockKind)


class Settings(NamedTuple):
    """What all requests of a model have in common; `max_output_tokens` None: the default of the provider."""

    model: str
    max_output_tokens: int | None = None
    stream: bool = True
    parameters: Mapping[str, Any] = MappingProxyType({})


class Opening(NamedTuple):
    """What all requests of a window have before the conversation."""

    settings: Settings
    system: str
    tools: Sequence[Mapping[str, Any]] = ()
    session_id: str = ""


class Preamble(NamedTuple):
    """The fields of a body before its messages, not closed yet; a cache marker may stand at `marks`."""

    data: bytes
    marks: tuple[int, ...] = ()


class Head(NamedTuple):
    """The encoded body up to the conversation, whose tape starts with the containers of `top` open."""

    data: bytes
    marks: tuple[int, ...]
    top: Nesting


class LeftOut(NamedTuple):
    """A block that is not in the request: its kind, a description for the user, and the reason."""

    kind: str
    about: str
    reason: str


def _about(media: Media) -> str:
    details = [media.media_type, f"{media.size:,} bytes" if media.data else media.url]
    name = f" {media.title!a}" if media.title else ""
    return f"{media.kind} content{name} ({', '.join(filter(None, details))})"


class Dialect(ABC):
    """How one wire encodes a conversation. Subclasses supply the differences between wires.

    A tool result is a message, or with `results_in_user` a block in a user message. `linked` are the kinds of media for
    which the wire has a form with a URL. With `merges`, consecutive user messages are written as one. `starts_with_user`:
    a conversation must not start with the assistant. `binds`: thinking is only valid after the exact prefix that it was
    produced with. `calls_are_text`: a reply with calls is never sent back as it came. `automatic`: a marker at the start
    of the body asks the provider to place a breakpoint itself.
    `shield` escapes tool output, so that it cannot imitate a reminder or the user (None: it is not escaped).
    """

    wire: ClassVar[Wire]
    array: ClassVar[bytes] = b"messages"
    marker: ClassVar[bytes] = b""
    opening: ClassVar[bytes] = b'{"role":"%b","content":['
    content: ClassVar[Container] = Container("content", b"]}")
    result_level: ClassVar[Container] = Container(RESULT, b"]}")
    results_in_user: ClassVar[bool] = False
    linked: ClassVar[frozenset[BlockKind]] = frozenset({BlockKind.IMAGE, BlockKind.DOCUMENT})
    automatic: ClassVar[bool] = False
    binds: bool = False
    merges: bool = False
    starts_with_user: bool = False
    calls_are_text: bool = False

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
        self._result = Nesting(self.result_level, ROOT)
        self._user_result = Nesting(self.result_level, self._user)

    # The head.

    def head(self, opening: Opening) -> Head:
        """Everything before the first message of the conversation."""
        lead = Tape(marking=self.marking)
        if opening.system:
            self.lead(lead, opening.system)
        data, marks = self.preamble(opening)
        data += b',"%b":[' % self.array
        marks = (*marks, *(len(data) + mark for mark in lead.marks))
        # If the provider allows too few markers, those in the conversation cover the head too.
        marked = self.marking and self.most_marks > CONVERSATION_MARKS
        return Head(data + lead.data, marks[-1:] if marked else (), lead.top)

    @abstractmethod
    def preamble(self, opening: Opening) -> Preamble:
        """The fields before the conversation."""

    def lead(self, tape: Tape, system: str) -> None:
        """Write the system text, on wires where it is a message."""
        self.entry(tape, self.profile.leading_role.value, system)

    # The conversation.

    def write(self, tape: Tape, message: Mapping[str, Any]) -> None:
        """Write one more message, and repair what providers refuse: a call without a result, a result without a call.

        A custom compactor may leave both, and results without a name or status. A model may use one id for several calls.
        """
        role, pending = message["role"], tape.pending
        if pending:
            if role == "tool" and (call := pending.pop(message.get("tool_call_id", ""), None)) is not None:
                self.result(tape, {"name": call.name, "status": "ok", **message, "tool_call_id": call.wire_id})
                return
            self.settle(tape)
        if role == ASSISTANT:
            self._answer(tape, message)
        elif role == "system":
            # A compactor may quote anyone, so what it writes has no more authority than a user's text.
            self.say(tape, [summary(texts(message))], join=True)
        elif role == "tool":
            tool = escaped_name(message.get("name") or "a tool")
            self.say(tape, [summary([f"Result of {tool}:", *texts(message)])], join=True)
        else:
            self.say(tape, self._told(tape, message))

    def unbound(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """A message that is older than the window, without thinking that is bound to its prefix."""
        return message

    def settle(self, tape: Tape) -> None:
        """Write a result for each pending call: providers allow nothing else after a call."""
        while tape.pending:
            call_id = next(iter(tape.pending))
            lost = {"role": "tool", "tool_call_id": call_id, "status": "unknown", "content": NO_RESULT}
            self.write(tape, lost)

    def put(self, tape: Tape, fragment: Fragment) -> None:
        """Append a fragment."""
        form, text, top = fragment.form, fragment.text, tape.top
        if form is Form.MESSAGE and fragment.role != USER:
            self.entry(tape, fragment.role, text)
        elif form is Form.RESULT and top.name == RESULT:
            self.fold(tape, text)
        elif top.turn == USER:
            tape.add(CONTENT, self.user_piece(text))
            tape.last_role = USER
        else:
            self.say(tape, [text], join=True)

    def say(self, tape: Tape, said: Sequence[str | bytes], *, join: bool = False) -> None:
        """Write what the user says, as texts and encoded blocks.

        It becomes a new message, unless it is merged or joined into the open one.
        """
        user, joins = self._user_opening, (join or self.merges) and tape.top.turn == USER
        for part in said:
            piece = part if isinstance(part, bytes) else self.user_piece(part)
            if joins:
                tape.add(CONTENT, piece)
            else:
                tape.open(MESSAGE, user + piece, self._user, mark=len(user))
                joins = True
        tape.last_role = USER

    def result(self, tape: Tape, message: Mapping[str, Any]) -> None:
        """Write the result of a call. It stays open, so that more text can be folded into it."""
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

    def _told(self, tape: Tape, message: Mapping[str, Any]) -> Sequence[str | bytes]:
        """The content of a user message: its texts, and its images, documents and audio, encoded."""
        content = message.get("content") or ""
        if isinstance(content, str):
            return [content] if content and not content.isspace() else [BLANK]
        # Texts before the blocks are not the user's; blocks are counted without them.
        told: list[str | bytes] = [block for block in content if isinstance(block, str)]
        front = len(told)
        for number, block in enumerate(content[front:], start=1):
            part = self._part(tape, block)
            if isinstance(part, LeftOut):
                name = f"message {message['id']}" if "id" in message else "a user message"
                tape.left_out.append(f"block {number} of {name}, {part.about}, is left out of requests: {part.reason}")
                part = f"[{part.kind} left out: {part.reason}]"
            if part and not part.isspace():
                told.append(part)
        return told if len(told) > front else [*told, BLANK]

    def _part(self, tape: Tape, block: Mapping[str, Any]) -> "str | bytes | LeftOut":
        try:
            media, text = media_in(block), resource_text(block)
        except UnreadableBlock as fault:
            kind = str(block["type"])
            return LeftOut(kind, f"{kind} content", f"its {fault.field} {fault}")
        kind = block.get("type", BlockKind.TEXT)
        if kind not in _KINDS:
            named = attribute(str(kind))
            return LeftOut(named, f"{named} content", "this type of block is not known")
        if media is not None:
            # A title is the name of a file, which anyone may have chosen.
            media = media._replace(title=neutralise_all(media.title))
            refusal = self.refusal(tape, media)
            return self.media_piece(media) if refusal is None else LeftOut(media.kind, _about(media), refusal)
        if text is not None:
            # A resource is a file or a page, which may imitate a reminder as tool output may.
            return "\n\n".join([block_text(block), *self._shielded({"content": text})])
        return block_text(block)

    def refusal(self, _tape: Tape, media: Media) -> str | None:
        """Why an image, a document or audio cannot be written now; None if it can."""
        taken, name = self.profile.media, media.media_type
        if name not in taken if name else all(kind_of_media(each) is not media.kind for each in taken):
            return f"this model does not take {name or f'{media.kind} content'}"
        if media.url and not (self.profile.media_urls and media.kind in self.linked):
            return f"this model does not take {media.kind} content by URL"
        return None

    def _shielded(self, message: Mapping[str, Any]) -> list[str]:
        shield, said = self._shield, texts(message)
        return said if shield is None else [*map(shield, said)]

    def fold(self, tape: Tape, text: str) -> None:
        """Append text to the open result."""
        tape.add(tape.top.depth, self.result_piece(text), mark=None if self.results_in_user else 0)

    def entry(self, tape: Tape, role: str, text: str) -> None:
        """Write a message that is neither the user's nor the assistant's."""
        if role == USER:
            tape.open(MESSAGE, self._user_opening + self.user_piece(text), self._user, mark=len(self._user_opening))
        else:
            opening = self.opening % role.encode()
            tape.open(MESSAGE, opening + self.piece(text), self._turn(role), mark=len(opening))
        # Before the conversation there is no last speaker.
        tape.last_role = tape.last_role and role

    def _answer(self, tape: Tape, message: Mapping[str, Any]) -> None:
        tape.answer()
        if tape.last_role != USER and self._needs_user(tape):
            self.say(tape, [UNPROMPTED], join=True)
        said, calls, native = texts(message), message.get("tool_calls") or (), message.get("native")
        if len(calls) > 1 and len({call["id"] for call in calls}) != len(calls):
            # Only one of several calls with the same id can have a result; the other results become user text.
            first: dict[str, Mapping[str, Any]] = {}
            for call in calls:
                first.setdefault(call["id"], call)
            calls, native = list(first.values()), None
        ids = [self._claim(tape, call["id"]) for call in calls]
        tape.pending = {
            call["id"]: PendingCall(call["name"], wire_id) for call, wire_id in zip(calls, ids, strict=True)
        }
        if native and native.get(self._name) and not (calls and self.calls_are_text):
            self.repeat(tape, self.renamed(native[self._name], iter(ids)))
        else:
            calls = [{**call, "id": wire_id} for call, wire_id in zip(calls, ids, strict=True)]
            self.reply(tape, [] if calls and said == [EMPTY] else said, calls)
        tape.last_role = ASSISTANT

    def _claim(self, tape: Tape, call_id: str) -> str:
        """The id of a call on the wire: in the form that the wire allows, and different from all before it on the tape.

        Many local models number the calls of every reply from 1, and some providers refuse a conversation in which two
        calls have the same id.
        """
        called = tape.called
        wire_id = fitting = self.call_id(call_id)
        number = called.get(fitting, 0)
        while wire_id in called:
            number += 1
            wire_id = self.call_id(f"{call_id}_{number}")
        called[wire_id] = 1
        called[fitting] = max(number, 1)
        return wire_id

    def call_id(self, call_id: str) -> str:
        """The id in the form that this wire allows; ids from other wires may be longer or have other characters."""
        return call_id

    def _needs_user(self, tape: Tape) -> bool:
        """Whether the wire requires a user message before the next one of the assistant."""
        if tape.last_role == ASSISTANT:
            return not self.profile.consecutive_assistant
        return self.starts_with_user and not tape.last_role

    def speaker(self, _tape: Tape) -> str:
        """The role of the message that more user text would go into now."""
        return USER

    def _turn(self, role: str) -> Nesting:
        return Nesting(self.content._replace(name=role), ROOT)

    # What each wire supplies.

    @abstractmethod
    def piece(self, text: str) -> bytes:
        """A text, encoded as part of a message."""

    def user_piece(self, text: str) -> bytes:
        """A text, encoded as part of a user message."""
        return self.piece(text)

    @abstractmethod
    def media_piece(self, media: Media) -> bytes:
        """An image, a document or audio, encoded as part of a user message; it is one that the profile names."""

    def result_piece(self, text: str) -> bytes:
        """A text, encoded as part of a result."""
        return self.piece(text)

    @abstractmethod
    def result_opening(self, message: Mapping[str, Any]) -> bytes:
        """The encoded result up to its text."""

    @abstractmethod
    def reply(self, tape: Tape, said: Sequence[str], calls: Sequence[Mapping[str, Any]]) -> None:
        """Write a reply of the model from its texts and calls."""

    @abstractmethod
    def renamed(self, native: Sequence[Mapping[str, Any]], ids: Iterator[str]) -> Sequence[Mapping[str, Any]]:
        """A reply as this wire returned it, with the next of `ids` for each of its calls."""

    @abstractmethod
    def repeat(self, tape: Tape, native: Sequence[Mapping[str, Any]]) -> None:
        """Write a reply of the model as this wire returned it, with provider-specific parts such as signatures."""

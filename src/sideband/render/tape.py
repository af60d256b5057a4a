"""The growing encoding of a conversation: what is written stays, and what is open is closed when something else comes."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


class TextPart(msgspec.Struct, tag_field="type", tag="text", gc=False):
    """A text as several wires write it: encoded in one go, which spares a long one from being copied."""

    text: str


class Level(NamedTuple):
    """Something that can be open: how it is called, what closes it, and what stands between two pieces in it."""

    name: str
    closer: bytes
    between: bytes = b","


class Open:
    """All that is open at the end of a tape: a level, inside of what else is open.

    `depth` is how many levels that are, and `turn` how the message is called that is among them ("": none is). A piece
    at some depth comes behind that one of the `joints`, which closes all that is deeper and parts the piece from the one
    before; then what is `left` at that depth is open. The joint of depth 0 closes everything.
    """

    __slots__ = ("depth", "joints", "left", "name", "turn")

    def __init__(self, level: Level, outer: "Open | None" = None) -> None:
        around: tuple[bytes, ...] = (b"",) if outer is None else outer.joints
        self.name = level.name
        self.turn: str = "" if outer is None else outer.turn or level.name
        self.joints: tuple[bytes, ...] = (*(level.closer + joint for joint in around), level.between)
        self.left: tuple[Open, ...] = (self, self) if outer is None else (*outer.left, self)
        self.depth = len(around)


# The array of all messages, and the same before there is one in it.
ROOT: Final = Open(Level("root", b"]"))
FRESH: Final = Open(Level("root", b"]", b""))
FRESH.left = ROOT.left


class Tape:
    """Bytes that are only ever appended to, and at their `top` what is open.

    `marks` are the places where a cache marker may be spliced in, each right behind the brace that opens a block; where
    `marking` is off, none are remembered. `blocks` counts what there is. The `answered` ones tell how far bytes, marks
    and blocks went when the last reply came. `pending` are the calls that wait for their results, by id, with their
    names. `base` is where the bytes begin: those before it are on the tape that this one is a fork of, or were released.
    """

    __slots__ = (
        "answered",
        "answered_blocks",
        "answered_marks",
        "base",
        "blocks",
        "data",
        "last_role",
        "marking",
        "marks",
        "pending",
        "top",
    )

    def __init__(self, top: Open = FRESH, *, marking: bool = False) -> None:
        self.data = bytearray()
        self.base = 0
        self.top = top
        self.marking = marking
        self.marks: list[int] = []
        self.blocks = self.answered = self.answered_marks = self.answered_blocks = 0
        self.pending: dict[str, str] = {}
        self.last_role = ""

    def fork(self) -> "Tape":
        """An empty tape that goes on where this one ends; nothing written to it changes this one."""
        # Every request makes one: going through the arguments of the constructor takes as long as all the rest of it.
        copy = Tape.__new__(Tape)
        copy.data = bytearray()
        copy.base = self.base + len(self.data)
        copy.top, copy.marking = self.top, self.marking
        copy.marks = []
        copy.blocks = copy.answered = copy.answered_marks = copy.answered_blocks = 0
        copy.pending = self.pending.copy()
        copy.last_role = ""
        return copy

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    @property
    def settled(self) -> int:
        """Before this no marker will ever stand: each that comes is at the end of what was answered last, or behind it."""
        marks = self.marks
        # What stays may end one mark before the last.
        return marks[max(0, min(self.answered_marks - 1, len(marks) - 2))] if marks else self.end

    def answer(self) -> None:
        """A reply begins here."""
        self.answered = self.base + len(self.data)
        self.answered_marks = len(self.marks)
        self.answered_blocks = self.blocks

    def release(self, count: int) -> None:
        """Forget so many bytes, which somebody else keeps."""
        del self.data[:count]
        self.base += count

    def add(self, depth: int, piece: bytes, *, mark: int | None = 0, blocks: int = 1) -> None:
        """One more piece into what is open at this depth; what is open inside it is closed first.

        A marker may stand behind the brace at `mark` in it (None: nowhere).
        """
        data, top = self.data, self.top
        data += top.joints[depth]
        if mark is not None and self.marking:
            self.marks.append(self.base + len(data) + mark + 1)
        data += piece
        self.blocks += blocks
        self.top = top.left[depth]

    def open(self, depth: int, piece: bytes, top: Open, *, mark: int | None = 0, blocks: int = 1) -> None:
        """The same with a piece that goes on: all of `top` is open from now on."""
        self.add(depth, piece, mark=mark, blocks=blocks)
        self.top = top


# What messages say.

# Some wires refuse a text that is empty or blank.
EMPTY: Final = "(empty)"


def texts(message: Mapping[str, Any]) -> list[str]:
    """What a message says, piece by piece, never nothing; what is no text is named."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return [content] if content and not content.isspace() else [EMPTY]
    said = [_described(block) for block in content]
    return [text for text in said if text and not text.isspace()] or [EMPTY]


def _described(block: Mapping[str, Any]) -> str:
    kind = block.get("type", "")
    if kind == "text":
        return str(block.get("text", ""))
    resource = block.get("resource")
    inner = resource if isinstance(resource, Mapping) else block
    about = (inner.get("uri"), inner.get("name"), inner.get("mimeType"))
    return f"[{kind}{''.join(f' {part}' for part in about if part)}]"


def quoted_inside(text: str) -> bytes:
    """A text as it stands inside the quotes of a JSON string."""
    return encode(text)[1:-1]

"""The encoded conversation, to which bytes are only appended: containers stay open until something else is written."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from sideband.render.escape import attribute

encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


class TextPart(msgspec.Struct, tag_field="type", tag="text", gc=False):
    """A text block, as several wires write it."""

    text: str


class Container(NamedTuple):
    """A JSON array or string that can stay open: its name, what closes it, and what separates two pieces in it."""

    name: str
    closer: bytes
    between: bytes = b","


class Nesting:
    """The containers that are open at the end of a tape: one container, inside the `outer` ones.

    `depth` is their number, `name` that of the innermost, and `turn` that of the open message ("": no message is open).
    To append a piece at depth n, write `joints[n]` first: it closes the deeper containers and separates the piece from
    the one before. Afterwards the open containers are `left[n]`. `joints[0]` closes everything.
    """

    __slots__ = ("depth", "joints", "left", "name", "turn")

    def __init__(self, container: Container, outer: "Nesting | None" = None) -> None:
        around: tuple[bytes, ...] = (b"",) if outer is None else outer.joints
        self.name = container.name
        self.turn: str = "" if outer is None else outer.turn or container.name
        self.joints: tuple[bytes, ...] = (*(container.closer + joint for joint in around), container.between)
        self.left: tuple[Nesting, ...] = (self, self) if outer is None else (*outer.left, self)
        self.depth = len(around)


# The array of messages; FRESH while it is empty.
ROOT: Final = Nesting(Container("root", b"]"))
FRESH: Final = Nesting(Container("root", b"]", b""))
FRESH.left = ROOT.left


class PendingCall(NamedTuple):
    """A call without a result: the name of its tool, and its id on the wire."""

    name: str
    wire_id: str


class Tape:
    """Bytes that are only appended to, and the containers that are open at their end (`top`).

    `marks` are the positions at which a cache marker may be inserted, each after the opening brace of a block; they are
    recorded only while `marking` is true. `blocks` counts the blocks. The `answered` attributes are the positions in
    bytes, marks and blocks at which the last reply began. `pending` has the calls without a result, by their ids in the
    conversation. `called` has the ids of all calls on the tape, each with the number of calls that asked for it.
    `left_out` describes the blocks that could not be written. `base` is the position of the first byte: on a fork, the
    end of the tape that it continues.
    """

    __slots__ = (
        "answered",
        "answered_blocks",
        "answered_marks",
        "base",
        "blocks",
        "called",
        "data",
        "last_role",
        "left_out",
        "marking",
        "marks",
        "pending",
        "top",
    )

    def __init__(self, top: Nesting = FRESH, *, marking: bool = False, base: int = 0) -> None:
        self.data = bytearray()
        self.base = base
        self.top = top
        self.marking = marking
        self.marks: list[int] = []
        self.blocks = self.answered = self.answered_marks = self.answered_blocks = 0
        self.pending: dict[str, PendingCall] = {}
        self.called: dict[str, int] = {}
        self.left_out: list[str] = []
        self.last_role = ""

    def fork(self) -> "Tape":
        """An empty tape that continues this one; writing to it does not change this one."""
        fork = Tape(self.top, marking=self.marking, base=self.end)
        fork.pending = self.pending.copy()
        return fork

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def answer(self) -> None:
        """Record that a reply begins here."""
        self.answered = self.end
        self.answered_marks = len(self.marks)
        self.answered_blocks = self.blocks

    def add(self, depth: int, piece: bytes, *, mark: int | None = 0, blocks: int = 1) -> None:
        """Append a piece at this depth, after closing the deeper containers.

        A marker may be inserted after the brace at `mark` in the piece (None: nowhere).
        """
        data, top = self.data, self.top
        data += top.joints[depth]
        if mark is not None and self.marking:
            self.marks.append(self.base + len(data) + mark + 1)
        data += piece
        self.blocks += blocks
        self.top = top.left[depth]

    def open(self, depth: int, piece: bytes, top: Nesting, *, mark: int | None = 0, blocks: int = 1) -> None:
        """Append a piece that is not closed yet: the containers of `top` are open after it."""
        self.add(depth, piece, mark=mark, blocks=blocks)
        self.top = top


# The text of messages.

# Some wires refuse a text that is empty or blank.
EMPTY: Final = "(empty)"


def texts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message, at least one; a block that is not text is replaced by a description."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return [content] if content and not content.isspace() else [EMPTY]
    said = [block_text(block) for block in content]
    return [text for text in said if text and not text.isspace()] or [EMPTY]


def block_text(block: Mapping[str, Any]) -> str:
    """The text of a block, or a description of it in brackets, in which no name can imitate our own text."""
    kind = block.get("type", "")
    if kind == "text" or "type" not in block:
        return str(block.get("text", ""))
    resource = block.get("resource")
    inner = resource if isinstance(resource, Mapping) else block
    about = (inner.get("uri"), inner.get("name"), inner.get("mimeType"))
    return f"[{' '.join(attribute(str(part)) for part in (kind, *about) if part)}]"


def quoted_inside(text: str) -> bytes:
    """A text encoded as the inside of a JSON string, without the quotes."""
    return encode(text)[1:-1]

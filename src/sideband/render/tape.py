"""The growing encoding of a conversation: what is written stays, and what is open is closed when something else comes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


class Level(NamedTuple):
    """Something open: how it is called, what closes it, and what stands between two pieces in it."""

    name: str
    closer: bytes
    between: bytes = b","


# The array of all messages.
ROOT: Final = Level("root", b"]")


class Tape:
    """Bytes that are only ever appended to, and what is open at their end.

    `marks` are the places where a cache marker may be spliced in, each right behind the brace that opens a block; where
    `marking` is off, none are remembered. `blocks` counts what there is. The `answered` ones tell how far bytes, marks
    and blocks went when the last reply came. `pending` are the calls that wait for their results, by id, with their
    names. `base` is where the bytes begin, in those of the tape that this one is a fork of.
    """

    __slots__ = (
        "answered",
        "answered_blocks",
        "answered_marks",
        "base",
        "blocks",
        "data",
        "fresh",
        "last_role",
        "levels",
        "marking",
        "marks",
        "pending",
    )

    def __init__(self, levels: Sequence[Level] = (ROOT,), *, fresh: bool = True, marking: bool = False) -> None:
        self.data = bytearray()
        self.base = 0
        self.levels = [*levels]
        self.fresh = fresh
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
        copy.base = len(self.data)
        copy.levels = self.levels.copy()
        copy.fresh, copy.marking = self.fresh, self.marking
        copy.marks = []
        copy.blocks = copy.answered = copy.answered_marks = copy.answered_blocks = 0
        copy.pending = self.pending.copy()
        copy.last_role = ""
        return copy

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    @property
    def open_name(self) -> str:
        """What the innermost open thing is called."""
        return self.levels[-1].name

    @property
    def closers(self) -> bytes:
        """What would close all that is open."""
        return b"".join([level.closer for level in self.levels[::-1]])

    def add(self, depth: int, piece: bytes, *, markable: bool = True) -> None:
        """One more piece into what is open at this depth; what is open inside it is closed first."""
        data, levels = self.data, self.levels
        # What was added before is closed by itself, which holds for most pieces: nothing but what parts them is needed.
        if len(levels) == depth and not self.fresh:
            data += levels[-1].between
        else:
            self._at(depth)
        if markable and self.marking:
            self.marks.append(self.base + len(data) + 1)
        self.blocks += 1
        data += piece

    def open(
        self,
        depth: int,
        opening: bytes,
        levels: Sequence[Level],
        pieces: Sequence[bytes],
        *,
        markable: bool = True,
        mark: int | None = None,
    ) -> None:
        """Something that goes on: these levels are open from now on, the innermost has these pieces in it so far.

        The last piece may carry a marker, or what opens at `mark` in the opening.
        """
        data = self._at(depth)
        start = self.base + len(data)
        self.levels += levels
        data += opening
        data += pieces[0] if len(pieces) == 1 else levels[-1].between.join(pieces)
        if markable and self.marking:
            last = self.base + len(data) - len(pieces[-1])
            self.marks.append((last if mark is None else start + mark) + 1)
        self.blocks += len(pieces) if mark is None else 1

    def _at(self, depth: int) -> bytearray:
        """The bytes, ready for something at this depth: what is deeper is closed, what is beside it parted from it."""
        data, levels = self.data, self.levels
        while len(levels) > depth:
            data += levels.pop().closer
            self.fresh = False
        if self.fresh:
            self.fresh = False
        else:
            data += levels[-1].between
        return data


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

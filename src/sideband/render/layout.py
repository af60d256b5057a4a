"""Putting a body together: what its runs of bytes are, and cache markers spliced in at remembered places."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.ledger import Fragment, Scope


class Kind(StrEnum):
    """What a run of bytes in a body is."""

    HEAD = "head"
    """What all requests of a window begin with."""
    STABLE = "stable"
    """What the last answered request had already."""
    NEW = "new"
    """Messages that have come since, its answer among them."""
    KEPT = "kept"
    VOLATILE = "volatile"
    CLEARING = "clearing"
    MARKER = "marker"
    CLOSING = "closing"


class Part(NamedTuple):
    """A run of bytes in a body."""

    kind: Kind
    start: int
    end: int


_KINDS: Final[Mapping[Scope, Kind]] = MappingProxyType(
    {Scope.KEPT: Kind.KEPT, Scope.VOLATILE: Kind.VOLATILE, Scope.CLEARING: Kind.CLEARING}
)


class Layout(msgspec.Struct, frozen=True):
    """Where the runs of a body end while its markers are not in it yet, and where those go.

    The runs are the head, what was there before, what is new, each fragment, and the end. The first of them end at
    `head` and `answered`; the others, from what is new on, at `ends`, which are counted from `behind`. Markers stand in
    the head at `head_marks`, and behind it at `marks`. All but the head is counted from its end.
    """

    head: int
    answered: int
    behind: int
    ends: Sequence[int]
    fragments: Sequence[Fragment]
    head_marks: Sequence[int]
    marks: Sequence[int]
    marker: int

    def parts(self) -> Iterator[Part]:
        """The runs of the finished body, in their order; empty ones are left out."""
        scopes = (_KINDS[fragment.scope] for fragment in self.fragments)
        ends = (0, self.answered, *(self.behind + end for end in self.ends))
        marks = iter((*self.head_marks, *(self.head + mark for mark in self.marks)))
        mark = next(marks, None)
        start = moved = 0
        for kind, place in zip((Kind.HEAD, Kind.STABLE, Kind.NEW, *scopes, Kind.CLOSING), ends, strict=True):
            end = self.head + place
            while mark is not None and mark < end:
                yield Part(kind, start + moved, mark + moved)
                yield Part(Kind.MARKER, mark + moved, mark + moved + self.marker)
                start, moved = mark, moved + self.marker
                mark = next(marks, None)
            if start < end:
                yield Part(kind, start + moved, end + moved)
            start = end


Chunk: TypeAlias = bytes | bytearray | memoryview


def marked_at(buffer: bytes, marks: Sequence[int], marker: bytes) -> bytes:
    """A buffer with the marker at each mark; marks rise."""
    return b"".join(spliced(buffer, b"", marks, marker))


def spliced(
    buffer: bytes | bytearray, behind: bytes | bytearray, marks: Sequence[int], marker: bytes, begin: int = 0
) -> list[Chunk]:
    """Two buffers in a row with the marker at each mark, in chunks to be used before a buffer grows.

    Marks rise; `begin` is where the first buffer begins, as they count.
    """
    if marks and marks[-1] - begin > len(buffer):
        buffer, behind = bytes(buffer) + behind, b""
    view, start = memoryview(buffer), 0
    chunks: list[Chunk] = []
    for mark in marks:
        cut = mark - begin
        chunks += (view[start:cut], marker)
        start = cut
    chunks += (view[start:], behind)
    return chunks

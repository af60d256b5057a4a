"""The layout of a body: what each run of its bytes is, and where cache markers are inserted."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.ledger import Fragment, Lifetime


class PartKind(StrEnum):
    """What a run of bytes in a body is."""

    HEAD = "head"
    """The beginning that all requests of a window share."""
    STABLE = "stable"
    """What the last answered request contained already."""
    NEW = "new"
    """Messages since then, including the answer."""
    KEPT = "kept"
    VOLATILE = "volatile"
    CLEARING = "clearing"
    MARKER = "marker"
    CLOSING = "closing"


class Part(NamedTuple):
    """A run of bytes in a body."""

    kind: PartKind
    start: int
    end: int


_KINDS: Final[Mapping[Lifetime, PartKind]] = MappingProxyType(
    {Lifetime.KEPT: PartKind.KEPT, Lifetime.VOLATILE: PartKind.VOLATILE, Lifetime.CLEARING: PartKind.CLEARING}
)


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Where the parts of a body end before the markers are inserted, and where the markers go.

    `head` is the length of the head; all other positions count from its end. `answered` is where the last answered
    request ended, and `fork` where this request diverges from the history. `ends` count from `fork`: the end of the new
    messages, of each fragment, and of the body. Markers stand in the head at `head_marks` and after it at `marks`;
    `marker` is their length.
    """

    head: int
    answered: int
    fork: int
    ends: Sequence[int]
    fragments: Sequence[Fragment]
    head_marks: Sequence[int]
    marks: Sequence[int]
    marker: int

    def parts(self) -> Iterator[Part]:
        """The parts of the finished body in order, without empty ones."""
        scopes = (_KINDS[fragment.scope] for fragment in self.fragments)
        kinds = (PartKind.HEAD, PartKind.STABLE, PartKind.NEW, *scopes, PartKind.CLOSING)
        ends = (0, self.answered, *(self.fork + end for end in self.ends))
        marks = iter((*self.head_marks, *(self.head + mark for mark in self.marks)))
        mark = next(marks, None)
        start = moved = 0
        for kind, place in zip(kinds, ends, strict=True):
            end = self.head + place
            while mark is not None and mark < end:
                yield Part(kind, start + moved, mark + moved)
                yield Part(PartKind.MARKER, mark + moved, mark + moved + self.marker)
                start, moved = mark, moved + self.marker
                mark = next(marks, None)
            if start < end:
                yield Part(kind, start + moved, end + moved)
            start = end


def spliced(buffer: bytes | bytearray, marks: Sequence[int], marker: bytes) -> list[bytes | memoryview]:
    """A buffer with the marker at each of the ascending marks, as chunks to be joined before the buffer grows."""
    view, start = memoryview(buffer), 0
    chunks: list[bytes | memoryview] = []
    for mark in marks:
        chunks += (view[start:mark], marker)
        start = mark
    chunks.append(view[start:])
    return chunks

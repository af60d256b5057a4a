"""Putting a body together: what its runs of bytes are, and cache markers spliced in at remembered places."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple


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


class Layout(NamedTuple):
    """What a body without its markers consists of, run by run with its end, and where in that the markers go."""

    runs: Sequence[tuple[Kind, int]]
    marks: Sequence[int]
    marker: int

    def parts(self) -> Iterator[Part]:
        """The runs of the finished body, in their order; empty ones are left out."""
        start = moved = 0
        marks = iter(self.marks)
        mark = next(marks, None)
        for kind, end in self.runs:
            while mark is not None and mark < end:
                yield Part(kind, start + moved, mark + moved)
                yield Part(Kind.MARKER, mark + moved, mark + moved + self.marker)
                start, moved = mark, moved + self.marker
                mark = next(marks, None)
            if start < end:
                yield Part(kind, start + moved, end + moved)
            start = end


def spliced(buffers: Sequence[bytes | bytearray], marks: Sequence[int], marker: bytes) -> bytes:
    """The buffers in a row, with the marker at each mark; marks rise."""
    chunks: list[bytes | bytearray | memoryview] = []
    begin = place = 0
    for buffer in buffers:
        end = begin + len(buffer)
        start = 0
        while place < len(marks) and marks[place] < end:
            cut = marks[place] - begin
            chunks += (memoryview(buffer)[start:cut], marker)
            start = cut
            place += 1
        chunks.append(memoryview(buffer)[start:] if start else buffer)
        begin = end
    return b"".join(chunks)

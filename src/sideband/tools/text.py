"""Text that the tools read and show: lines, valid UTF-8, and truncation.

Files may be large, so they are handled as bytes and decoded only as far as they are shown.
"""

import codecs
from collections.abc import Iterator
from typing import Final

import msgspec

KIB: Final = 1024
# The continuation bytes of UTF-8, and how many a character has at most.
CONTINUATION: Final = bytes(range(0x80, 0xC0))
MAX_CONTINUATION: Final = 3


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one tool call: longer output is truncated and says so; `*_seconds` limit its duration."""

    read_bytes: int = 64 * KIB
    run_bytes: int = 32 * KIB
    list_entries: int = 500
    search_matches: int = 200
    line_characters: int = 400
    search_seconds: float = 20
    run_seconds: int = 600


def size(text: str) -> int:
    """The length in bytes, as UTF-8."""
    return len(text.encode("utf-8"))


def printable(name: str) -> str:
    """A file name as one line of valid text; file systems also allow line breaks and invalid UTF-8."""
    return name if name.isprintable() else name.encode("unicode_escape").decode("ascii")


def cut(text: str, limit: int) -> str:
    """The longest prefix of `text` with at most `limit` bytes."""
    return _head_text(text.encode("utf-8")[:limit])


class HeadTail:
    """Keeps the first and the last bytes of an unbounded stream, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._head_limit = limit // 2
        self._tail_limit = limit - limit // 2
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[: -self._tail_limit]

    def last(self, limit: int) -> str:
        """The end of the output, at most `limit` bytes."""
        data = bytes((self._head + self._tail) if not self.cut else self._tail)
        return data.decode("utf-8", "replace") if len(data) <= limit else f"…{_tail_text(data[-limit:])}"

    @property
    def cut(self) -> bool:
        return self.total > len(self._head) + len(self._tail)

    def text(self) -> str:
        """The output; if it was too long, a mark replaces the omitted middle."""
        if not self.cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        left_out = self.total - len(self._head) - len(self._tail)
        mark = f"\n[truncated: {left_out} of {self.total} bytes are left out here]\n"
        return _head_text(bytes(self._head)) + mark + _tail_text(bytes(self._tail))


def _head_text(data: bytes) -> str:
    """The text up to the last complete character; the cut may have split one."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def _tail_text(data: bytes) -> str:
    """The text from the first complete character on; a split one has at most three bytes left."""
    rest = data[:MAX_CONTINUATION].lstrip(CONTINUATION) + data[MAX_CONTINUATION:]
    return rest.decode("utf-8", "replace")


# Text contains no NUL byte; as in git, only the first bytes are searched for one.
BINARY_PROBE_BYTES: Final = 8192
# Lines are counted in blocks of this many bytes; only the last block is searched line by line.
STRIDE_BYTES: Final = 4096

# Only \n ends a line, as in editors and compilers.
LINE_END: Final = b"\n"


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:BINARY_PROBE_BYTES]


def decoded(data: bytes) -> tuple[str, bool]:
    """The text, and whether it was valid UTF-8; invalid bytes are replaced by U+FFFD."""
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False


def whole_characters(data: bytes) -> bytes:
    """The bytes without an incomplete last character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    unfinished, _ = decoder.getstate()
    return data[: len(data) - len(unfinished)]


def line_count(data: bytes) -> int:
    """The number of lines; a last line without a line end counts."""
    return data.count(LINE_END) + (not data.endswith(LINE_END) and bool(data))


def line_start(data: bytes, number: int) -> int:
    """The offset of a line, counted from 1; the line after the last one begins at the end of the data."""
    place, left = 0, number - 1
    while left and (ends := data.count(LINE_END, place, place + STRIDE_BYTES)) < left and place < len(data):
        place, left = place + STRIDE_BYTES, left - ends
    for _ in range(left):
        place = line_end(data, place) + 1
    return min(place, len(data))


def line_end(data: bytes, place: int) -> int:
    """The offset of the line end at or after `place`."""
    found = data.find(LINE_END, place)
    return len(data) if found < 0 else found


def lines_in(data: bytes) -> Iterator[tuple[int, int]]:
    """The start and end offsets of each line, without the line end."""
    place = 0
    while place < len(data):
        end = line_end(data, place)
        yield place, end
        place = end + 1

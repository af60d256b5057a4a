"""What is text, and where its lines are. A file may be large: only what is shown of it is decoded."""

import codecs
from collections.abc import Iterator
from typing import Final

# Text has no NUL; whoever looks further than this for one only loses time.
BINARY_PROBE_BYTES: Final = 8192
# Lines are counted over this many bytes at a time and looked for one by one only in the last of them.
STRIDE_BYTES: Final = 4096

# Only \n ends a line, as in editors and compilers.
LINE_END: Final = b"\n"


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:BINARY_PROBE_BYTES]


def decoded(data: bytes) -> tuple[str, bool]:
    """The text, and whether all of it was valid UTF-8; what was not is replaced."""
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False


def whole_characters(data: bytes) -> bytes:
    """The bytes without those of a last character that is not complete."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    unfinished, _ = decoder.getstate()
    return data[: len(data) - len(unfinished)]


def line_count(data: bytes) -> int:
    """How many lines there are; one without an end is a line, too."""
    return data.count(LINE_END) + (not data.endswith(LINE_END) and bool(data))


def line_start(data: bytes, number: int) -> int:
    """Where the line of this number, counted from 1, begins; the one behind the last begins at the end."""
    place, left = 0, number - 1
    while left and (ends := data.count(LINE_END, place, place + STRIDE_BYTES)) < left and place < len(data):
        place, left = place + STRIDE_BYTES, left - ends
    for _ in range(left):
        place = line_end(data, place) + 1
    return min(place, len(data))


def line_end(data: bytes, place: int) -> int:
    """Where the line that goes on at `place` ends, without its end."""
    found = data.find(LINE_END, place)
    return len(data) if found < 0 else found


def lines_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each line begins, and where it ends without its end."""
    place = 0
    while place < len(data):
        end = line_end(data, place)
        yield place, end
        place = end + 1

"""How much of anything the model is shown, and how a cut is marked."""

import codecs
from typing import Final

import msgspec

KIB: Final = 1024
# The bytes that a UTF-8 character can go on with, and how many of them it can have.
CONTINUATION: Final = bytes(range(0x80, 0xC0))
MAX_CONTINUATION: Final = 3


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """How much one call may give, beyond which the output is cut and says so, and how long it may take."""

    read_bytes: int = 64 * KIB
    run_bytes: int = 32 * KIB
    list_entries: int = 500
    search_matches: int = 200
    line_characters: int = 400
    search_seconds: float = 20
    run_seconds: int = 600


def size(text: str) -> int:
    """Its bytes on a wire."""
    return len(text.encode("utf-8"))


def printable(name: str) -> str:
    """A file name on one line and as valid text, whatever the file system allowed in it."""
    return name if name.isprintable() else name.encode("unicode_escape").decode("ascii")


def cut(text: str, limit: int) -> str:
    """The longest beginning of `text` that has at most `limit` bytes."""
    return _beginning(text.encode("utf-8")[:limit])


class HeadTail:
    """The first and the last bytes of something that may go on for ever, in bounded memory."""

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
        """The end of it, at most so many bytes."""
        data = bytes((self._head + self._tail) if not self.cut else self._tail)
        return data.decode("utf-8", "replace") if len(data) <= limit else f"…{_end(data[-limit:])}"

    @property
    def cut(self) -> bool:
        return self.total > len(self._head) + len(self._tail)

    def text(self) -> str:
        """All of it; where it was too much, a mark stands for what is left out of the middle."""
        if not self.cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        left_out = self.total - len(self._head) - len(self._tail)
        mark = f"\n[truncated: {left_out} of {self.total} bytes are left out here]\n"
        return _beginning(bytes(self._head)) + mark + _end(bytes(self._tail))


def _beginning(data: bytes) -> str:
    """The text up to the last whole character: the cut may have gone through one."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def _end(data: bytes) -> str:
    """The text from the first whole character on; one that was cut has at most three bytes left."""
    rest = data[:MAX_CONTINUATION].lstrip(CONTINUATION) + data[MAX_CONTINUATION:]
    return rest.decode("utf-8", "replace")

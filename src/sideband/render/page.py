"""The body of a session's requests: what stays is written once, and stays where it is while the end is written anew."""

from collections.abc import Iterable
from io import BytesIO
from sys import getrefcount
from typing import Final

from sideband.render.layout import Chunk

# The page's own reference to the last body, and that of whoever asks.
_NOBODY_ELSE: Final = 2


class Page:
    """The last body of a session, as far as the next ones begin with it.

    A body is a value of its own, however long it is held: while it is, the next one is a copy. One that was sent and
    forgotten becomes the next without being copied or even read.
    """

    __slots__ = ("_front", "_kept", "_page")

    def __init__(self) -> None:
        self._page = BytesIO()
        self._front = b""
        self._kept = 0

    def finish(self, front: bytes, end: Iterable[Chunk]) -> bytes:
        """The body: this front, what is kept, and this end."""
        page = self._page
        # Writing on what is held would be safe, for it is copied then; but twice, and into memory that is new each time.
        if front is not self._front or getrefcount(page.getvalue()) > _NOBODY_ELSE:
            return self._copied(front, end)
        page.seek(self._kept)
        page.writelines(end)
        size = page.tell()
        # One byte more, and away with it: at the same length it would be the same object, with the hash of the last body.
        page.write(b"\n")
        page.truncate(size)
        return page.getvalue()

    def keep(self, count: int) -> None:
        """So many bytes more are the same in all bodies from now on."""
        self._kept += count

    def _copied(self, front: bytes, end: Iterable[Chunk]) -> bytes:
        last = memoryview(self._page.getvalue())
        body = b"".join((front, last[len(self._front) : self._kept], *end))
        page, kept = BytesIO(body), self._kept + len(front) - len(self._front)
        self._page, self._front, self._kept = page, front, kept
        return body

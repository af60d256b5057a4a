"""A program that matches a regular expression; unlike a thread, its process can be killed.

It is started by its path and imports only the standard library. Requests and answers are frames: a length, then that
many bytes. The first request is the pattern; its answer is the compile error, or empty. Each further request is the
content of a file; its answer has one `FOUND` record for every matching line: line number, byte offset of the line,
character offset of the first match in the line.
"""

import re
import resource
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

LENGTH: Final = struct.Struct(">Q")
FOUND: Final = struct.Struct(">III")


def frame(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload


def receive(stream: BinaryIO) -> bytes | None:
    """The next frame; None at the end of the stream, even in the middle of a frame."""
    header = stream.read(LENGTH.size)
    if len(header) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(header)
    payload = stream.read(length)
    return payload if len(payload) == length else None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""

    def answer(payload: bytes) -> None:
        answers.write(frame(payload))
        answers.flush()

    source = receive(requests)
    if source is None:
        return
    try:
        pattern = re.compile(source.decode("utf-8"))
    except (re.error, OverflowError, RecursionError) as error:
        answer(str(error).encode("utf-8"))
        return
    answer(b"")
    while (data := receive(requests)) is not None:
        answer(b"".join(FOUND.pack(*found) for found in _matching(pattern, data)))


def _matching(pattern: re.Pattern[str], data: bytes) -> Iterator[tuple[int, int, int]]:
    number, start = 0, 0
    while start < len(data):
        number += 1
        end = data.find(b"\n", start)
        line = data[start:] if end < 0 else data[start:end].removesuffix(b"\r")
        match = pattern.search(line.decode("utf-8", "replace"))
        if match:
            yield number, start, match.start()
        start = len(data) if end < 0 else end + 1


if __name__ == "__main__":
    # Limit the CPU time, in case the parent process dies without killing this one.
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    serve(sys.stdin.buffer, sys.stdout.buffer)

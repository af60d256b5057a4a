"""A process that does nothing but match a regular expression: it can be killed, which a thread that matches cannot.

It is started by its path and knows only the standard library. It reads frames, each a length and so many bytes: first
the pattern, then file after file. It answers each with a frame: after the pattern what is wrong with it, or nothing;
after a file `number:column` of every line that matches, separated by spaces.
"""

import re
import resource
import struct
import sys
from typing import BinaryIO, Final

LENGTH: Final = struct.Struct(">Q")


def frame(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload


def receive(stream: BinaryIO) -> bytes | None:
    """The next frame; None at the end of the stream, also where that comes in the middle of one."""
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
        lines = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n").split("\n")
        found = ((number, pattern.search(line)) for number, line in enumerate(lines, start=1))
        answer(b" ".join(b"%d:%d" % (number, match.start()) for number, match in found if match))


if __name__ == "__main__":
    # Whoever should kill it may be gone; it must not compute for ever.
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    serve(sys.stdin.buffer, sys.stdout.buffer)

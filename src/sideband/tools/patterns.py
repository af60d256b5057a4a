"""Finding the lines that match: literal text in this process, a regular expression in one of its own."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from sideband.tools import matcher
from sideband.tools.offload import Halt
from sideband.tools.refusal import Refused
from sideband.tools.text import LINE_END, line_end

MATCHER: Final = (sys.executable, "-I", "-S", "-X", "utf8", str(Path(matcher.__file__)))


class Match(NamedTuple):
    """A line that matches, counted from 1, the byte at which it begins, and the character at which its first match does."""

    number: int
    start: int
    column: int


# One match after the other: a large file may have millions.
Matching: TypeAlias = Callable[[bytes], Iterator[Match]]


@contextmanager
def literal(text: str) -> Iterator[Matching]:
    needle = text.encode("utf-8")

    def matches(data: bytes) -> Iterator[Match]:
        number, start, found = 1, 0, data.find(needle)
        while found >= 0:
            end = line_end(data, start)
            if end < found:
                number += data.count(LINE_END, start, found)
                start, end = data.rfind(LINE_END, start, found) + 1, line_end(data, found)
            yield Match(number, start, len(data[start:found].decode("utf-8", "replace")))
            number, start = number + 1, end + 1
            found = data.find(needle, start)

    yield matches


@contextmanager
def regular(pattern: str, halt: Halt, *, seconds: float) -> Iterator[Matching]:
    """Python's matcher can take exponential time and holds the interpreter meanwhile: a halt kills its process."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as answers:
        process = subprocess.Popen(  # noqa: S603 - this interpreter and our own file; the pattern is sent to it as data
            [*MATCHER, str(ceil(seconds) + 1)],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        try:
            with halt.stopping(process.kill):
                yield _conversation(ours, answers, pattern, halt)
        finally:
            process.kill()
            process.wait()


def _conversation(requests: socket.socket, answers: BinaryIO, pattern: str, halt: Halt) -> Matching:
    def ask(payload: bytes) -> bytes:
        answer = None
        with suppress(ConnectionError):
            requests.sendall(matcher.frame(payload))
            answer = matcher.receive(answers)
        if answer is None:
            halt.check()
            raise Refused("the process that matches the pattern has ended; try a simpler pattern")
        return answer

    def matches(data: bytes) -> Iterator[Match]:
        return map(Match._make, matcher.FOUND.iter_unpack(ask(data)))

    if wrong := ask(pattern.encode("utf-8")):
        raise Refused(f"pattern is no regular expression: {wrong.decode('utf-8')}")
    return matches

"""Finding the lines that match: literal text in this process, a regular expression in one of its own."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from sideband.tools import matcher
from sideband.tools.offload import Halt
from sideband.tools.refusal import Refused

MATCHER: Final = (sys.executable, "-I", "-S", "-X", "utf8", str(Path(matcher.__file__)))


class Match(NamedTuple):
    """A line that matches, counted from 1, and the character at which its first match begins."""

    number: int
    column: int


Matching: TypeAlias = Callable[[bytes], Sequence[Match]]


@contextmanager
def literal(text: str) -> Iterator[Matching]:
    needle = text.encode("utf-8")

    def matches(data: bytes) -> list[Match]:
        if needle not in data:
            return []
        lines = enumerate(data.decode("utf-8", "replace").split("\n"), start=1)
        return [Match(number, column) for number, line in lines if (column := line.find(text)) >= 0]

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

    def matches(data: bytes) -> list[Match]:
        pairs = (pair.partition(b":") for pair in ask(data).split())
        return [Match(int(number), int(column)) for number, _, column in pairs]

    if wrong := ask(pattern.encode("utf-8")):
        raise Refused(f"pattern is no regular expression: {wrong.decode('utf-8')}")
    return matches

"""What the other modules of this package share: printable text and tables, check results, errors of commands, and private files."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TextIO

OWNER_ONLY: Final = 0o600


class CheckResult(NamedTuple):
    """One line of a report on an installation or a store; `problem` says what to do (None: everything is in order)."""

    group: str
    name: str
    value: str | int | dict[str, float]
    problem: str | None = None


class CommandError(Exception):
    """A command cannot do what it was asked to, for example because it cannot tell which session is meant.

    `candidates` are the sessions that could be meant, each on a line; `code` is the diagnostic that describes the error.
    """

    def __init__(self, message: str, candidates: Sequence[str] = (), *, code: str | None = None) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)
        self.code = code


def printable(text: str) -> str:
    """The text on one line, with control characters and other unprintable characters escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def counted(number: int, what: str) -> str:
    """A number with what it counts, which is given in the singular."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows as lines with aligned columns, and unprintable characters escaped."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


@contextmanager
def private_file(path: Path) -> Iterator[TextIO]:
    """Write a file that only its owner can read, atomically.

    The file appears at `path` once everything is on the disk. After an error `path` is unchanged.
    """
    if path.is_dir():
        raise OSError(f"{path} cannot be written: it is a folder")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    with _naming(path):
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _naming(path):
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make errors name the file that the user asked for, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}") from error

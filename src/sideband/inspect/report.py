"""What the other modules of this package share: printable text, JSON and tables, check results, errors of commands, and private files."""

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TextIO

import msgspec

OWNER_ONLY: Final = 0o600
# What may be unprintable in JSON text.
_UNUSUAL: Final = re.compile(r"[^ -~\n]")


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


def printable_json(value: object, *, indent: int = 0) -> str:
    """The value as JSON, on one line unless it is indented, with unprintable characters escaped."""
    raw = msgspec.json.encode(value)
    return escaped_json((msgspec.json.format(raw, indent=indent) if indent else raw).decode())


def escaped_json(text: str) -> str:
    """JSON text with unprintable characters escaped, so that it is still the same JSON."""
    return _UNUSUAL.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    if found[0].isprintable():
        return found[0]
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def counted(number: int, what: str) -> str:
    """A number with what it counts, which is given in the singular."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shortened(text: str, width: int) -> str:
    """The text on one line of at most so many columns of a terminal, with unprintable characters escaped."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - only needed for a table

    line = printable(" ".join(text.split()))
    if cell_len(line) <= width:
        return line
    cut = set_cell_size(line, width - 4)
    words = cut.rpartition(" ")[0]
    # In a long word, or in a language without spaces.
    return f"{words if cell_len(words) > width // 2 else cut.rstrip()} ..."


def padded(text: str, width: int) -> str:
    """The text with spaces up to so many columns of a terminal, in which some characters are two columns wide."""
    from rich.cells import cell_len  # noqa: PLC0415 - only needed for a table

    return text + " " * (width - cell_len(text))


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows as lines with aligned columns, and unprintable characters escaped."""
    from rich.cells import cell_len  # noqa: PLC0415 - the help of a command does not need it

    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


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

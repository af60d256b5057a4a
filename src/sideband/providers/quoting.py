"""The words of others inside our own: marked as theirs, readable, and of bounded length.

Every line of theirs stands behind a mark, so that nothing they say can pass for ours.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sideband.core.fields import HOSTILE

MARK: Final = "> "
ELLIPSIS: Final = "…"
# A body has at most 8 KiB; the rest is room for our own words.
QUOTED_BYTES: Final = 6 * 1024
NAME_CHARACTERS: Final = 80


def visible(text: str) -> str:
    """The text with each character that no body may have written as its escape."""
    return HOSTILE.sub(lambda found: ascii(found.group())[1:-1], text)


def one_line(text: str, *, most: int) -> str:
    """The text with all white space collapsed, and at most so many characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}{ELLIPSIS}"


def named(text: str) -> str:
    """A short name, between the marks of a name."""
    name = one_line(text, most=NAME_CHARACTERS).replace("`", "'")
    return f"`{name}`"


def quoted(text: str, *, most: int = QUOTED_BYTES) -> str:
    """The text with each line behind the mark, in at most about so many bytes."""
    block = "\n".join(f"{MARK}{line}" for line in visible(text).strip().splitlines()).encode()
    if len(block) <= most:
        return block.decode()
    return f"{block[:most].decode(errors='ignore')}{ELLIPSIS} [shortened]"


class Packed(NamedTuple):
    """The lines that fit, each behind the mark, and how many did not."""

    text: str
    left_out: int


def packed(lines: Iterable[str], *, most: int = QUOTED_BYTES) -> Packed:
    """As many whole lines, from the first on, as fit into so many bytes."""
    kept: list[str] = []
    left_out, size = 0, 0
    for line in lines:
        size += len(MARK) + len(line.encode()) + 1
        if size > most:
            left_out += 1
        else:
            kept.append(f"{MARK}{line}")
    return Packed("\n".join(kept), left_out)

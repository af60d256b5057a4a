"""Foreign text inside the body of a reminder: marked as a quotation, readable, and of bounded length.

Every quoted line begins with a mark, so that quoted text cannot pass for the provider's own words.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sideband.core.parse import HOSTILE

MARK: Final = "> "
ELLIPSIS: Final = "…"
# A body has at most 8 KiB; the rest is for the provider's own words.
QUOTED_BYTES: Final = 6 * 1024
NAME_CHARACTERS: Final = 80


def visible(text: str) -> str:
    """The text with every character that a body must not contain replaced by its escape."""
    return HOSTILE.sub(lambda found: ascii(found.group())[1:-1], text)


def one_line(text: str, *, most: int) -> str:
    """The text with white space collapsed, at most `most` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}{ELLIPSIS}"


def named(text: str) -> str:
    """A short name in backquotes."""
    name = one_line(text, most=NAME_CHARACTERS).replace("`", "'")
    return f"`{name}`"


def quoted(text: str, *, most: int = QUOTED_BYTES) -> str:
    """The text with the mark before each line, at most about `most` bytes."""
    block = "\n".join(f"{MARK}{line}" for line in visible(text).strip().splitlines()).encode()
    if len(block) <= most:
        return block.decode()
    return f"{block[:most].decode(errors='ignore')}{ELLIPSIS} [shortened]"


class Packed(NamedTuple):
    """The lines that fit, each with the mark, and the number of those that did not."""

    text: str
    left_out: int


def packed(lines: Iterable[str], *, most: int = QUOTED_BYTES) -> Packed:
    """The lines that fit into `most` bytes, in order."""
    kept: list[str] = []
    left_out, size = 0, 0
    for line in lines:
        size += len(MARK) + len(line.encode()) + 1
        if size > most:
            left_out += 1
        else:
            kept.append(f"{MARK}{line}")
    return Packed("\n".join(kept), left_out)

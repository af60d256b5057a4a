"""Bodies of notices: bounded, and without control characters, whatever the names and outputs in them contain."""

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Final

from sideband.core.masking import mask_text
from sideband.providers.verifiers import plain, scan
from sideband.tools.text import KIB, cut, size

MAX_BODY_BYTES: Final = KIB
MAX_KEY_BYTES: Final = 256
# What one name, commit subject or failure line may take of a body.
MAX_NAME_BYTES: Final = 200
MAX_LINES: Final = 5
MAX_REPORT_BYTES: Final = 16 * KIB
ELLIPSIS: Final = "…"
_DIGEST_BYTES: Final = 8


def printable(text: str) -> str:
    """The text on one line; control characters and other unprintable characters are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def bounded(text: str, limit: int = MAX_BODY_BYTES) -> str:
    """The text, cut at a character boundary and marked if it has more than `limit` bytes."""
    return text if size(text) <= limit else cut(text, limit - size(ELLIPSIS)) + ELLIPSIS


def name(text: str) -> str:
    """A name or a subject from outside as part of a body; secrets are masked before it is cut."""
    return bounded(printable(mask_text(text)), MAX_NAME_BYTES)


def body(*lines: str) -> str:
    """The lines as a body; each is made printable and secrets are masked."""
    return bounded(mask_text("\n".join(map(printable, lines))))


def key(kind: str, subject: str) -> str:
    """The dedupe key of a subject, with secrets masked.

    If the subject is long, unprintable or masked, the key ends with a digest, so that keys stay distinct.
    """
    masked = mask_text(subject)
    whole = f"{kind}:{printable(masked)}"
    if size(whole) <= MAX_KEY_BYTES and subject.isprintable() and masked == subject:
        return whole
    digest = hashlib.blake2b(subject.encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{cut(whole, MAX_KEY_BYTES - size(ELLIPSIS) - len(digest))}{ELLIPSIS}{digest}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(map(name, names[:most])) + (f" and {rest:,} more" if rest > 0 else "")


def failing_lines(output: str) -> list[str]:
    """The first lines of a command's output that report failures; its last lines if no tool is recognised."""
    # A secret may have several lines, as a private key does.
    masked = mask_text(plain(output))
    found = [reported.summary for reported in islice(scan(masked), MAX_LINES)]
    lines = found or [line for line in masked.split("\n") if line.strip()][-MAX_LINES:]
    return [bounded(printable(line.rstrip()), MAX_NAME_BYTES) for line in lines]


def report(heading: str, output: str) -> str:
    """A heading and the end of a command's output, as the text of a resource."""
    lines = "\n".join(map(printable, mask_text(plain(output)).split("\n")))
    return mask_text(f"{printable(heading)}\n\n{ending(lines, MAX_REPORT_BYTES)}".rstrip())


def ending(text: str, limit: int) -> str:
    """The end of a text, marked if it is longer than `limit` bytes."""
    data = text.encode()
    return text if len(data) <= limit else ELLIPSIS + data[-limit:].decode(errors="ignore")

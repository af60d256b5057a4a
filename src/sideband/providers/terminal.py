"""Output that was written for a terminal, as plain text."""

import re
from typing import Final

KIB: Final = 1024
TEXT_BYTES: Final = 96 * KIB

# Colours and cursor movements, titles and links, and the short sequences. Each part consumes what it can and gives
# nothing back, so that half a sequence costs no more than a whole one.
_ESCAPE: Final = (
    r"\x1b\[[0-?]*+[ -/]*+[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*+(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*+[0-~]"
    r"|\x9b[0-?]*+[ -/]*+[@-~]"
)


def plain(text: str) -> str:
    """The text without escape sequences, with one kind of line end, and not longer than is read of it.

    Of what is too long the first and the last part are kept: compilers complain early, test runners sum up late.
    """
    text = re.sub(_ESCAPE, "", text).replace("\r\n", "\n").replace("\r", "\n")
    encoded = text.encode(errors="replace")
    if len(encoded) <= TEXT_BYTES:
        return text
    half = TEXT_BYTES // 2
    head = encoded[:half].decode(errors="ignore").rpartition("\n")[0]
    tail = encoded[-half:].decode(errors="ignore").partition("\n")[2]
    return f"{head}\n{tail}"

"""The escapers: no text from elsewhere can open or close a frame, or begin a line that reads like ours.

Imitations are searched in the folded text, in which all spellings are alike, and made harmless in the original, of which
everything else stays unchanged.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from sideband.core.messages import escaped_name
from sideband.render.confusables import fold, is_hidden


class Frame(StrEnum):
    """The elements that frame text which is not the user's; no text from elsewhere may open or close one."""

    SYSTEM_REMINDER = "system-reminder"
    PEER_NOTICE = "peer-notice"
    SERVER_NOTICE = "server-notice"
    CONVERSATION_SUMMARY = "conversation-summary"
    CALL_RESULT = "call-result"


class Lead(StrEnum):
    """How the lines begin that the renderer writes without a frame: these words, then a colon."""

    REMINDER = "System reminder"
    """Before a reminder in a plain shape."""
    USER = "The user says"
    """Before user text that has to be folded into a tool result."""
    WITHDRAWN = "Withdrawn"
    """In the line that withdraws kept reminders."""


Escape: TypeAlias = Callable[[str], str]

_QUOTE: Final = "> "
# A framing tag in folded text: with blanks and slashes before the name, attributes, self-closing, or cut off at the end.
# No run can contain another bracket, so matching takes linear time.
_TAG: Final = rf"<[ \n/]*+(?:{'|'.join(Frame)})(?![\w.:-])"
# What may stand between our words, after them and before the colon: signs, a number, and for how many turns it holds.
_BETWEEN: Final = r"[^\w\n:]*+"
_NUMBERED: Final = r"(?:[^\w\n:]|\d|turns?(?!\w))*+"
# Before our words: signs, as in a heading, a list, a quotation or emphasis, and the number of a list item.
_DECORATED: Final = r"[^\w\n]*+(?:(?:\d{1,9}|[a-z])[.):\]][^\w\n]*+)?+"

# Compiled at first use, so that importing the package stays fast.
_compiled: Final = cache(re.compile)


class _Lines(NamedTuple):
    """Lines that begin with one of some leads: the pattern of their start in folded text, and words that they contain.

    The pattern is tried at the start of each line and stays within it, so matching takes linear time.
    """

    pattern: str
    words: tuple[str, ...]


def _lines(*leads: Lead) -> _Lines:
    words = [lead.lower().split() for lead in leads]
    either = "|".join(map(_BETWEEN.join, words))
    return _Lines(rf"(?m)^{_DECORATED}(?:{either}){_NUMBERED}:", tuple(spoken[-1] for spoken in words))


_NO_LINES: Final = _lines()
_REMINDER_LINES: Final = _lines(Lead.REMINDER)
_USER_LINES: Final = _lines(Lead.USER)
_ALL_LINES: Final = _lines(*Lead)


def neutralise(text: str) -> str:
    """Escape every framing tag in the text; everything else stays unchanged, byte for byte."""
    # Fast path: in ASCII nothing else looks like the bracket.
    return text if text.isascii() and "<" not in text else _harmless(text)


def neutralise_plain(text: str) -> str:
    """Escape every framing tag, and quote every line that reads like the start of a plain reminder."""
    return _harmless(text, _REMINDER_LINES)


def neutralise_all(text: str) -> str:
    """Escape every framing tag, and quote every line that reads like one of the renderer's own."""
    return _harmless(text, _ALL_LINES)


def escape_markup(text: str) -> str:
    """Escape `&`, `<` and `>` as in XML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_notice_markup(text: str) -> str:
    """Escape markup, and quote every line that reads like one of the renderer's own."""
    return neutralise_all(escape_markup(text))


def quote_user_line(text: str) -> str:
    """Quote every line that reads like the one that introduces user text."""
    return _harmless(text, _USER_LINES, tags=False)


def attribute(name: str) -> str:
    """The name of a sender as an attribute value: on one line, visible, and unable to end the tag."""
    return "".join(
        f"&#{ord(letter)};" if is_hidden(letter) or fold(letter) == "<" else letter for letter in escaped_name(name)
    )


def _harmless(text: str, lines: _Lines = _NO_LINES, *, tags: bool = True) -> str:
    folded = fold(text)
    has_tags, has_words = tags and "<" in folded, any(map(folded.__contains__, lines.words))
    # Most texts end here.
    if not (has_tags or has_words):
        return text
    brackets = [found.start() for found in _compiled(_TAG).finditer(folded)] if has_tags else []
    starts = [found.start() for found in _compiled(lines.pattern).finditer(folded)] if has_words else []
    return "".join(_edited(text, folded, brackets, starts)) if brackets or starts else text


def _edited(text: str, folded: str, tags: list[int], lines: list[int]) -> Iterator[str]:
    """The text with the brackets at `tags` escaped and the lines that start at `lines` quoted; places are folded ones."""
    # A line starts after its line break, so that what is invisible before its first letter is quoted with it.
    edits = sorted([(place, True) for place in tags] + [(place - 1, False) for place in lines])
    origins = _origins(text, folded)
    done = 0
    for place, is_tag in edits:
        start = origins(place) + (not is_tag) if place >= 0 else 0
        yield text[done:start]
        yield "&lt;" if is_tag else _QUOTE
        done = start + is_tag
    yield text[done:]


def _origins(text: str, folded: str) -> Callable[[int], int]:
    """A function from ascending places in the folded text to those of the characters that they come from."""
    if text.isascii() and len(text) == len(folded):
        return lambda place: place
    ends = enumerate(accumulate(len(fold(letter)) for letter in text))
    last = (-1, 0)

    def origin(place: int) -> int:
        nonlocal last
        while last[1] <= place:
            last = next(ends)
        return last[0]

    return origin

"""The escapers: no text from elsewhere can open or close a frame, or begin a line that reads like ours.

Imitations are searched in the outline of the text, in which spellings that look alike are alike, and made harmless in
the original, of which everything else stays unchanged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from sideband.core.messages import escaped_name
from sideband.render.confusables import fold, is_hidden, outline


class Frame(StrEnum):
    """The elements that frame text which is not the user's; no text from elsewhere may open or close one."""

    SYSTEM_REMINDER = "system-reminder"
    HOST_REMINDER = "host-reminder"
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
_ANCHORS: Final = frozenset("<\n")

# The patterns are for outlines: capitals are symbols that look like letters, and each word is found in both.
_LETTER: Final = r"[^\WA-Z]"
# Markup inside a line: an element of HTML, or the name or number of a character.
_MARKUP: Final = r"<[^<>\n]{0,99}+>|&#?\w{1,8}+;"
# What may stand between our words: markup and signs. After them, also a number, a mark in brackets, and for how many
# turns it holds. Both are bounded, because markup may contain our words: a search from each of them would take quadratic time.
_BETWEEN: Final = r"(?:</?\w{1,8}+>|&#?\w{1,8}+;|[^\w\n:<&]++|[<&A-Z]){0,20}"
_NUMBERED: Final = r"(?:\[\w{1,40}+\]|</?\w{1,8}+>|&#?\w{1,8}+;|[^\w\n:<&\[]++|[<&\[]|[\diA-Z]++|turns?(?!\w)){0,40}+"
# Before our words: markup, signs, numbers, and short words with a sign after them, as in the items of a list.
_DECORATED: Final = rf"(?:{_MARKUP}|{_LETTER}{{1,4}}+[.):;\]]|[\di]{{1,9}}+(?!{_LETTER})|[\WA-Z])*+"


def _word(word: str) -> str:
    return f"(?i:{fold(word)})"


# A framing tag: with blanks and slashes before the name, attributes, self-closing, or cut off at the end. The words of
# the name may be joined by anything like a hyphen, by blanks, or by nothing. No run can contain another bracket, so
# matching takes linear time.
_NAMES: Final = "|".join(r"[ \n-]*+".join(map(_word, frame.split("-"))) for frame in Frame)
_TAG: Final = rf"<[ \n/]*+I?(?:{_NAMES})(?!{_LETTER}|[.:-])"

# Compiled at first use, so that importing the package stays fast.
_compiled: Final = cache(re.compile)


class _Lines(NamedTuple):
    """Lines that begin with one of some leads: a pattern for the leads, and a word of each in small letters."""

    pattern: str
    words: tuple[str, ...]


def _lines(*leads: Lead) -> _Lines:
    words = [lead.split() for lead in leads]
    either = "|".join(_BETWEEN.join(map(_word, spoken)) for spoken in words)
    return _Lines(rf"(?:{either}){_NUMBERED}:", tuple(fold(spoken[-1]) for spoken in words))


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
    plain = "".join(
        f"&#{ord(letter)};" if is_hidden(letter) or (fold(letter) == "<" and not letter.isalpha()) else letter
        for letter in escaped_name(name)
    )
    # Some letters look like a bracket too; they are letters of names unless a tag follows.
    return neutralise(plain)


def _harmless(text: str, lines: _Lines | None = None, *, tags: bool = True) -> str:
    outlined = outline(text)
    brackets = []
    if tags and "<" in outlined:
        brackets = [found.start() for found in _compiled(_TAG).finditer(outlined)]
    starts = set() if lines is None else set(_starts(outlined, lines))
    return "".join(_edited(text, outlined, brackets, starts)) if brackets or starts else text


def _starts(outlined: str, lines: _Lines) -> Iterator[int]:
    """Where the lines begin that read like ours. Only lines with one of our words are looked at, each once per word."""
    folded = outlined.lower()
    for word in lines.words:
        place = folded.find(word)
        while place >= 0:
            start, end = outlined.rfind("\n", 0, place) + 1, outlined.find("\n", place)
            end = len(outlined) if end < 0 else end
            found = _compiled(lines.pattern).search(outlined, start, end)
            decorated = _compiled(_DECORATED).match(outlined, start, end)
            if found is not None and decorated is not None and found.start() <= decorated.end():
                yield start
            place = folded.find(word, end)


def _edited(text: str, outlined: str, tags: Iterable[int], lines: Iterable[int]) -> Iterator[str]:
    """The text with the brackets at `tags` escaped and the lines that start at `lines` quoted; places in the outline."""
    # A line starts after its line break, so that what is invisible before its first letter is quoted with it.
    edits = sorted([(place, True) for place in tags] + [(place - 1, False) for place in lines])
    origins = _origins(text, outlined)
    done = 0
    for place, is_tag in edits:
        start = origins[place] + (not is_tag)
        yield text[done:start]
        yield "&lt;" if is_tag else _QUOTE
        done = start + is_tag
    yield text[done:]


def _origins(text: str, outlined: str) -> Mapping[int, int]:
    """The places in the text of all brackets and line breaks in its outline; each comes from one character."""
    alike = "".join(letter for letter in set(text) if fold(letter) in _ANCHORS)
    origins = (found.start() for found in re.finditer(f"[<{re.escape(alike)}]", text))
    places = (found.start() for found in _compiled("[<\n]").finditer(outlined))
    return {-1: -1, **dict(zip(places, origins, strict=True))}

"""The text shapes of a reminder, and the escapers that keep a body inside its frame."""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from sideband.core.reminder import Reminder, RoleHint
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.render.profile import Profile, Wire


class Frame(StrEnum):
    """The elements that frame what we say to a model; no text of anybody else may open or close one."""

    SYSTEM_REMINDER = "system-reminder"
    PEER_NOTICE = "peer-notice"
    SERVER_NOTICE = "server-notice"


# Whoever is not the session's own side speaks inside a frame that names it, whatever role it asked for.
NOTICES: Final[Mapping[Trust, Frame]] = MappingProxyType(
    {Trust.PEER: Frame.PEER_NOTICE, Trust.SERVER: Frame.SERVER_NOTICE}
)
_OWN: Final = Frame.SYSTEM_REMINDER.value
_OPENED: Final = f"<{_OWN}>\n"
_CLOSED: Final = f"\n</{_OWN}>"
_NAMES: Final = tuple(NOTICES.get(trust, Frame.SYSTEM_REMINDER).value for trust in Trust)
"""The name of the frame for each level of trust."""

# The table of shapes.


class Shape(StrEnum):
    """What a reminder looks like to the model."""

    NOTICE = "notice"
    DEVELOPER_MESSAGE = "developer_message"
    USER_BLOCK = "user_block"
    CACHED_USER_BLOCK = "cached_user_block"
    TAGGED_SYSTEM_TEXT = "tagged_system_text"
    PLAIN_SYSTEM_TEXT = "plain_system_text"


class Row(NamedTuple):
    """A shape, and the profile, hint and level of trust it is for."""

    shape: Shape
    holds: Callable[[Profile, RoleHint, Trust], bool]


# The first row that holds decides.
SHAPES: Final = (
    Row(Shape.NOTICE, lambda _profile, _hint, trust: trust in NOTICES),
    Row(Shape.DEVELOPER_MESSAGE, lambda profile, _hint, _trust: profile.prefers_role_developer),
    Row(Shape.USER_BLOCK, lambda profile, hint, _trust: _on_anthropic(profile) and hint == RoleHint.USER_BLOCK),
    Row(
        Shape.CACHED_USER_BLOCK,
        lambda profile, hint, _trust: _on_anthropic(profile) and hint == RoleHint.EPHEMERAL_CACHE,
    ),
    Row(Shape.TAGGED_SYSTEM_TEXT, lambda profile, _hint, _trust: profile.prefers_xml_scaffolding),
    Row(Shape.PLAIN_SYSTEM_TEXT, lambda _profile, _hint, _trust: True),
)

TAGGED: Final = frozenset({Shape.NOTICE, Shape.USER_BLOCK, Shape.CACHED_USER_BLOCK, Shape.TAGGED_SYSTEM_TEXT})
"""The shapes with a frame of tags; the others have a line in front."""


def _on_anthropic(profile: Profile) -> bool:
    return profile.wire is Wire.ANTHROPIC


def shape_of(profile: Profile, hint: RoleHint, trust: Trust) -> Shape:
    """The shape of a reminder with this hint and from this level, on this route."""
    return next(row.shape for row in SHAPES if row.holds(profile, hint, trust))


# Escaping.

Escape: TypeAlias = Callable[[str], str]

# Characters that print nothing: controls, soft hyphens, joiners, marks of direction, selectors, tags.
_INVISIBLE: Final = (
    r"\x7f-\x84\x86-\x9f\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e0fff"
)
_UNSEEN: Final = rf"\x00-\x1f\x85{_INVISIBLE}"
# Those that look like the one of a tag, or like its hyphen.
_BRACKETS: Final = "<\u02c2\u1438\u2039\u2329\u276e\u2770\u27e8\u29fc\u3008\ufe64\uff1c"
_HYPHEN: Final = r"-_\u02d7\u1806\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d"
# In no place two runs of the same stand side by side, which would be tried in every division.
_ANY_NAME: Final = "|".join(
    rf"[{_HYPHEN}][{_UNSEEN}]*".join(rf"[{_UNSEEN}]*".join((*word, "")) for word in frame.value.split("-"))
    for frame in Frame
)
# The bracket of a framing tag in any spelling: any case, blanks and slashes around the name, attributes, self-closing,
# cut off at the end of the text, with another hyphen, with a bracket that looks like one, and with unseen
# characters anywhere. No run before the name can hold another bracket, so that the time is linear in the text.
_FRAMING_TAG: Final = rf"[{_BRACKETS}](?=[\s/\u2044\u2215\uff0f{_UNSEEN}]*(?:{_ANY_NAME})(?![\w.:-]))"

LEAD: Final = "System reminder"
USER_LEAD: Final = "The user says"
"""What stands before words of the user that have to go into the result of a tool."""

_LINE_BREAKS: Final = r"\n\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029"
_UNSEEN_IN_A_LINE: Final = rf"\x00-\x08\x0e-\x1b\x1f{_INVISIBLE}"
_GAP: Final = rf" \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000{_UNSEEN_IN_A_LINE}"


# Those that ASCII has of the unseen.
_HIDING: Final = "".join(map(chr, (*range(0x09), *range(0x0E, 0x1C), 0x1F, 0x7F)))


class _Lead(NamedTuple):
    """What a line begins with that reads like some words and a colon, and the last of these words."""

    pattern: str
    word: str


def _reads_like(lead: str) -> _Lead:
    """These words and a colon, with a number and turns between or without.

    It is looked for at the start of lines only, and never past their ends, so that the time is linear here too.
    """
    words = rf"[{_GAP}_-]*".join(f"[{_UNSEEN_IN_A_LINE}]*".join(word) for word in lead.split())
    pattern = rf"(?=(?i:[{_GAP}]*{words}(?:[{_GAP}\d#(),.][{_GAP}\d#(),.turns]*)?[:\ufe55\uff1a]))"
    return _Lead(pattern, lead.rsplit(maxsplit=1)[-1].lower())


_REMINDER_LINE: Final = _reads_like(LEAD)
_USER_LINE: Final = _reads_like(USER_LEAD)
_QUOTE: Final = "> "

# Compiled when first needed, and kept: these take longer than the import of all the rest.
_compiled: Final = cache(re.compile)


def neutralise(text: str) -> str:
    """The text with every framing tag in it made plain text; all else stays as it is, byte for byte."""
    # Most texts have none of them, and that is found much sooner.
    if "<" not in text and (text.isascii() or not any(map(text.__contains__, _BRACKETS))):
        return text
    return _compiled(_FRAMING_TAG, re.IGNORECASE).sub("&lt;", text)


def neutralise_plain(text: str) -> str:
    """The text with every framing tag in it made plain text, and every line quoted that looks like the start of a reminder."""
    return _quoted(neutralise(text), _REMINDER_LINE)


def escape_markup(text: str) -> str:
    """The text as XML writes it: no `&`, `<` or `>` of its own is left."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_notice_markup(text: str) -> str:
    """The same for text of somebody else, in which no line may look like the start of a reminder either."""
    return _quoted(escape_markup(text), _REMINDER_LINE)


def quote_user_line(text: str) -> str:
    """The text with every line quoted that looks like the one before words of the user."""
    return _quoted(text, _USER_LINE)


def _quoted(text: str, lead: _Lead) -> str:
    # Most texts lack the word, and that is found much sooner. Nothing can pass for one of its letters in ASCII, but
    # something may stand unseen between them.
    if text.isascii() and lead.word not in text.lower() and not any(map(text.__contains__, _HIDING)):
        return text
    if _compiled(lead.pattern).match(text):
        text = _QUOTE + text
    line = _compiled(rf"[{_LINE_BREAKS}]{lead.pattern}")
    return line.sub(rf"\g<0>{_QUOTE}", text) if line.search(text) else text


# Texts. A fragment that is kept has a handle, by which it can be taken back, and says for how many turns it holds.


def tagged(
    reminder: Reminder,
    provenance: Provenance = IN_PROCESS,
    *,
    escape: Escape = neutralise,
    handle: int | None = None,
    turns: int | None = None,
) -> str:
    """A reminder as an element of its own; that of a peer or a server says so, and from whom."""
    name = _NAMES[provenance.trust]
    sender = "" if name == _OWN else f' from="{_attribute(provenance.principal or "unknown")}"'
    number = "" if handle is None else f' id="{handle}"'
    lasting = "" if turns is None else f' turns="{turns}"'
    return f"<{name}{sender}{number}{lasting}>\n{escape(reminder.body)}\n</{name}>"


def framed(body: str) -> str:
    """The same for a reminder of the session's own side that has no handle, which is what most are."""
    return f"{_OPENED}{neutralise(body)}{_CLOSED}"


def plain(reminder: Reminder, *, handle: int | None = None, turns: int | None = None) -> str:
    """A reminder behind a line that says what it is."""
    number = "" if handle is None else f" {handle}"
    lasting = "" if turns is None else f" ({turns} turns)"
    return f"{LEAD}{number}{lasting}:\n{neutralise_plain(reminder.body)}"


def withdrawal(handles: Iterable[int], *, tags: bool) -> str:
    """The one line that takes back kept reminders, by their handles."""
    line = f"Withdrawn: {', '.join(map(str, handles))}."
    return f"{_OPENED}{line}{_CLOSED}" if tags else f"{LEAD}:\n{line}"


_ENDING: Final = "&>\"'" + _BRACKETS


def _attribute(value: str) -> str:
    """The name of a sender as an attribute: on one line, and nothing in it ends the tag."""
    return "".join(f"&#{ord(letter)};" if letter in _ENDING or not letter.isprintable() else letter for letter in value)

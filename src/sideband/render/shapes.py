"""The text shapes of reminders, and the escapers that keep a body inside its frame."""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from sideband.core.reminder import Reminder, RoleHint
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.render.profiles import Profile, Wire


class Frame(StrEnum):
    """The elements that frame reminders and notices; no text from elsewhere may open or close one."""

    SYSTEM_REMINDER = "system-reminder"
    PEER_NOTICE = "peer-notice"
    SERVER_NOTICE = "server-notice"


# Reminders of peers and servers are framed as notices that name the sender, whatever role they ask for.
NOTICES: Final[Mapping[Trust, Frame]] = MappingProxyType(
    {Trust.PEER: Frame.PEER_NOTICE, Trust.SERVER: Frame.SERVER_NOTICE}
)
_OWN: Final = Frame.SYSTEM_REMINDER.value
_OPENED: Final = f"<{_OWN}>\n"
_CLOSED: Final = f"\n</{_OWN}>"
_NAMES: Final = tuple(NOTICES.get(trust, Frame.SYSTEM_REMINDER).value for trust in Trust)
"""The name of the frame for each level of trust."""

# The table of shapes.


class ReminderShape(StrEnum):
    """What a reminder looks like to the model."""

    NOTICE = "notice"
    DEVELOPER_MESSAGE = "developer_message"
    USER_BLOCK = "user_block"
    CACHED_USER_BLOCK = "cached_user_block"
    TAGGED_SYSTEM_TEXT = "tagged_system_text"
    PLAIN_SYSTEM_TEXT = "plain_system_text"


class ShapeRule(NamedTuple):
    """A shape, and when it applies: by profile, hint and level of trust."""

    shape: ReminderShape
    holds: Callable[[Profile, RoleHint, Trust], bool]


# The first rule that holds decides.
SHAPES: Final = (
    ShapeRule(ReminderShape.NOTICE, lambda _profile, _hint, trust: trust in NOTICES),
    ShapeRule(ReminderShape.DEVELOPER_MESSAGE, lambda profile, _hint, _trust: profile.prefers_role_developer),
    ShapeRule(
        ReminderShape.USER_BLOCK, lambda profile, hint, _trust: _on_anthropic(profile) and hint == RoleHint.USER_BLOCK
    ),
    ShapeRule(
        ReminderShape.CACHED_USER_BLOCK,
        lambda profile, hint, _trust: _on_anthropic(profile) and hint == RoleHint.EPHEMERAL_CACHE,
    ),
    ShapeRule(ReminderShape.TAGGED_SYSTEM_TEXT, lambda profile, _hint, _trust: profile.prefers_xml_scaffolding),
    ShapeRule(ReminderShape.PLAIN_SYSTEM_TEXT, lambda _profile, _hint, _trust: True),
)

TAGGED: Final = frozenset(
    {ReminderShape.NOTICE, ReminderShape.USER_BLOCK, ReminderShape.CACHED_USER_BLOCK, ReminderShape.TAGGED_SYSTEM_TEXT}
)
"""The shapes with a frame of tags; the others start with a line of plain text."""


def _on_anthropic(profile: Profile) -> bool:
    return profile.wire is Wire.ANTHROPIC


def shape_of(profile: Profile, hint: RoleHint, trust: Trust) -> ReminderShape:
    """The shape of a reminder with this hint and level of trust, for this profile."""
    return next(row.shape for row in SHAPES if row.holds(profile, hint, trust))


# Escaping.

Escape: TypeAlias = Callable[[str], str]

# Invisible characters: controls, soft hyphens, joiners, direction marks, variation selectors, tags.
_INVISIBLE: Final = (
    r"\x7f-\x84\x86-\x9f\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e0fff"
)
_ANY_INVISIBLE: Final = rf"\x00-\x1f\x85{_INVISIBLE}"
# Characters that look like the opening bracket of a tag, or like a hyphen.
_BRACKETS: Final = "<\u02c2\u1438\u2039\u2329\u276e\u2770\u27e8\u29fc\u3008\ufe64\uff1c"
_HYPHEN: Final = r"-_\u02d7\u1806\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d"
# No two adjacent runs match the same characters: that would make matching quadratic.
_ANY_NAME: Final = "|".join(
    rf"[{_HYPHEN}][{_ANY_INVISIBLE}]*".join(
        rf"[{_ANY_INVISIBLE}]*".join((*word, "")) for word in frame.value.split("-")
    )
    for frame in Frame
)
# The bracket of a framing tag in any spelling: any case, blanks and slashes around the name, attributes, self-closing,
# cut off at the end of the text, with look-alike hyphens or brackets, and with invisible characters anywhere. The run
# before the name cannot contain another bracket, so matching takes linear time.
_FRAMING_TAG: Final = rf"[{_BRACKETS}](?=[\s/\u2044\u2215\uff0f{_ANY_INVISIBLE}]*(?:{_ANY_NAME})(?![\w.:-]))"

LEAD: Final = "System reminder"
USER_LEAD: Final = "The user says"
"""The line before user text that has to be folded into a tool result."""

_LINE_BREAKS: Final = r"\n\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029"
_INVISIBLE_IN_A_LINE: Final = rf"\x00-\x08\x0e-\x1b\x1f{_INVISIBLE}"
_GAP: Final = rf" \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000{_INVISIBLE_IN_A_LINE}"


# The invisible characters in ASCII.
_ASCII_INVISIBLE: Final = "".join(map(chr, (*range(0x09), *range(0x0E, 0x1C), 0x1F, 0x7F)))


class _Lead(NamedTuple):
    """A pattern for the start of a line that reads like `lead` and a colon, and the last word of it."""

    pattern: str
    word: str


def _reads_like(lead: str) -> _Lead:
    """Matches these words and a colon, optionally with a number and turns between them.

    The pattern is tried only at the start of a line and stays within the line, so matching takes linear time.
    """
    words = rf"[{_GAP}_-]*".join(f"[{_INVISIBLE_IN_A_LINE}]*".join(word) for word in lead.split())
    pattern = rf"(?=(?i:[{_GAP}]*{words}(?:[{_GAP}\d#(),.][{_GAP}\d#(),.turns]*)?[:\ufe55\uff1a]))"
    return _Lead(pattern, lead.rsplit(maxsplit=1)[-1].lower())


_REMINDER_LINE: Final = _reads_like(LEAD)
_USER_LINE: Final = _reads_like(USER_LEAD)
_QUOTE: Final = "> "

# Compiled at first use: compiling these takes longer than importing the rest of the package.
_compiled: Final = cache(re.compile)


def neutralise(text: str) -> str:
    """Escape every framing tag in the text; everything else stays unchanged, byte for byte."""
    # Fast path: most texts contain no bracket.
    if "<" not in text and (text.isascii() or not any(map(text.__contains__, _BRACKETS))):
        return text
    return _compiled(_FRAMING_TAG, re.IGNORECASE).sub("&lt;", text)


def neutralise_plain(text: str) -> str:
    """Escape every framing tag, and quote every line that looks like the start of a plain reminder."""
    return _quoted(neutralise(text), _REMINDER_LINE)


def escape_markup(text: str) -> str:
    """Escape `&`, `<` and `>` as in XML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_notice_markup(text: str) -> str:
    """Escape markup, and quote every line that looks like the start of a plain reminder."""
    return _quoted(escape_markup(text), _REMINDER_LINE)


def quote_user_line(text: str) -> str:
    """Quote every line that looks like the one that introduces user text."""
    return _quoted(text, _USER_LINE)


def _quoted(text: str, lead: _Lead) -> str:
    # Fast path: most texts lack the word. In ASCII no other character looks like one of its letters, but invisible
    # characters may stand between them.
    if text.isascii() and lead.word not in text.lower() and not any(map(text.__contains__, _ASCII_INVISIBLE)):
        return text
    if _compiled(lead.pattern).match(text):
        text = _QUOTE + text
    line = _compiled(rf"[{_LINE_BREAKS}]{lead.pattern}")
    return line.sub(rf"\g<0>{_QUOTE}", text) if line.search(text) else text


# Texts. Kept text has a handle, by which it can be withdrawn, and states for how many turns it holds.


def tagged(
    reminder: Reminder,
    provenance: Provenance = IN_PROCESS,
    *,
    escape: Escape = neutralise,
    handle: int | None = None,
    turns: int | None = None,
) -> str:
    """A reminder as an element; that of a peer or a server is a notice and names its sender."""
    name = _NAMES[provenance.trust]
    sender = "" if name == _OWN else f' from="{_attribute(provenance.principal or "unknown")}"'
    number = "" if handle is None else f' id="{handle}"'
    lasting = "" if turns is None else f' turns="{turns}"'
    return f"<{name}{sender}{number}{lasting}>\n{escape(reminder.body)}\n</{name}>"


def plain(reminder: Reminder, *, handle: int | None = None, turns: int | None = None) -> str:
    """A reminder after a line of plain text that announces it."""
    number = "" if handle is None else f" {handle}"
    lasting = "" if turns is None else f" ({turns} turns)"
    return f"{LEAD}{number}{lasting}:\n{neutralise_plain(reminder.body)}"


def withdrawal(handles: Iterable[int], *, tags: bool) -> str:
    """The line that withdraws kept reminders by their handles."""
    line = f"Withdrawn: {', '.join(map(str, handles))}."
    return f"{_OPENED}{line}{_CLOSED}" if tags else f"{LEAD}:\n{line}"


_ENDING: Final = "&>\"'" + _BRACKETS


def _attribute(value: str) -> str:
    """The name of a sender as an attribute value: on one line, and unable to end the tag."""
    return "".join(f"&#{ord(letter)};" if letter in _ENDING or not letter.isprintable() else letter for letter in value)

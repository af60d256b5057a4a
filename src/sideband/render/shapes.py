"""The text shapes of a reminder, and the one escaper that keeps a body inside its frame."""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from sideband.core.reminder import Reminder
from sideband.core.trust import IN_PROCESS, Provenance, Trust


class Frame(StrEnum):
    """The elements that frame what we say to a model; no text of anybody else may open or close one."""

    SYSTEM_REMINDER = "system-reminder"
    PEER_NOTICE = "peer-notice"
    SERVER_NOTICE = "server-notice"


# Characters that print nothing: controls, soft hyphens, joiners, marks of direction, selectors, tags.
_UNSEEN: Final = (
    r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e0fff"
)
_NAMES: Final = "|".join(f"[{_UNSEEN}]*".join(map(re.escape, frame.value)) for frame in Frame)
# The `<` of a framing tag in any spelling: any case, blanks and slashes around the name, attributes, self-closing, cut
# off at the end of the text, and with unseen characters anywhere. No run before the name can hold another `<`, so that
# the time is linear in the text.
_FRAMING_TAG: Final = re.compile(rf"<(?=[\s/{_UNSEEN}]*(?:{_NAMES})(?![\w.:-]))", re.IGNORECASE)


def neutralise(text: str) -> str:
    """The text with every framing tag in it made plain text; all else stays as it is, byte for byte."""
    return _FRAMING_TAG.sub("&lt;", text)


# Whoever is not the session's own side speaks inside a frame that names it, whatever role it asked for.
_NOTICES: Final[Mapping[Trust, Frame]] = MappingProxyType(
    {Trust.PEER: Frame.PEER_NOTICE, Trust.SERVER: Frame.SERVER_NOTICE}
)


def tagged(reminder: Reminder, provenance: Provenance = IN_PROCESS) -> str:
    """A reminder as an element of its own; that of a peer or a server says so, and from whom."""
    notice = _NOTICES.get(provenance.trust)
    frame = Frame.SYSTEM_REMINDER if notice is None else notice
    sender = "" if notice is None else f' from="{_attribute(provenance.principal or "unknown")}"'
    return f"<{frame.value}{sender}>\n{neutralise(reminder.body)}\n</{frame.value}>"


def _attribute(value: str) -> str:
    """The name of a sender as an attribute: on one line, and nothing in it ends the tag."""
    return "".join(
        f"&#{ord(letter)};" if letter in "&<>\"'" or not letter.isprintable() else letter for letter in value
    )

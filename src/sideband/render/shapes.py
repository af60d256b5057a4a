"""The text shapes of reminders and summaries."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.core.reminder import Reminder, RoleHint
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.render.escape import Escape, Frame, Lead, attribute, neutralise, neutralise_all, neutralise_plain
from sideband.render.profiles import Profile, Wire

# Reminders of peers and servers are framed as notices that name the sender, whatever role they ask for.
NOTICES: Final[Mapping[Trust, Frame]] = MappingProxyType(
    {Trust.PEER: Frame.PEER_NOTICE, Trust.SERVER: Frame.SERVER_NOTICE}
)
_OWN: Final = Frame.SYSTEM_REMINDER.value
_NAMES: Final = tuple(NOTICES.get(trust, Frame.SYSTEM_REMINDER).value for trust in Trust)
"""The name of the frame for each level of trust."""

PARAGRAPH: Final = "\n\n"

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


# The escaper for each level of trust.


def escaper(trust: Trust, *, is_plain: bool = False) -> Escape:
    """The escaper for a body in the placements `tail` and `native`: the operator's is trusted with our lead lines.

    In a plain shape nothing but its lead line shows where a reminder begins, so that one is quoted at any level.
    """
    if trust is not Trust.OPERATOR:
        return neutralise_all
    return neutralise_plain if is_plain else neutralise


# Texts. Kept text has a handle, by which it can be withdrawn, and states for how many turns it holds.


def tagged(
    reminder: Reminder,
    provenance: Provenance = IN_PROCESS,
    *,
    escape: Escape | None = None,
    handle: int | None = None,
    turns: int | None = None,
) -> str:
    """A reminder as an element; that of a peer or a server is a notice and names its sender.

    `escape` None: the escaper for the sender's level of trust.
    """
    name = _NAMES[provenance.trust]
    sender = "" if name == _OWN else f' from="{attribute(provenance.principal or "unknown")}"'
    number = "" if handle is None else f' id="{handle}"'
    lasting = "" if turns is None else f' turns="{turns}"'
    body = (escape or escaper(provenance.trust))(reminder.body)
    return f"<{name}{sender}{number}{lasting}>\n{body}\n</{name}>"


def plain(
    reminder: Reminder,
    provenance: Provenance = IN_PROCESS,
    *,
    handle: int | None = None,
    turns: int | None = None,
) -> str:
    """A reminder after a line of plain text that announces it."""
    number = "" if handle is None else f" {handle}"
    lasting = "" if turns is None else f" ({turns} turns)"
    body = escaper(provenance.trust, is_plain=True)(reminder.body)
    return f"{Lead.REMINDER}{number}{lasting}:\n{body}"


def withdrawal(handles: Iterable[int], *, tags: bool) -> str:
    """The line that withdraws kept reminders by their handles."""
    line = f"{Lead.WITHDRAWN}: {', '.join(map(str, handles))}."
    return f"<{_OWN}>\n{line}\n</{_OWN}>" if tags else f"{Lead.REMINDER}:\n{line}"


def call_result(call_id: str, tool: str, texts: Iterable[str]) -> str:
    """The result of a call as an element, where the wire has no other form for it."""
    name = Frame.CALL_RESULT.value
    opening = f'<{name} id="{attribute(call_id)}" tool="{attribute(tool)}">'
    return f"{opening}\n{neutralise_all(PARAGRAPH.join(texts))}\n</{name}>"


def summary(texts: Iterable[str]) -> str:
    """Text about the conversation that neither the user nor the model wrote in it, as an element."""
    name = Frame.CONVERSATION_SUMMARY.value
    return f"<{name}>\n{neutralise_all(PARAGRAPH.join(texts))}\n</{name}>"

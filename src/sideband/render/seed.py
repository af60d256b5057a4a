"""The placement `seed`: reminders where the guide to system reminders puts them, placed anew in each request."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.blocks import estimated_tokens
from sideband.core.errors import NothingToAnswer
from sideband.core.events import DropReason
from sideband.core.ledger import Form, Fragment, Lifetime
from sideband.core.live import LiveItem
from sideband.core.turn import Shown, Unusable
from sideband.render.escape import escape_markup, escape_notice_markup
from sideband.render.plan import OPEN, Piece, Plan, Reader, tail_of, user_speaks_last
from sideband.render.profiles import Cache, Profile
from sideband.render.shapes import ReminderShape, plain, tagged
from sideband.render.view import RequestView


class SeedSlot(StrEnum):
    """Where the placement `seed` puts a reminder."""

    SYSTEM = "system"
    """In the system text, between its two parts."""
    FIRST_USER = "first_user"
    """Before the first text of the user, and after the tool results of the same message."""
    FRONT_DEVELOPER = "front_developer"
    """A developer message before the conversation."""


SLOTS: Final[Mapping[ReminderShape, SeedSlot]] = MappingProxyType(
    {
        ReminderShape.NOTICE: SeedSlot.FIRST_USER,
        ReminderShape.DEVELOPER_MESSAGE: SeedSlot.FRONT_DEVELOPER,
        ReminderShape.USER_BLOCK: SeedSlot.FIRST_USER,
        ReminderShape.CACHED_USER_BLOCK: SeedSlot.FIRST_USER,
        ReminderShape.TAGGED_SYSTEM_TEXT: SeedSlot.SYSTEM,
        ReminderShape.PLAIN_SYSTEM_TEXT: SeedSlot.SYSTEM,
    }
)


_USER: Final = "user"

_ROLES: Final[Mapping[SeedSlot, str]] = MappingProxyType(
    {SeedSlot.FIRST_USER: _USER, SeedSlot.FRONT_DEVELOPER: "developer"}
)


class Placed(NamedTuple):
    """The text of one reminder and its slot; `marked` text carries a cache marker."""

    reminder_id: str
    text: str
    slot: SeedSlot
    role: str
    marked: bool = False


def plan_seed(profile: Profile, view: RequestView) -> tuple[Plan, tuple[Placed, ...]]:
    """The plan for this view, without its route and request, and the texts to be placed, in transcript order.

    Where the request would end with the assistant and the provider does not allow that, the reminders are a user turn at
    its end: they are the fragments of the plan, and no text is placed. Raises `NothingToAnswer` if there are none.
    """
    reader = Reader(profile)
    read: list[Piece] = []
    unusable: list[Unusable] = []
    for item in view.live:
        piece = _piece(profile, reader, item)
        if isinstance(piece, DropReason):
            unusable.append(Unusable(item.id, piece))
        else:
            read.append(piece)
    left_out = reader.left_out(read)
    pieces = [piece for piece in read if piece.item.id not in left_out]
    is_open = tail_of(view.messages) in OPEN
    if not (pieces or is_open or view.again is not None):
        raise NothingToAnswer(tuple(unusable))
    plan = Plan(
        shown=tuple(piece.shown for piece in pieces),
        left_out=left_out,
        unusable=tuple(unusable),
        advice=reader.advice(pieces),
    )
    if not is_open and user_speaks_last(profile):
        return _at_the_end(plan, pieces, len(view.messages)), ()
    marked = _last_to_cache(pieces) if profile.cache is not Cache.NONE else None
    placed = (
        Placed(piece.item.id, piece.text, SLOTS[piece.look.shape], piece.shown.rendered_role, marked=piece is marked)
        for piece in pieces
    )
    return plan, tuple(placed)


def _piece(profile: Profile, reader: Reader, item: LiveItem) -> Piece | DropReason:
    look = reader.look(item)
    if isinstance(look, DropReason):
        return look
    escape = escape_notice_markup if look.is_notice else escape_markup
    text = (
        tagged(item.reminder, item.provenance, escape=escape)
        if look.is_tagged
        else plain(item.reminder, item.provenance)
    )
    tokens = estimated_tokens(text)
    if tokens > reader.largest:
        return DropReason.TOO_LARGE
    # Text in the system slot has the role that the profile gives to the system text.
    role = _ROLES.get(SLOTS[look.shape], profile.leading_role.value)
    return Piece(item, look, Shown(item.id, role), text, tokens)


def _at_the_end(plan: Plan, pieces: Sequence[Piece], anchor: int) -> Plan:
    """The plan with these pieces as a user turn of their own."""
    fragments = (
        Fragment(
            anchor=anchor,
            form=Form.TEXT if place else Form.MESSAGE,
            role=_USER,
            scope=Lifetime.VOLATILE,
            text=piece.text,
            reminders=(piece.item.id,),
        )
        for place, piece in enumerate(pieces)
    )
    shown = (Shown(piece.item.id, _USER) for piece in pieces)
    return msgspec.structs.replace(plan, fragments=tuple(fragments), shown=tuple(shown))


def _last_to_cache(pieces: Sequence[Piece]) -> Piece | None:
    """The only piece with a marker: a request may have few of them, and the last one covers the text before it."""
    return next((piece for piece in reversed(pieces) if piece.look.shape is ReminderShape.CACHED_USER_BLOCK), None)

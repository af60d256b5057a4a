"""The preset `seed`: reminders where the guide to system reminders puts them, anew in each request."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.core.events import DropReason
from sideband.core.ledger import Fragment
from sideband.core.lifecycle import Shown, Unusable
from sideband.core.live import LiveItem
from sideband.render.budget import estimate
from sideband.render.ending import go_on, tail_of
from sideband.render.profile import Cache, Profile
from sideband.render.reading import Advised, Piece, Reader
from sideband.render.shapes import Shape, escape_markup, escape_notice_markup, plain, tagged
from sideband.render.view import RequestView


class Slot(StrEnum):
    """Where the preset `seed` puts a reminder."""

    SYSTEM = "system"
    """In the system text, between its two parts."""
    FIRST_USER = "first_user"
    """In front of the first text of the user, behind tool results in the same message."""
    FRONT_DEVELOPER = "front_developer"
    """A developer message before the conversation."""


SLOTS: Final[Mapping[Shape, Slot]] = MappingProxyType(
    {
        Shape.NOTICE: Slot.FIRST_USER,
        Shape.DEVELOPER_MESSAGE: Slot.FRONT_DEVELOPER,
        Shape.USER_BLOCK: Slot.FIRST_USER,
        Shape.CACHED_USER_BLOCK: Slot.FIRST_USER,
        Shape.TAGGED_SYSTEM_TEXT: Slot.SYSTEM,
        Shape.PLAIN_SYSTEM_TEXT: Slot.SYSTEM,
    }
)


_ROLES: Final[Mapping[Slot, str]] = MappingProxyType({Slot.FIRST_USER: "user", Slot.FRONT_DEVELOPER: "developer"})


class Placed(NamedTuple):
    """One reminder where the preset `seed` puts it; a marked one ends with a cache marker."""

    reminder_id: str
    text: str
    slot: Slot
    role: str
    marked: bool = False


class SeedPlan(NamedTuple):
    """What a request by the preset `seed` says beside its messages, in transcript order.

    Reminders are placed anew in each request; `fragments` has only what keeps the request legal, and that stays.
    """

    placed: tuple[Placed, ...] = ()
    shown: tuple[Shown, ...] = ()
    left_out: tuple[str, ...] = ()
    unusable: tuple[Unusable, ...] = ()
    advice: tuple[Advised, ...] = ()
    fragments: tuple[Fragment, ...] = ()


def plan_seed(profile: Profile, view: RequestView) -> SeedPlan:
    """What this request says beside its messages, by the preset `seed`."""
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
    marked = _last_to_cache(pieces) if profile.cache is not Cache.NONE else None
    return SeedPlan(
        placed=tuple(
            Placed(
                piece.item.id, piece.text, SLOTS[piece.look.shape], piece.shown.rendered_role, marked=piece is marked
            )
            for piece in pieces
        ),
        shown=tuple(piece.shown for piece in pieces),
        left_out=left_out,
        unusable=tuple(unusable),
        advice=reader.advice(pieces),
        fragments=go_on(profile, tail_of(view.messages), len(view.messages)),
    )


def _piece(profile: Profile, reader: Reader, item: LiveItem) -> Piece | DropReason:
    look = reader.look(item)
    if isinstance(look, DropReason):
        return look
    escape = escape_notice_markup if look.is_notice else escape_markup
    text = tagged(item.reminder, item.provenance, escape=escape) if look.is_tagged else plain(item.reminder)
    tokens = estimate(text)
    if tokens > reader.largest:
        return DropReason.TOO_LARGE
    # The system text stands wherever the route wants it.
    role = _ROLES.get(SLOTS[look.shape], profile.leading_role.value)
    return Piece(item, look, Shown(item.id, role), text, tokens)


def _last_to_cache(pieces: Sequence[Piece]) -> Piece | None:
    """The only one to carry a marker: a request has few of them, and the last covers what stands before it."""
    return next((piece for piece in reversed(pieces) if piece.look.shape is Shape.CACHED_USER_BLOCK), None)

"""Which live reminders a route can show at all, what each looks like there, and which of them fit into one request."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.events import DropReason
from sideband.core.ledger import Scope
from sideband.core.lifecycle import Shown
from sideband.core.live import LiveItem
from sideband.core.reminder import RoleHint
from sideband.core.trust import Trust
from sideband.render.budget import Asking, admitted, allowance
from sideband.render.profile import Profile
from sideband.render.shapes import NOTICES, TAGGED, Shape, shape_of

LOST_HINT: Final = "HARN-RMD-003"

# The hints that name a shape, and the shape that keeps each; any other hint is content with what it gets.
_KEPT_BY: Final[Mapping[RoleHint, Shape]] = MappingProxyType(
    {RoleHint.USER_BLOCK: Shape.USER_BLOCK, RoleHint.EPHEMERAL_CACHE: Shape.CACHED_USER_BLOCK}
)


class Advised(NamedTuple):
    """What the sender of a reminder should know; the words are the same each time, for one route and key."""

    code: str
    message: str


class Look(msgspec.Struct, frozen=True, gc=False):
    """What a row of the table of shapes comes to on one route; `lost` is a hint that the shape does not keep."""

    shape: Shape
    is_tagged: bool
    is_notice: bool
    lost: RoleHint | None


# A record rather than a tuple with names, since one is made for every reminder; no cycle leads through it.
class Piece(msgspec.Struct, frozen=True, gc=False):
    """New text of a request, for one reminder; `handle` is its number where it is kept."""

    item: LiveItem
    look: Look
    shown: Shown
    text: str
    tokens: int
    scope: Scope = Scope.VOLATILE
    handle: int | None = None


class Reader:
    """Reads live reminders for one route; `always` is the shape that its own slot demands (None: the table decides)."""

    def __init__(self, profile: Profile, *, always: Shape | None = None) -> None:
        self._route = f"{profile.transport}:{profile.model}"
        self._looks = tuple(_looks(profile, trust, always) for trust in Trust)
        self._loses = any(look.lost for looks in self._looks if looks is not None for look in looks.values())
        self.tokens, largest = allowance(profile.context_window)
        self.largest = inf if largest is None else largest
        """More tokens than this has no request room for in one reminder."""

    def look(self, item: LiveItem) -> Look | DropReason:
        """How a reminder is shown, or why it cannot be."""
        reminder = item.reminder
        body = reminder.body
        if not body or body.isspace() or not (body.isascii() or _can_be_written(body)):
            return DropReason.INVALID
        looks = self._looks[item.provenance.trust]
        return DropReason.CAPABILITY_MISMATCH if looks is None else looks[reminder.role_hint]

    def left_out(self, pieces: Iterable[Piece]) -> tuple[str, ...]:
        """The reminders that do not fit into the budget together with the others, in transcript order."""
        asking = sorted((Asking(piece.item, piece.tokens) for piece in pieces), key=_place)
        fit = admitted(asking, self.tokens)
        return tuple(item.id for item, _ in asking if item.id not in fit)

    def advice(self, pieces: Sequence[Piece]) -> tuple[Advised, ...]:
        """What to tell the senders of reminders whose hints are lost."""
        if not self._loses:
            return ()
        return tuple(dict.fromkeys([self._lost(piece) for piece in pieces if piece.look.lost is not None]))

    def _lost(self, piece: Piece) -> Advised:
        key = piece.item.reminder.dedupe_key
        what = "a reminder without a key" if key is None else f"the reminder of the key {key!a}"
        shape = piece.look.shape.value.replace("_", " ")
        return Advised(LOST_HINT, f"{self._route} does not keep the hint {piece.look.lost}: {what} becomes a {shape}")


def _looks(profile: Profile, trust: Trust, always: Shape | None) -> Mapping[RoleHint, Look] | None:
    """The look for each hint from one level; None where the route has no slot for that level."""
    is_notice = trust in NOTICES
    if trust is Trust.CONTENT or (is_notice and not profile.accepts_notices):
        return None
    looks = {}
    for hint in RoleHint:
        shape = always if always is not None and not is_notice else shape_of(profile, hint, trust)
        lost = hint if not is_notice and _KEPT_BY.get(hint, shape) is not shape else None
        looks[hint] = Look(shape, shape in TAGGED, is_notice, lost)
    return looks


def _can_be_written(body: str) -> bool:
    """Half a character cannot."""
    try:
        body.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(asking: Asking) -> int:
    return asking.item.place

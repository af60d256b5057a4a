"""A request as a model would get it, and all there is to say about it."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sideband.cli.share import Break, Share, share
from sideband.core.events import DropReason
from sideband.core.ledger import Scope
from sideband.core.reminder import Reminder
from sideband.core.trust import Provenance
from sideband.render.budget import allowance
from sideband.render.layout import Kind, Part
from sideband.render.profile import Placement, Profile
from sideband.render.renderer import Rendered, Renderer
from sideband.render.seeding import Slot, plan_seed
from sideband.render.tape import encode
from sideband.render.view import RequestView

# How long the text of a reminder stands: as its fragment says, or as the preset of the guide has it, which has none.
_ANEW: Final = "anew in each request"
_CARRIED: Final = "kept since an earlier request"


class Told(NamedTuple):
    """A reminder, and who says it; `requested` is what it asked for and did not get."""

    reminder: Reminder
    sender: Provenance
    requested: Mapping[str, Any]


class Subject(NamedTuple):
    """A request to be shown; `bare` is the same without reminders, `told` are all there are, shown or not.

    `broken` says why it is the first of its window (None: it is not, or the first of all). What was left out or
    dropped when it left is in `left_out` and `dropped`.
    """

    view: RequestView
    bare: RequestView
    told: tuple[Told, ...]
    broken: Break | None = None
    left_out: tuple[str, ...] = ()
    dropped: Mapping[str, DropReason] = MappingProxyType({})


class Fate(NamedTuple):
    """What became of a reminder; `scope` is how long its text stands, `why` what kept it out or was lowered."""

    number: str
    body: str
    state: str
    role: str = ""
    scope: str = ""
    why: str = ""


class Shot(NamedTuple):
    """A rendered request and all there is to say about it; `relative` is its cost beside one without reminders."""

    turn: int
    profile: Profile
    placement: Placement
    rendered: Rendered
    parts: tuple[Part, ...]
    fates: tuple[Fate, ...]
    share: Share
    relative: float


def shoot(subject: Subject, renderer: Renderer) -> Shot:
    """The request as this renderer builds it."""
    profile, view = renderer.profile, subject.view
    rendered = renderer.render(view)
    bare = renderer.render(subject.bare)
    parts = tuple(rendered.parts)
    unchanged = None
    if renderer.placement is Placement.SEED:
        spans = _spans(profile, view, rendered)
        parts = tuple(_cut(parts, spans))
        unchanged = min((start for start, _ in spans), default=None)
    used = share(profile, parts, unchanged=unchanged, broken=subject.broken)
    beside = share(profile, bare.parts, broken=subject.broken)
    relative = used.plain / beside.plain if profile.kv_prefix else used.cost / beside.cost
    fates = tuple(_fates(subject, profile, rendered))
    return Shot(view.turn, profile, renderer.placement, rendered, _labelled(parts, rendered), fates, used, relative)


def _labelled(parts: tuple[Part, ...], rendered: Rendered) -> tuple[Part, ...]:
    """The parts as they are called; words that only fill the user's turn where nothing else is there remind of nothing."""
    kept = [fragment for fragment in rendered.fragments if fragment.scope is Scope.KEPT]
    if any(fragment.reminders or fragment.withdraws for fragment in kept):
        return parts
    return tuple(part._replace(kind=Kind.NEW) if part.kind is Kind.KEPT else part for part in parts)


def _spans(profile: Profile, view: RequestView, rendered: Rendered) -> list[tuple[int, int]]:
    """Where the reminders are that the preset of the guide has put inside the head and the conversation."""
    head = max(part.end for part in rendered.parts if part.kind is Kind.HEAD)
    # In each slot they stand in their order.
    places = {Slot.SYSTEM: 0, Slot.FRONT_DEVELOPER: head, Slot.FIRST_USER: head}
    spans = []
    for placed in plan_seed(profile, view).placed:
        text = encode(placed.text)[1:-1]
        start = rendered.body.index(text, places[placed.slot])
        places[placed.slot] = start + len(text)
        spans.append((start, start + len(text)))
    return sorted(spans)


def _cut(parts: Iterable[Part], spans: Iterable[tuple[int, int]]) -> Iterator[Part]:
    """The parts with these spans as parts of their own; no span reaches from one part into another."""
    for part in parts:
        place = part.start
        for start, end in spans:
            if part.start <= start < part.end:
                yield Part(part.kind, place, start)
                yield Part(Kind.VOLATILE, start, end)
                place = end
        yield Part(part.kind, place, part.end)


def _fates(subject: Subject, profile: Profile, rendered: Rendered) -> Iterator[Fate]:
    room = allowance(profile.context_window)
    reasons = {
        DropReason.CAPABILITY_MISMATCH: "this route shows nothing of peers and servers",
        DropReason.TOO_LARGE: f"larger than {room.largest or 0:,} tokens, a tenth of the context window",
    }
    shown = {entry.reminder_id: entry for entry in rendered.shown}
    scopes = {key: fragment.scope.value for fragment in rendered.fragments for key in fragment.reminders}
    dropped = {**{entry.reminder_id: entry.reason for entry in rendered.unusable}, **subject.dropped}
    left_out = {*rendered.left_out, *subject.left_out}
    for told in subject.told:
        number, body = told.reminder.id, told.reminder.body
        if number in shown:
            scope = _CARRIED if shown[number].carried else scopes.get(number, _ANEW)
            yield Fate(number, body, "shown", shown[number].rendered_role, scope, _lowered(told))
        elif number in left_out:
            yield Fate(number, body, "left out", why=f"reminders may take {room.tokens:,} tokens of a request")
        elif number in dropped:
            yield Fate(number, body, "dropped", why=reasons.get(dropped[number], dropped[number].value))
        else:
            yield Fate(number, body, "replaced", why="a later one has its dedupe_key")


def _lowered(told: Told) -> str:
    """What was asked for and is not allowed on that level. Its mode, which was over before it was shown, is no matter."""
    return "; ".join(
        f"{field} is {_word(getattr(told.reminder, field))}, not {_word(wanted)}"
        for field, wanted in told.requested.items()
        if field != "mode"
    )


def _word(value: object) -> str:
    return "none" if value is None else str(value).lower()

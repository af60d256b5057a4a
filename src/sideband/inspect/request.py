"""A request as a model gets it, with an explanation of each part, each reminder and the prompt cache."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sideband.core.events import DropReason
from sideband.core.reminder import Reminder
from sideband.core.trust import Provenance
from sideband.render.budget import allowance
from sideband.render.layout import Part, PartKind
from sideband.render.plan import Plan
from sideband.render.profiles import Cache, Placement, Profile
from sideband.render.renderer import Renderer
from sideband.render.seed import SeedSlot, plan_seed
from sideband.render.tape import encode
from sideband.render.view import RequestView

# Prices of a token that is read from the cache or written to it, relative to a plain input token.
READ: Final = 0.1
WRITE: Final = 1.25
_BYTES_PER_TOKEN: Final = 4
_PASSING: Final = (PartKind.VOLATILE, PartKind.CLEARING, PartKind.CLOSING)


class Break(StrEnum):
    """Why the cache holds nothing of the conversation so far; the values are shown to users."""

    ROUTE = "the requests before it were made for another model, placement, tools or system text"
    """No part of this request was sent before in this form."""
    COMPACTION = "the conversation was compacted since the last request"
    """Only the head was sent before in this form."""


class Share(NamedTuple):
    """An estimate of the tokens read from the prompt cache, written to it, and neither.

    `why_none` says why nothing is read (None: something is read).
    """

    read: float
    written: float
    plain: float
    why_none: str | None = None

    @property
    def tokens(self) -> float:
        return self.read + self.written + self.plain

    @property
    def cost(self) -> float:
        """The cost in plain input tokens."""
        return READ * self.read + WRITE * self.written + self.plain


# The data of an image, a document or audio. A model reads about 1,600 tokens of an image, whatever its size.
_MEDIA: Final = re.compile(rb'(?:;base64,|"data":")([A-Za-z0-9+/]+)={0,2}"')
_MEDIA_BYTES: Final = 1_600 * _BYTES_PER_TOKEN


def _weight(body: bytes, part: Part) -> int:
    """The bytes of a part, without most of what its images have: they are not read as text."""
    longer = (len(found[1]) - _MEDIA_BYTES for found in _MEDIA.finditer(body, part.start, part.end))
    return part.end - part.start - sum(more for more in longer if more > 0)


def share(
    profile: Profile, parts: Iterable[Part], body: bytes, *, unchanged: int | None = None, broken: Break | None = None
) -> Share:
    """Estimate what the prompt cache does with a request, assuming that the last answered request is still cached.

    `parts` are those of the `body`.
    `unchanged` is the number of bytes at the beginning that are as in that request (None: all that were answered).
    `broken` says why the request is the first of its window.
    """
    sizes: Counter[PartKind] = Counter()
    head = 0
    for part in parts:
        sizes[part.kind] += _weight(body, part)
        head = part.end if part.kind is PartKind.HEAD else head
    total = (sizes.total() - sizes[PartKind.MARKER]) / _BYTES_PER_TOKEN
    covered = total - sum(sizes[kind] for kind in _PASSING) / _BYTES_PER_TOKEN
    before = (sizes[PartKind.HEAD] + sizes[PartKind.STABLE]) / _BYTES_PER_TOKEN if sizes[PartKind.STABLE] else 0.0
    if before and unchanged is not None:
        # With explicit breakpoints the first one is at the end of the head, so either the whole head is cached or nothing.
        whole = sizes[PartKind.HEAD] if unchanged >= head else 0
        before = (whole if profile.cache is Cache.EXPLICIT else unchanged) / _BYTES_PER_TOKEN
    if broken is not None:
        before = sizes[PartKind.HEAD] / _BYTES_PER_TOKEN if broken is Break.COMPACTION else 0.0
    least = profile.cache_minimum_tokens
    if profile.cache is Cache.NONE and not profile.kv_prefix:
        return Share(0.0, 0.0, total, "this route has no prompt cache")
    read = before if before >= least else 0.0
    writes = profile.cache is Cache.EXPLICIT and covered >= least
    written = covered - read if writes else 0.0
    return Share(read, written, total - read - written, None if read else _why(sizes, before, least, broken))


def _why(sizes: Counter[PartKind], before: float, least: int, broken: Break | None) -> str:
    if broken is not None and not before:
        return broken.value
    if not (sizes[PartKind.STABLE] or broken):
        return "no earlier request was answered"
    if before:
        return f"the unchanged part is shorter than {least:,} tokens, the minimum that this model caches"
    return "the request changes before the first cache breakpoint"


# Requests.

# How long the text of a reminder stays in the conversation, where no fragment says it.
_ANEW: Final = "rendered anew in each request"
_CARRIED: Final = "kept since an earlier request"


class Told(NamedTuple):
    """A reminder and its sender; `requested` holds the hints that the sender asked for and was not granted."""

    reminder: Reminder
    sender: Provenance
    requested: Mapping[str, Any]


class Subject(NamedTuple):
    """A request to show; `bare` is the same request without reminders, `told` holds all reminders, rendered or not.

    `broken` says why the request is the first of its window (None: it is not, or it is the first of the session).
    `left_out` and `dropped` hold the reminders that were left out or dropped when the request was sent.
    """

    view: RequestView
    bare: RequestView
    told: tuple[Told, ...]
    broken: Break | None = None
    left_out: tuple[str, ...] = ()
    dropped: Mapping[str, DropReason] = MappingProxyType({})


class ReminderOutcome(NamedTuple):
    """What a request did with a reminder.

    `scope` says how long its text stays in the conversation; `why` says why it was not rendered, or which hints were
    lowered.
    """

    number: str
    body: str
    state: str
    role: str = ""
    scope: str = ""
    why: str = ""


class ExplainedRequest(NamedTuple):
    """A rendered request with its explanation; `relative` is its cost divided by that of the request without reminders."""

    turn: int
    profile: Profile
    placement: Placement
    plan: Plan
    parts: tuple[Part, ...]
    outcomes: tuple[ReminderOutcome, ...]
    share: Share
    relative: float


def explain_request(subject: Subject, renderer: Renderer, bare_renderer: Renderer | None = None) -> ExplainedRequest:
    """Render a request and explain it.

    `bare_renderer` renders it without its reminders (None: `renderer` does). A renderer encodes only what is new since
    the last request of a session, so a second one halves the time for 100 requests of a session with 300 turns.
    """
    profile, view = renderer.profile, subject.view
    plan = renderer.render(view)
    bare = (bare_renderer or renderer).render(subject.bare)
    parts = tuple(plan.request.parts)
    unchanged = None
    if renderer.placement is Placement.SEED:
        spans = _spans(profile, view, plan)
        parts = tuple(_cut(parts, spans))
        unchanged = min((start for start, _ in spans), default=None)
    used = share(profile, parts, plan.request.body, unchanged=unchanged, broken=subject.broken)
    beside = share(profile, bare.request.parts, bare.request.body, broken=subject.broken)
    relative = used.plain / beside.plain if profile.kv_prefix else used.cost / beside.cost
    outcomes = tuple(_outcomes(subject, profile, plan))
    return ExplainedRequest(view.turn, profile, renderer.placement, plan, parts, outcomes, used, relative)


def _spans(profile: Profile, view: RequestView, plan: Plan) -> list[tuple[int, int]]:
    """The byte ranges of the reminders that the `seed` placement puts into the head and the conversation."""
    head = max(part.end for part in plan.request.parts if part.kind is PartKind.HEAD)
    # Within a slot, reminders are in order; each search begins after the previous reminder.
    places = {SeedSlot.SYSTEM: 0, SeedSlot.FRONT_DEVELOPER: head, SeedSlot.FIRST_USER: head}
    spans = []
    for placed in plan_seed(profile, view)[1]:
        text = encode(placed.text)[1:-1]
        start = plan.request.body.index(text, places[placed.slot])
        places[placed.slot] = start + len(text)
        spans.append((start, start + len(text)))
    return sorted(spans)


def _cut(parts: Iterable[Part], spans: Iterable[tuple[int, int]]) -> Iterator[Part]:
    """Split the parts so that each span is a part of its own; a span never crosses the border of a part."""
    for part in parts:
        place = part.start
        for start, end in spans:
            if part.start <= start < part.end:
                yield Part(part.kind, place, start)
                yield Part(PartKind.VOLATILE, start, end)
                place = end
        yield Part(part.kind, place, part.end)


def _outcomes(subject: Subject, profile: Profile, plan: Plan) -> Iterator[ReminderOutcome]:
    room = allowance(profile.context_window)
    reasons = {
        DropReason.CAPABILITY_MISMATCH: "this route renders no reminders from peers and servers",
        DropReason.TOO_LARGE: f"larger than {room.largest or 0:,} tokens, a tenth of the context window",
    }
    shown = {entry.reminder_id: entry for entry in plan.shown}
    scopes = {key: fragment.scope.value for fragment in plan.fragments for key in fragment.reminders}
    dropped = {**{entry.reminder_id: entry.reason for entry in plan.unusable}, **subject.dropped}
    left_out = {*plan.left_out, *subject.left_out}
    for told in subject.told:
        number, body = told.reminder.id, told.reminder.body
        if number in shown:
            scope = _CARRIED if shown[number].carried else scopes.get(number, _ANEW)
            yield ReminderOutcome(number, body, "shown", shown[number].rendered_role, scope, _lowered(told))
        elif number in left_out:
            yield ReminderOutcome(
                number, body, "left out", why=f"reminders may take at most {room.tokens:,} tokens of a request"
            )
        elif number in dropped:
            yield ReminderOutcome(number, body, "dropped", why=reasons.get(dropped[number], dropped[number].value))
        else:
            yield ReminderOutcome(number, body, "replaced", why="a later reminder has the same dedupe_key")


def _lowered(told: Told) -> str:
    """The hints that the sender's trust level does not allow. The mode is omitted: it only matters before the drain."""
    return "; ".join(
        f"{field} is {_word(getattr(told.reminder, field))}, not {_word(wanted)}"
        for field, wanted in told.requested.items()
        if field != "mode"
    )


def _word(value: object) -> str:
    return "none" if value is None else str(value).lower()

"""Planning a request: which reminders it shows, in which text, order and carrier, and for how long each stays."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.blocks import estimated_tokens
from sideband.core.errors import NothingToAnswer
from sideband.core.events import DropReason
from sideband.core.ledger import Form, Fragment, Ledger, Lifetime
from sideband.core.live import LiveIndex, LiveItem
from sideband.core.reminder import RoleHint
from sideband.core.trust import Trust
from sideband.core.turn import PlannedRequest, Shown, Unusable
from sideband.render.budget import Candidate, admitted, allowance
from sideband.render.profiles import Cache, Placement, Profile, Wire
from sideband.render.shapes import NOTICES, TAGGED, ReminderShape, plain, shape_of, tagged, withdrawal
from sideband.render.view import RequestView

HINT_NOT_KEPT: Final = "HARN-RMD-003"

USER_AND_MODEL: Final = (Wire.ANTHROPIC, Wire.GEMINI)
"""Wires with only two roles: tool results are part of the user's turn, and a request must end with the user."""

_DEVELOPER: Final = "developer"

_SYSTEM: Final = "system"

_USER: Final = "user"

_TOOL: Final = "tool"

_OPENAI: Final = (Wire.OPENAI_CHAT, Wire.OPENAI_RESPONSES)

# Rendered reminder texts cached for each kind of tail; the cache is emptied when it grows beyond this.
_MAX_CACHED_PIECES: Final = 256


class Advice(NamedTuple):
    """Something the sender of a reminder should know: a diagnostic code, and what happened.

    The message is the same in each request for one route and key, so that it can be reported once.
    """

    code: str
    message: str


class Plan(PlannedRequest, frozen=True, kw_only=True):
    """A request that is ready to be committed and sent: what is recorded of it, advice for senders of reminders, and the
    `request` itself, for the model's `complete`.
    """

    advice: tuple[Advice, ...] = ()
    request: Any = None


def default_placement(profile: Profile) -> Placement:
    """The profile's own placement, if it has one.

    Otherwise `native` if the prefix must not change and the provider clears inline entries by itself, else `tail`.
    """
    if profile.placement is not None:
        return profile.placement
    clears = profile.prefix_bound_thinking and profile.heeds_inline and profile.self_clearing is not None
    return Placement.NATIVE if clears else Placement.TAIL


# The end of the conversation.


class Tail(StrEnum):
    """What a conversation ends with; a summary is text in a user turn."""

    EMPTY = "empty"
    USER = "user"
    RESULTS = "results"
    ASSISTANT = "assistant"


TAILS: Final[Mapping[str, Tail]] = MappingProxyType(
    {"user": Tail.USER, "tool": Tail.RESULTS, "assistant": Tail.ASSISTANT, "system": Tail.USER}
)
"""The tail for each role of the last message."""


def tail_of(messages: Sequence[Mapping[str, Any]]) -> Tail:
    if not messages:
        return Tail.EMPTY
    # The wires write a result for each call that has none.
    return Tail.RESULTS if messages[-1].get("tool_calls") else TAILS[messages[-1]["role"]]


OPEN: Final = frozenset({Tail.USER, Tail.RESULTS})
"""The tails that the model has not answered."""


def user_speaks_last(profile: Profile) -> bool:
    """Whether a request must not end with the assistant."""
    return profile.wire in USER_AND_MODEL or not profile.consecutive_assistant


# Reminders on one route.

# The hints that ask for one certain shape. Every other hint is satisfied by any shape.
_SHAPE_FOR_HINT: Final[Mapping[RoleHint, ReminderShape]] = MappingProxyType(
    {RoleHint.USER_BLOCK: ReminderShape.USER_BLOCK, RoleHint.EPHEMERAL_CACHE: ReminderShape.CACHED_USER_BLOCK}
)


class Look(msgspec.Struct, frozen=True, gc=False):
    """How a reminder of some hint and trust looks on a route; `lost` is its hint if the shape does not honour it."""

    shape: ReminderShape
    is_tagged: bool
    is_notice: bool
    lost: RoleHint | None


class Piece(msgspec.Struct, frozen=True, gc=False):
    """The text of one reminder, new in this request; `handle` is its number if the text is kept."""

    item: LiveItem
    look: Look
    shown: Shown
    text: str
    tokens: int
    scope: Lifetime = Lifetime.VOLATILE
    handle: int | None = None


class Reader:
    """Decides how live reminders look on one route, and which of them fit into a request.

    `always` is the shape for everything that is not a notice (None: the table of shapes decides).
    """

    def __init__(self, profile: Profile, *, always: ReminderShape | None = None) -> None:
        self._route = f"{profile.transport}:{profile.model}"
        self._looks = tuple(_looks(profile, trust, always) for trust in Trust)
        self._loses = any(look.lost for looks in self._looks if looks is not None for look in looks.values())
        self.tokens, largest = allowance(profile.context_window)
        self.largest = inf if largest is None else largest
        """A reminder with more tokens than this is dropped."""

    def look(self, item: LiveItem) -> Look | DropReason:
        """How a reminder looks on this route, or why it cannot be shown."""
        body = item.reminder.body
        if not body or body.isspace() or not (body.isascii() or _is_encodable(body)):
            return DropReason.INVALID
        looks = self._looks[item.provenance.trust]
        return DropReason.CAPABILITY_MISMATCH if looks is None else looks[item.reminder.role_hint]

    def left_out(self, pieces: Iterable[Piece]) -> tuple[str, ...]:
        """The ids of the reminders that exceed the budget, in transcript order."""
        candidates = sorted((Candidate(piece.item, piece.tokens) for piece in pieces), key=_place)
        fit = admitted(candidates, self.tokens)
        return tuple(item.id for item, _ in candidates if item.id not in fit)

    def advice(self, pieces: Sequence[Piece]) -> tuple[Advice, ...]:
        """Advice for the senders of reminders whose hints this route does not honour."""
        if not self._loses:
            return ()
        return tuple(dict.fromkeys([self._hint_lost(piece) for piece in pieces if piece.look.lost is not None]))

    def _hint_lost(self, piece: Piece) -> Advice:
        key = piece.item.reminder.dedupe_key
        what = "a reminder without a key" if key is None else f"the reminder of the key {key!a}"
        shape = piece.look.shape.value.replace("_", " ")
        return Advice(
            HINT_NOT_KEPT, f"{self._route} does not keep the hint {piece.look.lost}: {what} becomes a {shape}"
        )


def _looks(profile: Profile, trust: Trust, always: ReminderShape | None) -> Mapping[RoleHint, Look] | None:
    """The look for each hint at one level of trust; None if the route shows nothing of that level."""
    is_notice = trust in NOTICES
    if trust is Trust.CONTENT or (is_notice and not profile.accepts_notices):
        return None
    looks = {}
    for hint in RoleHint:
        shape = always if always is not None and not is_notice else shape_of(profile, hint, trust)
        lost = hint if not is_notice and _SHAPE_FOR_HINT.get(hint, shape) is not shape else None
        looks[hint] = Look(shape, shape in TAGGED, is_notice, lost)
    return looks


def _is_encodable(body: str) -> bool:
    """Whether a body has no lone surrogates, which UTF-8 cannot encode."""
    try:
        body.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(candidate: Candidate) -> int:
    return candidate.item.place


# Planning by the placements `tail` and `native`.


class _RequestEnd(msgspec.Struct, frozen=True):
    """What is fixed for each kind of tail.

    Text joins an open turn in this `form` and `role`; without an open turn it starts a new one. Reminders of the
    session's own side take `own_role`. Reminders with a TTL get the scope `own`, notices with a TTL the scope `notice`.
    `known` caches by id the pieces of reminders that are not kept: they look the same in the next request with this tail.
    """

    tail: Tail
    is_open: bool
    form: Form
    role: str
    own_role: str
    own: Lifetime
    notice: Lifetime
    known: dict[str, Piece]


class _Read(msgspec.Struct):
    """The live reminders of a request: already in the history, new and kept, new and not kept, and unusable."""

    carried: list[Shown]
    kept: list[Piece]
    passing: list[Piece]
    unusable: list[Unusable]


class Planner:
    """Plans the requests of one profile by the placement `tail` or `native`.

    The placement `seed` is planned by `plan_seed`; here it is treated as `tail`.
    """

    def __init__(self, profile: Profile, placement: Placement) -> None:
        native = placement is Placement.NATIVE and profile.heeds_inline
        self._clears = native and profile.wire is Wire.ANTHROPIC and profile.self_clearing is not None
        self._own_items = native and profile.wire in _OPENAI and profile.developer_role
        self._profile = profile
        self._as_developer = self._own_items or profile.prefers_role_developer
        self._tags = not self._as_developer and (profile.prefers_xml_scaffolding or profile.wire is Wire.ANTHROPIC)
        self._reader = Reader(profile, always=ReminderShape.DEVELOPER_MESSAGE if self._own_items else None)
        self._ends = {tail: self._end(tail) for tail in Tail}

    def _end(self, tail: Tail) -> _RequestEnd:
        profile = self._profile
        is_open = tail in OPEN
        # A developer message after the results would close the result that text is folded into.
        folds = profile.fold_into_tool_result and not self._as_developer
        if tail is Tail.RESULTS and folds and (profile.user_text_resets_reasoning or not profile.user_after_tool):
            form, role = Form.RESULT, _USER if profile.wire in USER_AND_MODEL else _TOOL
        else:
            form, role = Form.TEXT, _USER
        text = self._finite_text(tail, form)
        own_role, own = (_DEVELOPER, self._finite_message()) if self._as_developer else (role, text)
        if self._clears and is_open:
            # Volatile text can stand neither before the clearing entry, which is history, nor after it, where the wire
            # allows no user text.
            own, text = Lifetime.CLEARING, Lifetime.KEPT
        return _RequestEnd(tail, is_open, form, role, own_role, own, text, {})

    def _finite_text(self, tail: Tail, form: Form) -> Lifetime:
        profile = self._profile
        opens_between = tail is Tail.ASSISTANT and not profile.consecutive_assistant
        # If the turn that opened the conversation were removed, the conversation would start with the assistant.
        opens_conversation = tail is Tail.EMPTY
        # Anthropic allows no breakpoint inside a result, and one after it would cover text that does not stay.
        covered = form is Form.RESULT and profile.wire is Wire.ANTHROPIC and profile.cache is Cache.EXPLICIT
        kept = self._append_only or opens_between or opens_conversation or covered or profile.cache is Cache.IMPLICIT
        return Lifetime.KEPT if kept else Lifetime.VOLATILE

    def _finite_message(self) -> Lifetime:
        kept = self._append_only or self._own_items or not self._profile.consecutive_assistant
        return Lifetime.KEPT if kept else Lifetime.VOLATILE

    @property
    def _append_only(self) -> bool:
        """Whether everything that was sent once has to be in all later requests."""
        return self._profile.prefix_bound_thinking or self._profile.server_side_history or self._profile.kv_prefix

    def plan(self, view: RequestView, ledger: Ledger, tail: Tail | None = None) -> Plan:
        """The plan for this view, without its route and request.

        `ledger` is that of the route. `tail` is what the conversation ends with on the wire (None: the role of the last
        message decides). Raises `NothingToAnswer` if the request would say nothing new.
        """
        messages, live = view.messages, view.live
        anchor = len(messages)
        if view.again is not None:
            return Plan(fragments=view.again, shown=_shown_again(view.again, live, ledger))
        end = self._ends[tail_of(messages) if tail is None else tail]
        standing = ledger.standing
        if end.is_open and not (standing or live):
            return Plan()
        read = self._read(live, ledger, end)
        pieces = read.kept + read.passing
        left_out: tuple[str, ...] = ()
        if sum([piece.tokens for piece in pieces]) > self._reader.tokens:
            left_out = self._reader.left_out(pieces)
            pieces = [piece for piece in pieces if piece.item.id not in left_out]
        fragments = self._fragments(pieces, _ended(live, standing), end, anchor)
        if not (fragments or end.is_open):
            raise NothingToAnswer(tuple(read.unusable))
        return Plan(
            fragments=fragments,
            shown=(*read.carried, *[piece.shown for piece in pieces]),
            left_out=left_out,
            unusable=tuple(read.unusable),
            advice=self._reader.advice(pieces),
        )

    def _read(self, live: LiveIndex, ledger: Ledger, end: _RequestEnd) -> _Read:
        read = _Read([], [], [], [])
        standing, handle, known = ledger.standing, ledger.next_handle, end.known
        if len(known) > _MAX_CACHED_PIECES:
            known.clear()
        for item in live:
            reminder_id = item.reminder.id
            if reminder_id in standing:
                read.carried.append(Shown(reminder_id, standing[reminder_id].role, carried=True))
                continue
            before = known.get(reminder_id)
            if before is not None and before.item is item:
                read.passing.append(before)
                continue
            piece = self._piece(item, live, end, handle)
            if isinstance(piece, DropReason):
                read.unusable.append(Unusable(reminder_id, piece))
            elif piece.handle is None:
                known[reminder_id] = piece
                read.passing.append(piece)
            else:
                read.kept.append(piece)
                handle += 1
        return read

    def _piece(self, item: LiveItem, live: LiveIndex, end: _RequestEnd, handle: int) -> Piece | DropReason:
        reader, reminder = self._reader, item.reminder
        look = reader.look(item)
        if isinstance(look, DropReason):
            return look
        scope, role = (end.notice, end.role) if look.is_notice else (end.own, end.own_role)
        number = None
        if scope is Lifetime.KEPT or reminder.ttl_turns is None:
            scope, number = Lifetime.KEPT, handle
            text = _text(item, look, handle, live.remaining(item))
        else:
            text = _text(item, look)
        tokens = estimated_tokens(text)
        if tokens > reader.largest:
            return DropReason.TOO_LARGE
        shown = Shown(reminder.id, _SYSTEM if scope is Lifetime.CLEARING else role)
        return Piece(item, look, shown, text, tokens, scope, number)

    def _fragments(
        self, pieces: Sequence[Piece], ended: Sequence[int], end: _RequestEnd, anchor: int
    ) -> tuple[Fragment, ...]:
        """The fragments in their order in the request: the withdrawal, then kept, volatile and clearing text."""
        fragments: list[Fragment] = []
        clearing: list[Piece] = []
        is_open, open_role, open_form = end.is_open, end.role, end.form
        if ended:
            fragments.append(self._withdrawal(ended, end, anchor))
            is_open = not self._as_developer
        for piece in pieces:
            scope, shown = piece.scope, piece.shown
            if scope is Lifetime.CLEARING:
                clearing.append(piece)
                continue
            role = shown.rendered_role
            joins = role == open_role
            fragments.append(
                Fragment(
                    anchor=anchor,
                    # A developer message ends the user's turn; the next user text starts a new one.
                    form=open_form if joins and is_open else Form.MESSAGE,
                    role=role,
                    scope=scope,
                    text=piece.text,
                    reminders=(shown.reminder_id,),
                    handle=piece.handle,
                )
            )
            is_open = joins
        if clearing:
            fragments.append(_clearing_entry(clearing, anchor))
        return tuple(fragments)

    def _withdrawal(self, ended: Sequence[int], end: _RequestEnd, anchor: int) -> Fragment:
        return Fragment(
            anchor=anchor,
            form=end.form if end.is_open and not self._as_developer else Form.MESSAGE,
            role=end.own_role,
            scope=Lifetime.KEPT,
            text=withdrawal(ended, tags=self._tags),
            withdraws=tuple(ended),
        )


def _clearing_entry(pieces: Sequence[Piece], anchor: int) -> Fragment:
    """One entry for all clearing text: the wire does not allow two in a row."""
    return Fragment(
        anchor=anchor,
        form=Form.MESSAGE,
        role=_SYSTEM,
        scope=Lifetime.CLEARING,
        text="\n".join([piece.text for piece in pieces]),
        reminders=tuple([piece.item.reminder.id for piece in pieces]),
    )


def _text(item: LiveItem, look: Look, handle: int | None = None, turns: int | None = None) -> str:
    stated = turns if turns is not None and turns > 1 else None
    shape = tagged if look.is_tagged else plain
    return shape(item.reminder, item.provenance, handle=handle, turns=stated)


def _ended(live: LiveIndex, standing: Mapping[str, Fragment]) -> list[int]:
    """The handles of kept text whose reminder has ended and that is not withdrawn yet."""
    return [kept.handle for key, kept in standing.items() if key not in live and kept.handle is not None]


def _shown_again(fragments: Iterable[Fragment], live: LiveIndex, ledger: Ledger) -> tuple[Shown, ...]:
    """What a request shows that is sent again with the same fragments."""
    carried = [Shown(key, kept.role, carried=True) for key, kept in ledger.standing.items() if key in live]
    return (*carried, *(Shown(key, fragment.role) for fragment in fragments for key in fragment.reminders))

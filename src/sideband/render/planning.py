"""What a request says beside its messages: which text, in which order, carried by what, and for how long."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from sideband.core.events import DropReason
from sideband.core.ledger import Form, Fragment, Ledger, Scope
from sideband.core.lifecycle import Shown, Unusable
from sideband.core.live import LiveIndex, LiveItem
from sideband.render.budget import estimate
from sideband.render.ending import GO_ON, USER_AND_MODEL, Tail, go_on, tail_of
from sideband.render.profile import Cache, Placement, Profile, Wire
from sideband.render.reading import Advised, Look, Piece, Reader
from sideband.render.seeding import Placed, SeedPlan, Slot, plan_seed
from sideband.render.shapes import Escape, Shape, framed, neutralise, neutralise_plain, plain, tagged, withdrawal
from sideband.render.view import RequestView

__all__ = [
    "GO_ON",
    "Advised",
    "Placed",
    "Planned",
    "Planner",
    "SeedPlan",
    "Slot",
    "Tail",
    "default_placement",
    "plan_seed",
    "tail_of",
]

_DEVELOPER: Final = "developer"
_SYSTEM: Final = "system"
_USER: Final = "user"
_TOOL: Final = "tool"

_OPENAI: Final = (Wire.OPENAI_CHAT, Wire.OPENAI_RESPONSES)
# So many texts are remembered for each kind of end, so that what is shown again and again is written once.
_REMEMBERED: Final = 256


class Planned(msgspec.Struct, frozen=True):
    """What one request says beside its messages: the fragments in the order in which they stand, all at `anchor`."""

    fragments: tuple[Fragment, ...] = ()
    shown: tuple[Shown, ...] = ()
    left_out: tuple[str, ...] = ()
    unusable: tuple[Unusable, ...] = ()
    advice: tuple[Advised, ...] = ()
    anchor: int = 0


def default_placement(profile: Profile) -> Placement:
    """The profile's own choice; else `native`, where its prefix must not change and its slot clears; else `tail`."""
    if profile.placement is not None:
        return profile.placement
    clears = profile.prefix_bound_thinking and profile.heeds_inline and profile.self_clearing is not None
    return Placement.NATIVE if clears else Placement.TAIL


class _End(msgspec.Struct, frozen=True):
    """What holds at one kind of end of a conversation.

    Text joins an open turn in this form and role; where none is open it begins one. Reminders of the session's own side
    have a role of their own. Finite ones, and finite notices, stand as long as these scopes say. `known` has what was
    said at such an end of reminders that are not kept, by id.
    """

    tail: Tail
    is_open: bool
    form: Form
    role: str
    own_role: str
    own: Scope
    notice: Scope
    known: dict[str, Piece]


class _Read(msgspec.Struct):
    """The live reminders of a request: what stands there already, what is kept, what is not, what it cannot show."""

    carried: list[Shown]
    kept: list[Piece]
    passing: list[Piece]
    unusable: list[Unusable]


class Planner:
    """Plans the requests of one route: what depends on the profile and the placement alone is decided beforehand.

    The preset `seed` is planned by `plan_seed`; here it would be `tail`.
    """

    def __init__(self, profile: Profile, placement: Placement) -> None:
        native = placement is Placement.NATIVE and profile.heeds_inline
        self._clears = native and profile.wire is Wire.ANTHROPIC and profile.self_clearing is not None
        self._own_items = native and profile.wire in _OPENAI and profile.developer_role
        self._profile = profile
        self._as_developer = self._own_items or profile.prefers_role_developer
        self._tags = not self._as_developer and (profile.prefers_xml_scaffolding or profile.wire is Wire.ANTHROPIC)
        self._reader = Reader(profile, always=Shape.DEVELOPER_MESSAGE if self._own_items else None)
        self._ends = {tail: self._end(tail) for tail in Tail}

    @property
    def shield(self) -> Escape | None:
        """What keeps words of others from looking like ours; None where ours have a role in which nobody else speaks."""
        if self._as_developer:
            return None
        return neutralise if self._tags else neutralise_plain

    # Deciding beforehand.

    def _end(self, tail: Tail) -> _End:
        profile = self._profile
        is_open = tail in (Tail.USER, Tail.RESULTS)
        # A developer message behind the results would close what text is folded into.
        folds = profile.fold_into_tool_result and not self._as_developer
        if tail is Tail.RESULTS and folds and (profile.user_text_resets_reasoning or not profile.user_after_tool):
            form, role = Form.RESULT, _USER if profile.wire in USER_AND_MODEL else _TOOL
        else:
            form, role = Form.TEXT, _USER
        text = self._finite_text(tail, form)
        own_role, own = (_DEVELOPER, self._finite_message()) if self._as_developer else (role, text)
        if self._clears and is_open:
            # Volatile text can stand neither before the entry, which is history, nor behind it, where no user may speak.
            own, text = Scope.CLEARING, Scope.KEPT
        return _End(tail, is_open, form, role, own_role, own, text, {})

    def _finite_text(self, tail: Tail, form: Form) -> Scope:
        profile = self._profile
        opens_between = tail is Tail.ASSISTANT and not profile.consecutive_assistant
        # Without the turn that opened it, a conversation would begin with the model.
        opens_the_talk = tail is Tail.EMPTY
        # No breakpoint can stand inside a result there, and one behind it would cover what does not stay.
        covered = form is Form.RESULT and profile.wire is Wire.ANTHROPIC and profile.cache is Cache.EXPLICIT
        kept = self._stays or opens_between or opens_the_talk or covered or profile.cache is Cache.IMPLICIT
        return Scope.KEPT if kept else Scope.VOLATILE

    def _finite_message(self) -> Scope:
        kept = self._stays or self._own_items or not self._profile.consecutive_assistant
        return Scope.KEPT if kept else Scope.VOLATILE

    @property
    def _stays(self) -> bool:
        """Whether nothing that was once sent may be missing later."""
        return self._profile.prefix_bound_thinking or self._profile.server_side_history or self._profile.kv_prefix

    # Planning a request.

    def plan(self, view: RequestView, route: str) -> Planned:
        """What this request says beside its messages."""
        return self.plan_behind(view, view.ledger.on(route))

    def plan_behind(self, view: RequestView, ledger: Ledger, tail: Tail | None = None) -> Planned:
        """The same, where it is known what the route has said before, and maybe what the conversation ends with there."""
        messages, live = view.messages, view.live
        anchor = len(messages)
        if view.again is not None:
            return Planned(view.again, _shown_again(view.again, live, ledger), anchor=anchor)
        end = self._ends[tail_of(messages) if tail is None else tail]
        standing = ledger.standing
        if not (standing or live):
            return Planned(go_on(self._profile, end.tail, anchor), anchor=anchor)
        read = self._read(live, ledger, end)
        pieces = read.kept + read.passing
        left_out: tuple[str, ...] = ()
        if sum([piece.tokens for piece in pieces]) > self._reader.tokens:
            left_out = self._reader.left_out(pieces)
            pieces = [piece for piece in pieces if piece.item.id not in left_out]
        ended = _ended(live, standing) if standing else ()
        return Planned(
            self._fragments(pieces, ended, end, anchor) or go_on(self._profile, end.tail, anchor),
            (*read.carried, *[piece.shown for piece in pieces]),
            left_out,
            tuple(read.unusable),
            self._reader.advice(pieces),
            anchor,
        )

    def _read(self, live: LiveIndex, ledger: Ledger, end: _End) -> _Read:
        read = _Read([], [], [], [])
        standing, handle, known, passing = ledger.standing, ledger.next_handle, end.known, read.passing
        if len(known) > _REMEMBERED:
            known.clear()
        for item in live:
            reminder_id = item.reminder.id
            if standing and reminder_id in standing:
                read.carried.append(Shown(reminder_id, standing[reminder_id].role, carried=True))
                continue
            before = known.get(reminder_id)
            if before is not None and before.item is item:
                passing.append(before)
                continue
            piece = self._piece(item, live, end, handle)
            if isinstance(piece, DropReason):
                read.unusable.append(Unusable(reminder_id, piece))
            elif piece.handle is None:
                # What is not kept is the same in the next request that ends alike.
                known[reminder_id] = piece
                passing.append(piece)
            else:
                read.kept.append(piece)
                handle += 1
        return read

    def _piece(self, item: LiveItem, live: LiveIndex, end: _End, handle: int) -> Piece | DropReason:
        reader, reminder = self._reader, item.reminder
        look = reader.look(item)
        if isinstance(look, DropReason):
            return look
        scope, role = (end.notice, end.role) if look.is_notice else (end.own, end.own_role)
        number = None
        if scope is Scope.KEPT or reminder.ttl_turns is None:
            scope, number = Scope.KEPT, handle
            text = _text(item, look, handle, live.remaining(item))
        elif look.is_tagged and not look.is_notice:
            text = framed(reminder.body)
        else:
            text = _text(item, look)
        tokens = estimate(text)
        if tokens > reader.largest:
            return DropReason.TOO_LARGE
        shown = Shown(reminder.id, _SYSTEM if scope is Scope.CLEARING else role)
        return Piece(item, look, shown, text, tokens, scope, number)

    def _fragments(self, pieces: Sequence[Piece], ended: Sequence[int], end: _End, anchor: int) -> tuple[Fragment, ...]:
        """In the order in which they stand: what takes back, what is kept, what is volatile, what clears itself."""
        fragments: list[Fragment] = []
        clearing: list[Piece] = []
        is_open, open_role, open_form = end.is_open, end.role, end.form
        if ended:
            fragments.append(self._withdrawal(ended, end, anchor))
            is_open = not self._as_developer
        for piece in pieces:
            scope, shown = piece.scope, piece.shown
            if scope is Scope.CLEARING:
                clearing.append(piece)
                continue
            role = shown.rendered_role
            joins = role == open_role
            fragments.append(
                Fragment(
                    anchor=anchor,
                    # A developer message ends the turn of the user, and the next text begins another.
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
            fragments.append(_entry(clearing, anchor))
        return tuple(fragments)

    def _withdrawal(self, ended: Sequence[int], end: _End, anchor: int) -> Fragment:
        return Fragment(
            anchor=anchor,
            form=end.form if end.is_open and not self._as_developer else Form.MESSAGE,
            role=end.own_role,
            scope=Scope.KEPT,
            text=withdrawal(ended, tags=self._tags),
            withdraws=tuple(ended),
        )


def _entry(pieces: Sequence[Piece], anchor: int) -> Fragment:
    """The one entry of a request that clears itself: no second may stand beside it."""
    return Fragment(
        anchor=anchor,
        form=Form.MESSAGE,
        role=_SYSTEM,
        scope=Scope.CLEARING,
        text="\n".join([piece.text for piece in pieces]),
        reminders=tuple([piece.item.reminder.id for piece in pieces]),
    )


def _text(item: LiveItem, look: Look, handle: int | None = None, turns: int | None = None) -> str:
    stated = turns if turns is not None and turns > 1 else None
    if look.is_tagged:
        # On a route with plain shapes a peer could otherwise write what reads like one, inside its own frame.
        escape = neutralise_plain if look.is_notice else neutralise
        return tagged(item.reminder, item.provenance, escape=escape, handle=handle, turns=stated)
    return plain(item.reminder, handle=handle, turns=stated)


def _ended(live: LiveIndex, standing: Mapping[str, Fragment]) -> list[int]:
    """The handles of what still stands though its reminder has ended."""
    return [kept.handle for key, kept in standing.items() if key not in live and kept.handle is not None]


def _shown_again(fragments: Iterable[Fragment], live: LiveIndex, ledger: Ledger) -> tuple[Shown, ...]:
    """What a request shows that is sent once more as it was."""
    carried = [Shown(key, kept.role, carried=True) for key, kept in ledger.standing.items() if key in live]
    return (*carried, *(Shown(key, fragment.role) for fragment in fragments for key in fragment.reminders))

"""A request as the bytes that leave, built from what is new since the last one."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from sideband.core.errors import InvalidOption
from sideband.core.ledger import Fragment, Ledger, Scope
from sideband.core.lifecycle import Shown, Unusable
from sideband.render.dialect import RESULT, USER, Head, Opening, Settings
from sideband.render.history import AUTOMATIC, History
from sideband.render.layout import Kind, Layout, Part, spliced
from sideband.render.planning import (
    Advised,
    Placed,
    Planned,
    Planner,
    SeedPlan,
    Slot,
    Tail,
    default_placement,
    plan_seed,
)
from sideband.render.profile import Placement, Profile
from sideband.render.tape import Tape, encode
from sideband.render.view import RequestView
from sideband.render.wires import dialect_for

# So many sessions are remembered; one that was forgotten is encoded anew.
MAX_SESSIONS: Final = 32
_ROUTE_BYTES: Final = 8
# A provider that places its breakpoint by itself looks so many blocks back for the one before.
AUTOMATIC_BLOCKS: Final = 20
NOT_AUTOMATIC: Final = Advised(
    "SIDEBAND-107",
    f"automatic caching is off for a request: it holds text that does not stay, or {AUTOMATIC_BLOCKS} new blocks or more",
)
# What the renderer itself writes.
_RESERVED: Final = frozenset(
    {"model", "stream", "tools", "system", "systemInstruction", "messages", "input", "contents"}
)
_STABLE: Final = frozenset({Kind.STABLE, Kind.NEW, Kind.KEPT, Kind.CLEARING})


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A finished request. `betas` are the provider's features that it has to be sent with."""

    body: bytes
    route: str
    shown: tuple[Shown, ...]
    left_out: tuple[str, ...]
    unusable: tuple[Unusable, ...]
    fragments: tuple[Fragment, ...]
    advice: tuple[Advised, ...]
    betas: tuple[str, ...]
    layout: Layout

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the body consists of, for whoever wants to see it."""
        return tuple(self.layout.parts())

    @property
    def stable(self) -> bytes:
        """The conversation as far as it will stay: without what is volatile, markers, and what closes it."""
        return b"".join(self.body[part.start : part.end] for part in self.parts if part.kind in _STABLE)


class Renderer:
    """Builds the requests of one model, over one profile.

    What it remembers of a session only saves work: whatever it is shown, the request is the one that a new renderer
    would build. `placement` None: as the profile has it. `parameters` are further fields of the request's body.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        model: str,
        placement: Placement | None = None,
        max_output_tokens: int | None = None,
        stream: bool = True,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        for name in _RESERVED.intersection(parameters or ()):
            raise InvalidOption(f"{name} is not a parameter: it is what the request is made of", field=name)
        self.profile = profile
        self.placement = default_placement(profile) if placement is None else placement
        self._settings = Settings(model, max_output_tokens, stream, dict(parameters or {}))
        self._planner = Planner(profile, self.placement)
        self._dialect = dialect_for(profile, None if self.placement is Placement.SEED else self._planner.shield)
        self._signed = encode([self._settings, profile, self.placement])
        self._betas = () if profile.self_clearing is None else (profile.self_clearing,)
        self._histories: dict[str, History] = {}

    def render(self, view: RequestView) -> Rendered:
        """The request for this view."""
        if self.placement is Placement.SEED:
            return self._render_seed(view)
        history, ledger = self._history(view)
        behind = self._behind(history)
        rendered = self._finished(history, behind, self._planner.plan_behind(view, ledger, self._end(view, behind)))
        history.settle()
        self._remember(view.session_id, history)
        return rendered

    def _behind(self, history: History) -> Tape:
        """What is only of this request is written here; no call is left without a result."""
        behind = history.tape.fork()
        if behind.pending:
            self._dialect.settle(behind)
        return behind

    @staticmethod
    def _end(view: RequestView, behind: Tape) -> Tail | None:
        """What a conversation ends with on this wire, where its last message does not tell.

        What the user says behind a result may have gone into that, and a result without its call into the user's turn.
        """
        if behind.top.name == RESULT:
            return Tail.RESULTS
        return Tail.USER if view.messages and view.messages[-1]["role"] == "tool" else None

    def _finished(self, history: History, tail: Tape, planned: Planned | SeedPlan, *marked: int) -> Rendered:
        """The history, what this request says behind it, and the breakpoints; `marked` blocks ask for one too."""
        dialect, tape, fragments = self._dialect, history.tape, planned.fragments
        written = tail.data
        ends = [len(written), *self._say(tail, fragments)]
        written += tail.top.joints[0]
        written += b"}"
        ends.append(len(written))
        front, head_marks, advice = history.front, history.head.marks, planned.advice
        if dialect.automatically:
            stays = all(fragment.scope is Scope.KEPT for fragment in fragments)
            if stays and tape.blocks + tail.blocks - tape.answered_blocks < AUTOMATIC_BLOCKS:
                front, head_marks = history.automatic, AUTOMATIC
            else:
                advice = (*advice, NOT_AUTOMATIC)
        marks = self._marks(tape, tail, marked)[len(head_marks) - dialect.most_marks :] if dialect.marking else ()
        body = history.page.finish(front, spliced(tape.data, written, marks, dialect.marker, tape.base))
        begins = (len(history.head.data), tape.answered, tail.base)
        return Rendered(
            body=body,
            route=history.route,
            shown=planned.shown,
            left_out=planned.left_out,
            unusable=planned.unusable,
            fragments=fragments,
            advice=advice,
            betas=self._betas if self._betas and history.clears_with(fragments) else (),
            layout=Layout(*begins, ends, fragments, head_marks, marks, len(dialect.marker)),
        )

    def _say(self, tail: Tape, fragments: Sequence[Fragment]) -> list[int]:
        """Write what a request says beside its messages, and tell where each of it ends."""
        put_all, count, kept = self._dialect.put_all, len(fragments), 0
        while kept < count and fragments[kept].scope is Scope.KEPT:
            kept += 1
        ends = put_all(tail, fragments[:kept]) if kept else []
        if kept < count:
            # No breakpoint may stand on or behind what does not stay.
            tail.marking = False
            ends += put_all(tail, fragments[kept:])
        return ends

    def _marks(self, tape: Tape, tail: Tape, marked: Sequence[int]) -> Sequence[int]:
        """Where breakpoints stand in the conversation: at the end of the last answered request, and of what stays now."""
        stays = tail.marks or tape.marks
        last = len(stays) - 1
        # A result is marked as a whole, which it cannot be with text in it that does not stay.
        if self._dialect.results_in_user and not tail.marking and tail.top.name == RESULT:
            last -= 1
        marks = [tape.marks[tape.answered_marks - 1]] if tape.answered_marks else []
        if last >= 0 and stays[last] not in marks:
            marks.append(stays[last])
        return sorted({*marks, *marked}) if marked else marks

    # What is remembered.

    def _history(self, view: RequestView) -> tuple[History, Ledger]:
        """The tape of this conversation, up to its last message, and what was said beside it on this route.

        It is remembered again when the request is whole: whatever fails on the way leaves none behind that is half
        written, and another thread begins its own.
        """
        history = self._histories.pop(view.session_id, None)
        if history is not None:
            ledger = view.ledger.on(history.route)
        if history is None or not history.goes_on_with(view, ledger):
            head = self._dialect.head(self._opening(view, view.system, view.system_after))
            history = History(self._dialect, view, head, self._route(head))
            ledger = view.ledger.on(history.route)
        history.follow(view.messages, ledger)
        return history, ledger

    def _remember(self, session_id: str, history: History) -> None:
        histories = self._histories
        # The one used last stands last.
        histories[session_id] = history
        if len(histories) > MAX_SESSIONS:
            del histories[next(iter(histories))]

    def _opening(self, view: RequestView, *system: str) -> Opening:
        return Opening(self._settings, "\n\n".join(filter(None, system)), tuple(view.tools), view.session_id)

    def _route(self, head: Head) -> str:
        return blake2b(self._signed + head.data, digest_size=_ROUTE_BYTES).hexdigest()

    # The preset of the guide: nothing is remembered, since anything may change anywhere.

    def _render_seed(self, view: RequestView) -> Rendered:
        route = self._route(self._dialect.head(self._opening(view, view.system, view.system_after)))
        planned = plan_seed(self.profile, view)
        placed = {slot: [entry for entry in planned.placed if entry.slot is slot] for slot in Slot}
        system = (entry.text for entry in placed[Slot.SYSTEM])
        opening = self._opening(view, view.system, *system, view.system_after)
        history = History(self._dialect, view, self._dialect.head(opening), route)
        for entry in placed[Slot.FRONT_DEVELOPER]:
            self._dialect.entry(history.tape, entry.role, entry.text)
        blocks = placed[Slot.FIRST_USER]
        first, speaker = self._write_behind(history, view, blocks)
        if speaker != USER:
            carried = {entry.reminder_id for entry in blocks}
            roles = (speaker if entry.reminder_id in carried else entry.rendered_role for entry in planned.shown)
            planned = planned._replace(shown=tuple(map(Shown, [entry.reminder_id for entry in planned.shown], roles)))
        marked = (history.tape.marks[first + place] for place, entry in enumerate(blocks) if entry.marked)
        return self._finished(history, self._behind(history), planned, *(marked if self._dialect.marking else ()))

    def _write_behind(self, history: History, view: RequestView, blocks: Sequence[Placed]) -> tuple[int, str]:
        """The conversation with these blocks before the first text of the user.

        How many marks come before theirs, and the role of the message that carries them.
        """
        # What stands in front changes with every reminder, and so nothing that was thought behind it counts.
        ledger = Ledger(fragments=view.ledger.on(history.route).fragments)
        first = next((place for place, message in enumerate(view.messages) if message["role"] == "user"), None)
        history.follow(view.messages[:first], ledger)
        self._dialect.settle(history.tape)
        marks, speaker = len(history.tape.marks), self._dialect.speaker(history.tape)
        front = [{"type": "text", "text": entry.text} for entry in blocks]
        if first is not None:
            user = view.messages[first]
            said = [{"type": "text", "text": user["content"]}] if isinstance(user["content"], str) else user["content"]
            together = {**user, "content": [*front, *said]}
            history.follow([*view.messages[:first], together, *view.messages[first + 1 :]], ledger)
        elif front:
            self._dialect.say(history.tape, [entry.text for entry in blocks], join=True)
        return marks, speaker

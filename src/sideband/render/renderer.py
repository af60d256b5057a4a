"""Rendering a request: the exact bytes to send, of which only those since the last request are encoded."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from sideband.core.errors import InvalidOption
from sideband.core.ledger import Fragment, Ledger, Lifetime
from sideband.core.turn import Shown
from sideband.render.escape import neutralise_all
from sideband.render.layout import Layout, Part, PartKind, spliced
from sideband.render.plan import Advice, Plan, Planner, Tail, default_placement
from sideband.render.profiles import Placement, Profile
from sideband.render.seed import Placed, SeedSlot, plan_seed
from sideband.render.tape import Tape, encode
from sideband.render.view import RequestView
from sideband.render.wires import dialect_for
from sideband.render.wires.dialect import RESULT, USER, Dialect, Head, Opening, Settings

# The encoded conversations of this many sessions are remembered; that of any other session is encoded again.
MAX_SESSIONS: Final = 32
_ROUTE_BYTES: Final = 8
# A provider with automatic caching looks this many blocks back for an earlier cache entry.
AUTOMATIC_BLOCKS: Final = 20
NOT_AUTOMATIC: Final = Advice(
    "SIDEBAND-107",
    f"automatic caching is off for a request: it holds text that does not stay, or {AUTOMATIC_BLOCKS} new blocks or more",
)
CONTENT_LEFT_OUT: Final = "SIDEBAND-109"
# The marker that asks for automatic caching stands after the opening brace of the body.
_AUTOMATIC_MARKS: Final = (1,)
# Fields that the renderer writes itself.
_RESERVED: Final = frozenset(
    {"model", "stream", "tools", "system", "systemInstruction", "messages", "input", "contents"}
)
_STABLE: Final = frozenset({PartKind.STABLE, PartKind.NEW, PartKind.KEPT, PartKind.CLEARING})

_Item = TypeVar("_Item")


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request, and the `betas` of the provider that it has to be sent with."""

    body: bytes
    betas: tuple[str, ...]
    layout: Layout

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the body, in order."""
        return tuple(self.layout.parts())

    @property
    def stable(self) -> bytes:
        """The part of the conversation that later requests repeat: no volatile text, markers or closing brackets."""
        return b"".join(self.body[part.start : part.end] for part in self.parts if part.kind in _STABLE)


class Renderer:
    """Builds the requests of one model with one profile.

    The encoded conversations that it remembers only save work: it builds the same bytes as a new renderer would.
    `placement` None: the default of the profile. `parameters` are additional fields of the body.
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
            raise InvalidOption(f"{name} cannot be a parameter: the renderer writes this field itself", field=name)
        self.profile = profile
        self.placement = default_placement(profile) if placement is None else placement
        self._settings = Settings(model, max_output_tokens, stream, dict(parameters or {}))
        self._planner = Planner(profile, self.placement)
        self._dialect = dialect_for(profile, None if self.placement is Placement.SEED else neutralise_all)
        self._signed = encode([self._settings, profile, self.placement])
        self._betas = () if profile.self_clearing is None else (profile.self_clearing,)
        self._histories: dict[str, _History] = {}

    def render(self, view: RequestView) -> Plan:
        """The plan for this view; its `request` is a `Rendered`, its `head` is not set."""
        if self.placement is Placement.SEED:
            return self._render_seed(view)
        history, ledger = self._history(view)
        fork = self._fork(history)
        plan = self._rendered(history, fork, self._planner.plan(view, ledger, _tail(view, fork)))
        self._remember(view.session_id, history)
        return plan

    def _fork(self, history: "_History") -> Tape:
        """A fork for the text of this request alone, after a result for each call that has none."""
        fork = history.tape.fork()
        self._dialect.settle(fork)
        return fork

    def _rendered(self, history: "_History", fork: Tape, plan: Plan, marked: Sequence[int] = ()) -> Plan:
        """The plan with its request: the history, the text of this request, and cache markers, also at `marked`."""
        dialect, tape, fragments = self._dialect, history.tape, plan.fragments
        ends = self._write_fragments(fork, fragments)
        front = history.head
        advice = (*plan.advice, *(Advice(CONTENT_LEFT_OUT, told) for told in tape.left_out))
        if dialect.automatically:
            stays = all(fragment.scope is Lifetime.KEPT for fragment in fragments)
            if stays and tape.blocks + fork.blocks - tape.answered_blocks < AUTOMATIC_BLOCKS:
                front = front._replace(marks=_AUTOMATIC_MARKS)
            else:
                advice = (*advice, NOT_AUTOMATIC)
        marks = self._marks(tape, fork, marked)[len(front.marks) - dialect.most_marks :] if dialect.marking else ()
        chunks = (
            *spliced(front.data, front.marks, dialect.marker),
            *spliced(tape.data, [mark for mark in marks if mark < fork.base], dialect.marker),
            *spliced(fork.data, [mark - fork.base for mark in marks if mark >= fork.base], dialect.marker),
        )
        return msgspec.structs.replace(
            plan,
            route=history.route,
            advice=advice,
            request=Rendered(
                body=b"".join(chunks),
                betas=self._betas if self._betas and history.clears_with(fragments) else (),
                layout=Layout(
                    head=len(front.data),
                    answered=tape.answered,
                    fork=fork.base,
                    ends=ends,
                    fragments=fragments,
                    head_marks=front.marks,
                    marks=marks,
                    marker=len(dialect.marker),
                ),
            ),
        )

    def _write_fragments(self, fork: Tape, fragments: Sequence[Fragment]) -> list[int]:
        """Write the fragments and close the body; where the messages, each fragment and the body end on the fork."""
        ends = [len(fork.data)]
        for fragment in fragments:
            if fragment.scope is not Lifetime.KEPT:
                # No breakpoint may stand on or after text that does not stay.
                fork.marking = False
            self._dialect.put(fork, fragment)
            ends.append(len(fork.data))
        fork.data += fork.top.joints[0] + b"}"
        ends.append(len(fork.data))
        return ends

    def _marks(self, tape: Tape, fork: Tape, marked: Sequence[int]) -> Sequence[int]:
        """Breakpoints in the conversation: at the end of the last answered request, and at the end of what stays."""
        stays = fork.marks or tape.marks
        last = len(stays) - 1
        # A marker covers a whole result, and this one contains text that does not stay.
        if self._dialect.results_in_user and not fork.marking and fork.top.name == RESULT:
            last -= 1
        marks = [tape.marks[tape.answered_marks - 1]] if tape.answered_marks else []
        if last >= 0 and stays[last] not in marks:
            marks.append(stays[last])
        return sorted({*marks, *marked})

    # Remembered conversations.

    def _history(self, view: RequestView) -> tuple["_History", Ledger]:
        """The encoded conversation up to its last message, and the ledger of this route.

        It is taken out of the remembered ones until the request is complete, so that an error leaves no half-written
        history, and two threads never write to the same one.
        """
        history = self._histories.pop(view.session_id, None)
        if history is not None:
            ledger = view.ledger.on(history.route)
        if history is None or not history.continues_with(view, ledger):
            head = self._dialect.head(self._opening(view, view.system, view.system_after))
            history = _History(self._dialect, view, head, self._route(head))
            ledger = view.ledger.on(history.route)
        history.follow(view.messages, ledger)
        return history, ledger

    def _remember(self, session_id: str, history: "_History") -> None:
        histories = self._histories
        # Insertion order is the order of use: the first is the least recently used.
        histories[session_id] = history
        if len(histories) > MAX_SESSIONS:
            del histories[next(iter(histories))]

    def _opening(self, view: RequestView, *system: str) -> Opening:
        return Opening(self._settings, "\n\n".join(filter(None, system)), tuple(view.tools), view.session_id)

    def _route(self, head: Head) -> str:
        return blake2b(self._signed + head.data, digest_size=_ROUTE_BYTES).hexdigest()

    # The placement `seed`. Nothing is remembered, because any part of the request may change.

    def _render_seed(self, view: RequestView) -> Plan:
        route = self._route(self._dialect.head(self._opening(view, view.system, view.system_after)))
        plan, placed = plan_seed(self.profile, view)
        slots = {slot: [entry for entry in placed if entry.slot is slot] for slot in SeedSlot}
        system = (entry.text for entry in slots[SeedSlot.SYSTEM])
        opening = self._opening(view, view.system, *system, view.system_after)
        history = _History(self._dialect, view, self._dialect.head(opening), route)
        for entry in slots[SeedSlot.FRONT_DEVELOPER]:
            self._dialect.entry(history.tape, entry.role, entry.text)
        blocks = slots[SeedSlot.FIRST_USER]
        first, speaker = self._write_conversation(history, view, blocks)
        if speaker != USER:
            carried = {entry.reminder_id for entry in blocks}
            shown = (
                Shown(entry.reminder_id, speaker) if entry.reminder_id in carried else entry for entry in plan.shown
            )
            plan = msgspec.structs.replace(plan, shown=tuple(shown))
        marking = self._dialect.marking
        marked = [history.tape.marks[first + place] for place, entry in enumerate(blocks) if marking and entry.marked]
        return self._rendered(history, self._fork(history), plan, marked)

    def _write_conversation(self, history: "_History", view: RequestView, blocks: Sequence[Placed]) -> tuple[int, str]:
        """Write the conversation with these blocks before the first text of the user.

        Returns how many marks come before those of the blocks, and the role of the message that carries the blocks.
        """
        # The beginning changes with every reminder, so thinking that is bound to its prefix is left out.
        ledger = Ledger(fragments=view.ledger.on(history.route).fragments)
        first = next((place for place, message in enumerate(view.messages) if message["role"] == "user"), None)
        history.follow(view.messages[:first], ledger)
        self._dialect.settle(history.tape)
        marks, speaker = len(history.tape.marks), self._dialect.speaker(history.tape)
        front = [entry.text for entry in blocks]
        if first is not None:
            user = view.messages[first]
            said = [{"type": "text", "text": user["content"]}] if isinstance(user["content"], str) else user["content"]
            together = {**user, "content": [*front, *said]}
            history.follow([*view.messages[:first], together, *view.messages[first + 1 :]], ledger)
        elif front:
            self._dialect.say(history.tape, front, join=True)
        return marks, speaker


def _tail(view: RequestView, fork: Tape) -> Tail | None:
    """What the conversation ends with on this wire, where that differs from its last message.

    User text after a result may have been folded into it. A result without its call, and every result for a template
    that has no role for results, is user text.
    """
    if fork.top.name == RESULT:
        return Tail.RESULTS
    last = view.messages[-1] if view.messages else {}
    return Tail.USER if last.get("role") == "tool" or last.get("tool_calls") else None


class _History:
    """The encoded conversation of one session in one window, without anything that has not been answered yet.

    `_earlier` is how many of the messages are older than the window.
    """

    def __init__(self, dialect: Dialect, view: RequestView, head: Head, route: str) -> None:
        self.head = head
        self.route = route
        self.tape = Tape(head.top, marking=dialect.marking)
        self._clears = False
        self._dialect = dialect
        self._system = (view.system, view.system_after)
        self._tools = tuple(view.tools)
        self._messages: Sequence[Mapping[str, Any]] = ()
        self._written = self._earlier = 0
        self._fragments: Sequence[Fragment] = ()
        self._joined = 0

    def continues_with(self, view: RequestView, ledger: Ledger) -> bool:
        """Whether a view has the same head and only appends to what is encoded."""
        joined, written, fragments = self._joined, self._written, ledger.fragments
        return (
            self._system == (view.system, view.system_after)
            and self._tools == tuple(view.tools)
            and (written if ledger.since is None else min(ledger.since, written)) == self._earlier
            and _begins(view.messages, self._messages, written)
            and _begins(fragments, self._fragments, joined)
            and (len(fragments) == joined or fragments[joined].anchor >= written)
        )

    def follow(self, messages: Sequence[Mapping[str, Any]], ledger: Ledger) -> None:
        """Encode what is new: messages, and each fragment at its anchor."""
        fragments, count = ledger.fragments, len(messages)
        self._earlier = count if ledger.since is None else min(ledger.since, count)
        for place in range(self._written, count):
            self._join(fragments, place)
            message = messages[place]
            self._dialect.write(self.tape, message if place >= self._earlier else self._dialect.unbound(message))
        self._join(fragments, count)
        self._messages, self._written, self._fragments = messages, count, fragments

    def clears_with(self, fragments: Iterable[Fragment]) -> bool:
        """Whether an entry that the provider clears by itself is in the history or among these fragments."""
        return self._clears or any(fragment.scope is Lifetime.CLEARING for fragment in fragments)

    def _join(self, fragments: Sequence[Fragment], place: int) -> None:
        while self._joined < len(fragments) and fragments[self._joined].anchor <= place:
            fragment = fragments[self._joined]
            # In the request that had the fragment first, it came after a result for each call.
            self._dialect.settle(self.tape)
            self._dialect.put(self.tape, fragment)
            self._clears = self._clears or fragment.scope is Lifetime.CLEARING
            self._joined += 1


def _begins(items: Sequence[_Item], known: Sequence[_Item], count: int) -> bool:
    """Whether `items` starts with the first `count` of `known`. The same list need not be compared: it only grows."""
    if len(items) < count:
        return False
    return items is known or not count or list(items[:count]) == list(known[:count])

"""Laws of rendered requests: for every session, wire and placement."""

import json
from collections.abc import Iterator
from itertools import pairwise
from string import ascii_letters
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.ledger import Lifetime
from sideband.render.layout import PartKind
from sideband.render.plan import Plan
from sideband.render.profiles import Placement, Wire
from sideband.render.view import RequestView
from sideband.testing.oracle import violations
from tests.rendering_sessions import ROUTES, STEPS, Remind, Route, Sent, Step, play, signature_of
from tests.unit.render.plain import plain_body, strings_in

PLAIN_WORDS: Final = frozenset(f"{ascii_letters}./ ")
FLEETING: Final = (PartKind.VOLATILE, PartKind.CLEARING)
MARKERS: Final = ("cache_control", "prompt_cache_breakpoint")


def routes(wire: Wire, *placements: Placement) -> st.SearchStrategy[Route]:
    """The routes over one wire, with their names in the report of a failure."""
    named = {
        name: route
        for name, route in ROUTES.items()
        if route.profile.wire is wire and route.placement in (placements or Placement)
    }
    return st.sampled_from(sorted(named)).map(named.__getitem__)


on_every_wire = pytest.mark.parametrize("wire", list(Wire))
# Where nothing may change that was once sent; the preset of the guide changes what it likes.
LASTING: Final = (Placement.TAIL, Placement.NATIVE)


def pieces(rendered: Plan, *kinds: PartKind) -> bytes:
    return b"".join(
        rendered.request.body[part.start : part.end] for part in rendered.request.parts if part.kind in kinds
    )


def without_markers(rendered: Plan) -> bytes:
    """The conversation of a request with its cache markers removed."""
    return pieces(rendered, *(kind for kind in PartKind if kind not in (PartKind.HEAD, PartKind.MARKER)))


def in_a_row(sent: list[Sent]) -> Iterator[tuple[Sent, Sent]]:
    """Requests that follow each other inside one window."""
    return ((one, other) for one, other in pairwise(sent) if one.view.window == other.view.window)


def marked(value: object) -> Iterator[dict[str, Any]]:
    """Every block with a cache marker on it."""
    if isinstance(value, dict):
        if any(marker in value for marker in MARKERS):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from marked(item)


@on_every_wire
@given(data=st.data(), steps=STEPS)
def test_a_request_built_from_what_is_new_is_the_one_built_from_scratch(
    wire: Wire, data: st.DataObject, steps: list[Step]
) -> None:
    route = data.draw(routes(wire, *LASTING))
    for sent in play(route, steps):
        assert json.loads(sent.rendered.request.body) == plain_body(route, sent)


@on_every_wire
@given(data=st.data(), steps=STEPS)
def test_what_a_renderer_remembers_changes_no_byte(wire: Wire, data: st.DataObject, steps: list[Step]) -> None:
    route = data.draw(routes(wire))
    for sent, again in zip(play(route, steps), play(route, steps, renderer=Forgetful(route)), strict=True):
        assert sent.rendered == again.rendered


class Forgetful:
    """A new renderer for every request."""

    def __init__(self, route: Route) -> None:
        self._route = route

    def render(self, view: RequestView) -> Plan:
        return self._route.renderer().render(view)


@pytest.mark.requirement(
    "render:ledger:stable-part-is-a-prefix",
    "render:ledger:stable-part-starts-both-requests",
    "render:ledger:joins-when-answered",
    "render:ledger:head-is-constant",
    "render:kept:before-volatile",
)
@on_every_wire
@given(data=st.data(), steps=STEPS)
def test_inside_a_window_what_was_sent_only_grows(wire: Wire, data: st.DataObject, steps: list[Step]) -> None:
    sent = play(data.draw(routes(wire, *LASTING)), steps)
    for plan in (one.rendered for one in sent):
        assert without_markers(plan).startswith(plan.request.stable)
        assert pieces(plan, *PartKind) == plan.request.body
        kinds = [part.kind for part in plan.request.parts if part.kind is not PartKind.MARKER]
        assert kinds == sorted(kinds, key=list(PartKind).index)
    for one, other in in_a_row(sent):
        assert pieces(one.rendered, PartKind.HEAD) == pieces(other.rendered, PartKind.HEAD)
        assert one.rendered.route == other.rendered.route
        written = pieces(one.rendered, PartKind.STABLE, PartKind.NEW)
        assert pieces(other.rendered, PartKind.STABLE, PartKind.NEW).startswith(written)
        if one.answered:
            assert other.rendered.request.stable.startswith(one.rendered.request.stable)
            assert without_markers(other.rendered).startswith(one.rendered.request.stable)


def bound_routes() -> st.SearchStrategy[Route]:
    """Routes to models that accept a thinking block only after the same prefix."""
    named = {name: route for name, route in ROUTES.items() if route.profile.prefix_bound_thinking}
    return st.sampled_from(sorted(named)).map(named.__getitem__)


@given(route=bound_routes(), steps=STEPS)
def test_a_bound_thinking_block_is_sent_back_only_after_the_same_prefix(route: Route, steps: list[Step]) -> None:
    sent = play(route, steps)
    for number, one in enumerate(sent, start=1):
        for other in sent[number:]:
            if signature_of(number).encode() in other.rendered.request.body:
                assert pieces(other.rendered, PartKind.HEAD) == pieces(one.rendered, PartKind.HEAD)
                assert without_markers(other.rendered).startswith(one.rendered.request.stable)


@pytest.mark.requirement(
    "render:ledger:retry-is-byte-equal",
    "render:breakpoint:at-most-four",
    "render:breakpoint:never-at-volatile-text",
    "render:native:anthropic-beta-header",
)
@on_every_wire
@given(data=st.data(), steps=STEPS)
def test_no_provider_complains_and_nothing_is_lost(wire: Wire, data: st.DataObject, steps: list[Step]) -> None:
    route = data.draw(routes(wire))
    for sent in play(route, steps):
        body = json.loads(sent.rendered.request.body)
        assert violations(route.profile, body, sent.rendered.request.betas) == []
        check_the_breakpoints(route, sent, body)
        check_that_every_reminder_is_readable_or_reported(sent, body)
        for repeated in sent.repeats:
            assert (repeated.request.body, repeated.request.betas) == (
                sent.rendered.request.body,
                sent.rendered.request.betas,
            )


@pytest.mark.requirement("render:fired:role-is-that-of-the-carrier")
@on_every_wire
@given(data=st.data(), steps=STEPS)
def test_the_role_of_a_reminder_is_that_of_the_message_that_carries_it(
    wire: Wire, data: st.DataObject, steps: list[Step]
) -> None:
    told_apart = [
        step._replace(body=f"Body {number}.") if isinstance(step, Remind) else step for number, step in enumerate(steps)
    ]
    for sent in play(data.draw(routes(wire)), told_apart):
        speakers = list(spoken(wire, json.loads(sent.rendered.request.body)))
        bodies = {item.id: item.reminder.body for item in sent.live}
        for shown in sent.rendered.shown:
            # An entry that has cleared itself may stand before it.
            *_, last = (role for said, role in speakers if bodies[shown.reminder_id] in said)
            assert shown.rendered_role == last


def spoken(wire: Wire, body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """All that a body says, with the role of the message that says it."""
    for text in strings_in([body.get("system", []), body.get("systemInstruction", {})]):
        yield text, "system"
    conversation = {Wire.OPENAI_RESPONSES: "input", Wire.GEMINI: "contents"}.get(wire, "messages")
    for message in body[conversation]:
        for text in strings_in(message):
            # What comes of a call has no role in some places; it is no message either.
            yield text, message.get("role", "tool")


def check_the_breakpoints(route: Route, sent: Sent, body: object) -> None:
    found, rendered = list(marked(body)), sent.rendered
    assert len(found) <= (4 if route.placement is Placement.SEED else 3)
    fleeting = [fragment.text for fragment in rendered.fragments if fragment.scope is not Lifetime.KEPT]
    first = min(
        (part.start for part in rendered.request.parts if part.kind in FLEETING), default=len(rendered.request.body)
    )
    assert all(part.end <= first for part in rendered.request.parts if part.kind is PartKind.MARKER)
    # That a request asks for automatic caching is said of all of it.
    assert not any(text in strings_in(block) for block in found if block is not body for text in fleeting)


def check_that_every_reminder_is_readable_or_reported(sent: Sent, body: object) -> None:
    rendered = sent.rendered
    told = {shown.reminder_id for shown in rendered.shown}
    reported = {*rendered.left_out, *(entry.reminder_id for entry in rendered.unusable)}
    assert told.isdisjoint(reported)
    assert told | reported == {item.id for item in sent.live}
    said = "\n".join(strings_in(body))
    for item in sent.live:
        # What no escaper touches.
        plain_words = PLAIN_WORDS.issuperset(item.reminder.body)
        assert item.id in reported or not plain_words or item.reminder.body in said

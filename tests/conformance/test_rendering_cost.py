"""What reminders cost: the tokens they are, and nothing for the place where they stand.

What that means depends on the cache that pays for a request. Where breakpoints are the renderer's, it is an equation of
the whole run. Where a provider keeps whatever requests begin with (Gemini, OpenAI before GPT-5.6, most servers behind the
generic wire), writing costs nothing and a request may read more than was marked for the cache: there the cost of what is
not read has a bound, for each request. A local server has its own reply too, and what it computes is what counts.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sideband.core.ledger import Form, Lifetime
from sideband.core.messages import ToolStatus
from sideband.core.reminder import RoleHint
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.render.plan import Plan
from sideband.render.profiles import Cache, Placement, Wire
from tests.cache_oracle import (
    BYTES_PER_TOKEN,
    READ,
    WRITE,
    AnthropicCache,
    CacheOracle,
    KvCache,
    OpenAiBreakpointCache,
    OpenAiPrefixCache,
    Reading,
    Usage,
    blocks,
    total,
)
from tests.rendering_sessions import ROUTES, Ask, Clear, Compact, End, Remind, Route, Say, Step, play
from tests.sessions import CLIENT, PEER, SERVER

TOLERANCE: Final = 1e-9


# Routes, by what pays for their requests.


class Payer(StrEnum):
    """Which cache a route is made for."""

    BREAKPOINTS = "breakpoints"
    """Entries end where the renderer says, and there are enough of them for turns of any length."""
    ONE_BREAKPOINT = "one breakpoint"
    """One for the whole request: what the turn before has written is found only if it is not too far away."""
    PREFIX = "prefix"
    """Whatever a request begins with in common with an earlier one."""
    KV = "kv"
    """The same, of the last request alone and with the reply to it."""


def payer(route: Route) -> Payer:
    profile = route.profile
    if profile.wire is Wire.ANTHROPIC:
        is_alone = profile.cache is Cache.IMPLICIT or profile.cache_markers == 1
        return Payer.ONE_BREAKPOINT if is_alone else Payer.BREAKPOINTS
    if profile.cache is Cache.EXPLICIT:
        return Payer.BREAKPOINTS
    return Payer.KV if profile.kv_prefix else Payer.PREFIX


# Without a role for tools the ids of calls are text, and a session with more reminders has given out longer ids.
PLACED: Final = {
    name: route for name, route in ROUTES.items() if route.placement is not Placement.SEED and route.profile.tool_role
}
# Where a finite reminder of the session's own side is never kept.
PASSING: Final = (
    "anthropic-tail",
    "anthropic-clearing-native",
    "anthropic-clearing-not-bound-tail",
    "anthropic-clearing-not-bound-native",
    "anthropic-one-marker-tail",
    "anthropic-small-window-tail",
    "chat-tail",
    "chat-without-developer-tail",
    "chat-into-results-tail",
    "responses-tail",
    "responses-no-notices-tail",
)


def on(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", [pytest.param(ROUTES[name], id=name) for name in names])


def paid_by(*payers: Payer) -> pytest.MarkDecorator:
    """Every placement but `seed`, of every profile that is made for such a cache."""
    return on(*(name for name, route in PLACED.items() if payer(route) in payers))


def of(*wires: Wire) -> pytest.MarkDecorator:
    return on(*(name for name, route in PLACED.items() if route.profile.wire in wires))


class ExactPrefixCache(OpenAiPrefixCache):
    """One that reads to the last byte, so that no step hides what is not read."""

    STEP = 1 / BYTES_PER_TOKEN
    LEAST = 0


def breakpoint_caches(wire: Wire) -> list[CacheOracle]:
    """Every cache with breakpoints that requests of this wire may be paid by."""
    if wire is Wire.ANTHROPIC:
        return [AnthropicCache(wire)]
    return [OpenAiBreakpointCache(wire, reading) for reading in Reading]


# Sessions.

SIZES: Final = st.integers(1, 2_000)
TEXTS: Final = SIZES.map("x".__mul__)
MANY_CALLS: Final = 30
# One of many rows takes its share of the examples.
A_SHARE: Final = settings(max_examples=settings().max_examples // 2)


def reminds(*senders: Provenance, ttls: Sequence[int | None]) -> st.SearchStrategy[Remind]:
    return st.builds(
        Remind,
        body=TEXTS,
        ttl=st.sampled_from(ttls),
        hint=st.sampled_from(list(RoleHint)),
        key=st.sampled_from([None, "k1", "k2"]),
        sender=st.sampled_from(senders),
        preserve=st.booleans(),
    )


def asks(least: int, most: int, ends: Sequence[End]) -> st.SearchStrategy[Ask]:
    """A request whose answer makes so many calls; they end in every way there is."""
    results = st.lists(st.tuples(TEXTS, st.sampled_from(list(ToolStatus))), min_size=least, max_size=most)
    return st.builds(
        Ask,
        end=st.sampled_from([End.ANSWERED, *ends]),
        text=TEXTS,
        results=results.map(tuple),
        native=st.booleans(),
    )


SAYS: Final = st.builds(Say, st.lists(TEXTS, min_size=1, max_size=2).map(tuple))
CLEARS: Final = st.builds(Clear, st.sampled_from(["k1", "k2"]))
COMPACTS: Final = st.builds(Compact, keep=st.integers(0, 6), summary=st.just(""), parting=st.booleans())
REMINDS: Final = reminds(IN_PROCESS, CLIENT, PEER, SERVER, ttls=(None, 1, 2, 3, 5))
FLEETING: Final = reminds(IN_PROCESS, CLIENT, ttls=(1, 2, 3, 5))


def sessions(
    remind: st.SearchStrategy[Remind] = REMINDS, *, most: int = MANY_CALLS, ends: Sequence[End] = tuple(End)
) -> st.SearchStrategy[list[Step]]:
    """Sessions in which the last message before each request is not the model's.

    A request that becomes void is followed by whatever comes next: by another one at once, or by what the user says who has
    cancelled it.
    """
    asked_and_told = st.one_of(asks(1, most, ends).map(_alone), st.tuples(asks(0, most, ends), SAYS))
    told = st.one_of(*(step.map(_alone) for step in (remind, CLEARS, SAYS, COMPACTS)))
    groups = st.lists(st.one_of(asked_and_told, told, asked_and_told, remind.map(_alone)), max_size=20)
    return groups.map(lambda found: [step for group in found for step in group])


def _alone(step: Any) -> tuple[Step]:  # noqa: ANN401 - a step of any kind, which strategies of several do not say
    return (step,)


class Asked(NamedTuple):
    """A request that left, with the tokens of its fragments.

    `passing` are in this request only, `placed` are kept and new in it, `carried` were placed by answered requests before.
    A `repeat` is what was sent before, once more.
    """

    rendered: Plan
    passing: float
    placed: float
    carried: float
    repeat: bool
    answered: bool

    @property
    def added(self) -> float:
        return self.passing + self.placed

    @property
    def law(self) -> float:
        """What its fragments cost where breakpoints are ours."""
        return self.passing + READ * self.carried + (READ if self.repeat else WRITE) * self.placed


def run(route: Route, steps: Sequence[Step], *, beside: float = 0.0) -> list[Asked]:
    """The requests of a session in the order in which they left; `beside` is what joins a fragment to what it stands at."""
    requests: list[Asked] = []
    carried, window = 0.0, None
    for sent in play(route, [_told_apart(number, step) for number, step in enumerate(steps)]):
        if sent.view.window != window:
            # What was kept is gone with its window.
            carried, window = 0.0, sent.view.window
        sizes = [(one.scope, len(one.text.encode()) / BYTES_PER_TOKEN + beside) for one in sent.rendered.fragments]
        placed = sum(size for scope, size in sizes if scope is Lifetime.KEPT)
        passing = sum(size for scope, size in sizes if scope is not Lifetime.KEPT)
        for rendered in (sent.rendered, *sent.repeats):
            repeat = rendered is not sent.rendered
            requests.append(Asked(rendered, passing, placed, carried, repeat, sent.answered))
        carried += placed if sent.answered else 0.0
    return requests


def _told_apart(number: int, step: Step) -> Step:
    """A summary that no other is like: otherwise what was before could be found in the cache again."""
    return step._replace(summary=f"Summary {number}.") if isinstance(step, Compact) else step


def without_reminders(steps: Sequence[Step]) -> list[Step]:
    """The same session, numbered alike."""
    return [Clear("nobody") if isinstance(step, Remind) else step for step in steps]


def usages(cache: CacheOracle, requests: Sequence[Asked]) -> list[Usage]:
    return [cache.ask(request.rendered.request.body) for request in requests]


# Where breakpoints are ours.


def the_law_holds(route: Route, told: Sequence[Asked], bare: Sequence[Asked]) -> None:
    # Behind a summary that stands alone, a run without reminders has to say that it goes on.
    law = sum(request.law for request in told) - sum(request.law for request in bare)
    for one, other in zip(breakpoint_caches(route.profile.wire), breakpoint_caches(route.profile.wire), strict=True):
        used, cost = usages(one, told), total(usages(other, bare)).cost
        extra = total(used).cost - cost
        saved, lost = unanswered(told, used)
        assert law - saved - TOLERANCE * cost <= extra <= law + lost + TOLERANCE * cost


def unanswered(requests: Sequence[Asked], used: Sequence[Usage]) -> tuple[float, float]:
    """What may be saved and lost by requests without a reply, where there is kept text.

    They have written up to such text, or up to where it comes to stand. The next one has it at the same place, and reads it,
    or at another one: then it writes once more what they have written.
    """
    saved = lost = written = 0.0
    moves = False
    for request, spent in zip(requests, used, strict=True):
        moves = moves or request.placed > 0
        lost += WRITE * written if moves else 0.0
        if request.answered:
            written, moves = 0.0, False
        else:
            written += spent.written
            saved += WRITE * request.placed
    return saved, lost


@pytest.mark.requirement("render:cost:law")
@paid_by(Payer.BREAKPOINTS)
@A_SHARE
@given(steps=sessions())
def test_reminders_cost_their_tokens_and_nothing_else(route: Route, steps: list[Step]) -> None:
    the_law_holds(route, run(route, steps), run(route, without_reminders(steps)))


@pytest.mark.requirement("render:cost:law")
@paid_by(Payer.ONE_BREAKPOINT)
@A_SHARE
@given(steps=sessions(most=5))
def test_one_breakpoint_will_do_while_a_turn_adds_few_blocks(route: Route, steps: list[Step]) -> None:
    told, bare = run(route, steps), run(route, without_reminders(steps))
    sizes = [len(blocks(route.profile.wire, request.rendered.request.body)) for request in told]
    assume(all(later - sooner < AnthropicCache.LOOK_BACK for sooner, later in pairwise(sizes)))
    the_law_holds(route, told, bare)


@pytest.mark.requirement("render:cost:cache-traffic-is-unchanged")
@on(*PASSING)
@given(steps=sessions(FLEETING))
def test_reminders_that_pass_change_nothing_that_is_read_or_written(route: Route, steps: list[Step]) -> None:
    told, bare = run(route, steps), run(route, without_reminders(steps))
    for requests in (told, bare):
        kept = [each for request in requests for each in request.rendered.fragments if each.scope is Lifetime.KEPT]
        # Only a message of its own: a run without reminders says that it goes on where another one has something to
        # show, and where nothing is left of a conversation no turn can carry a reminder. What takes it back follows.
        assert not kept or kept[0].form is Form.MESSAGE
        assume(not kept)
    for one, other in zip(breakpoint_caches(route.profile.wire), breakpoint_caches(route.profile.wire), strict=True):
        assert traffic(usages(one, told)) == traffic(usages(other, bare))


def traffic(used: Sequence[Usage]) -> list[tuple[float, float]]:
    return [(one.read, one.written) for one in used]


# Where the cache keeps whatever a request begins with.

# Some wires have one text for a message: there a blank line stands between a fragment and what it follows.
JOINT: Final = len("\n\n") / BYTES_PER_TOKEN


@pytest.mark.requirement("render:cost:law-of-a-prefix")
@paid_by(Payer.PREFIX, Payer.KV)
@A_SHARE
@given(steps=sessions())
def test_what_a_prefix_cache_does_not_read_grows_by_what_the_request_adds(route: Route, steps: list[Step]) -> None:
    told, bare = run(route, steps, beside=JOINT), run(route, without_reminders(steps))
    wire = route.profile.wire
    pairs = zip(told, usages(ExactPrefixCache(wire), told), usages(ExactPrefixCache(wire), bare), strict=True)
    for request, used, used_without in pairs:
        assert used.plain <= used_without.plain + request.added + TOLERANCE
    # Real ones read in steps, and nothing that is too short.
    real = zip(usages(OpenAiPrefixCache(wire), told), usages(OpenAiPrefixCache(wire), bare), strict=True)
    assert all(used.read >= used_without.read for used, used_without in real)


@pytest.mark.requirement("render:cost:law-of-a-prefix")
@of(Wire.GEMINI)
@A_SHARE
@given(steps=sessions(ends=()))
def test_where_every_request_is_answered_once_a_prefix_cache_reads_exactly_what_is_kept(
    route: Route, steps: list[Step]
) -> None:
    told, bare = run(route, steps, beside=JOINT), run(route, without_reminders(steps))
    wire = route.profile.wire
    pairs = zip(told, usages(ExactPrefixCache(wire), told), usages(ExactPrefixCache(wire), bare), strict=True)
    for request, used, used_without in pairs:
        assert used_without.read <= used.read <= used_without.read + request.carried + TOLERANCE


# A local server, which has computed its own replies too.

# Around a block of its own a template puts marks and a role.
FRAME: Final = len("\x02assistant\x03") / BYTES_PER_TOKEN


@pytest.mark.requirement("render:cost:law-of-a-prefix")
@paid_by(Payer.KV)
@pytest.mark.parametrize("rollback", [pytest.param(True, id="kv"), pytest.param(False, id="kv-without-rollback")])
@A_SHARE
@given(steps=sessions(ends=(End.RETRIED,)))
def test_a_local_server_computes_what_a_request_adds_once(
    route: Route,
    rollback: bool,  # noqa: FBT001 - a row
    steps: list[Step],
) -> None:
    told, bare = run(route, steps, beside=FRAME), run(route, without_reminders(steps))
    assert not any(request.passing for request in told)
    wire = route.profile.wire
    computed, computed_without = (usages(KvCache(wire, rollback=rollback), requests) for requests in (told, bare))
    for request, used, used_without in zip(told, computed, computed_without, strict=True):
        assert used.plain <= used_without.plain + request.added + TOLERANCE


@pytest.mark.requirement("render:cost:law-of-a-prefix")
@on(*(name for name, route in PLACED.items() if route.profile.wire is Wire.GENERIC and not route.profile.kv_prefix))
@A_SHARE
@given(steps=sessions())
def test_a_server_that_nothing_is_known_of_may_compute_its_last_reply_again(route: Route, steps: list[Step]) -> None:
    """What passes stood before that reply: where it is taken away, the reply is computed as part of the next request."""
    told, bare = run(route, steps, beside=FRAME), run(route, without_reminders(steps))
    wire = route.profile.wire
    replies = [_replied(wire, *pair) for pair in pairwise([*told[:1], *told])]
    pairs = zip(told, replies, usages(KvCache(wire), told), usages(KvCache(wire), bare), strict=True)
    for request, reply, used, used_without in pairs:
        assert used.plain <= used_without.plain + request.added + reply + TOLERANCE


def _replied(wire: Wire, before: Asked, now: Asked) -> float:
    """The tokens of what the model has said between two requests, where something had passed before that."""
    said = [
        [block.tokens + FRAME for block in blocks(wire, request.rendered.request.body) if block.role == "assistant"]
        for request in (before, now)
    ]
    return sum(said[1][len(said[0]) :]) if before.passing else 0.0


# What would be found.


def told_every_time(calls: int) -> list[Step]:
    return [
        step
        for number in range(6)
        for step in (
            Remind(f"Fact {number}.", 1, RoleHint.SYSTEM, None, IN_PROCESS, preserve=False),
            Ask(End.ANSWERED, "x" * 400, (("y" * 4_000, ToolStatus.OK),) * calls, native=False),
        )
    ]


@pytest.mark.requirement("render:cost:law", "render:cost:cache-traffic-is-unchanged")
@on("anthropic-tail", "chat-tail", "responses-tail")
def test_the_law_would_notice_reminders_in_front(route: Route) -> None:
    steps = told_every_time(12)
    in_front = run(route._replace(placement=Placement.SEED), steps)
    for one, other in zip(breakpoint_caches(route.profile.wire), breakpoint_caches(route.profile.wire), strict=True):
        dear, cheap = total(usages(one, in_front)), total(usages(other, run(route, steps)))
        assert dear.cost > 2 * cheap.cost
        assert dear.read < cheap.read


@pytest.mark.requirement("render:cost:law-of-a-prefix")
@on("gemini-tail", "gemini-leading-user-tail", "generic-tail", "generic-kv-tail", "chat-implicit-tail")
@pytest.mark.parametrize("cache", [OpenAiPrefixCache, KvCache])
def test_the_law_of_a_prefix_would_notice_them_too(route: Route, cache: type[OpenAiPrefixCache | KvCache]) -> None:
    steps = told_every_time(2)
    in_front = run(route._replace(placement=Placement.SEED), steps)
    dear, cheap = (total(usages(cache(route.profile.wire), found)) for found in (in_front, run(route, steps)))
    assert dear.plain > 2 * cheap.plain

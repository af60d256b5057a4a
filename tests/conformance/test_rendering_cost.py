"""What reminders cost: the tokens they are, and nothing for the place where they stand."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.ledger import Scope
from sideband.core.reminder import RoleHint
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.ports import ToolStatus
from sideband.render.profile import Placement, Wire
from sideband.render.renderer import Rendered
from tests.cache_oracle import (
    AnthropicCache,
    CacheOracle,
    OpenAiBreakpointCache,
    Reading,
    Usage,
    cost_of_fragments,
    total,
)
from tests.rendering_sessions import ROUTES, Ask, Clear, Compact, End, Remind, Route, Say, Step, play
from tests.sessions import CLIENT, PEER, SERVER

TOLERANCE: Final = 1e-9


# Where a finite reminder of the session's own side is never kept.
PASSING: Final = (
    "anthropic-tail",
    "anthropic-clearing-native",
    "anthropic-clearing-not-bound-native",
    "chat-tail",
    "chat-without-developer-tail",
    "responses-tail",
)
# Where all of them are kept, and withdrawn later.
LASTING: Final = ("anthropic-prefix-bound-tail", "chat-native", "responses-native")


def on(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", [pytest.param(ROUTES[name], id=name) for name in names])


def caches(wire: Wire) -> list[CacheOracle]:
    """Every cache that requests of this wire may be paid by."""
    if wire is Wire.ANTHROPIC:
        return [AnthropicCache(wire)]
    return [OpenAiBreakpointCache(wire, reading) for reading in Reading]


# Sessions. Every request is answered: what an unanswered one has written stands where nobody comes by again.

SIZES: Final = st.integers(1, 2_000)
TEXTS: Final = SIZES.map("x".__mul__)


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


def asks(least: int) -> st.SearchStrategy[Ask]:
    """A request whose answer makes so many calls at least."""
    return st.builds(
        Ask,
        end=st.sampled_from([End.ANSWERED, End.ANSWERED, End.RETRIED]),
        text=TEXTS,
        results=st.lists(st.tuples(TEXTS, st.just(ToolStatus.OK)), min_size=least, max_size=30).map(tuple),
        native=st.booleans(),
    )


SAYS: Final = st.builds(Say, st.lists(TEXTS, min_size=1, max_size=2).map(tuple))
CLEARS: Final = st.builds(Clear, st.sampled_from(["k1", "k2"]))
COMPACTS: Final = st.builds(Compact, keep=st.integers(0, 6), summary=st.just(""), parting=st.booleans())
REMINDS: Final = reminds(IN_PROCESS, CLIENT, PEER, SERVER, ttls=(None, 1, 2, 3, 5))
FLEETING: Final = reminds(IN_PROCESS, CLIENT, ttls=(1, 2, 3, 5))


def sessions(remind: st.SearchStrategy[Remind], *others: st.SearchStrategy[Step]) -> st.SearchStrategy[list[Step]]:
    """Somebody other than the model has the last word before each request."""
    asked_and_told = st.one_of(asks(1).map(_alone), st.tuples(asks(0), SAYS))
    told = st.one_of(*(step.map(_alone) for step in (remind, CLEARS, SAYS, *others)))
    groups = st.lists(st.one_of(asked_and_told, told, asked_and_told, remind.map(_alone)), max_size=20)
    return groups.map(lambda found: [step for group in found for step in group])


def _alone(step: Any) -> tuple[Step]:  # noqa: ANN401 - a step of any kind, which strategies of several do not say
    return (step,)


class Run(NamedTuple):
    """The requests of a session in the order in which they left, each with its window."""

    requests: list[tuple[int, Rendered]]

    def usages(self, cache: CacheOracle) -> list[Usage]:
        return [cache.ask(rendered.body) for _, rendered in self.requests]

    def law(self) -> float:
        """What its fragments should cost; what was kept is gone with its window."""
        windows = groupby(self.requests, key=lambda request: request[0])
        return sum(cost_of_fragments(rendered for _, rendered in requests) for _, requests in windows)


def run(route: Route, steps: Sequence[Step]) -> Run:
    """The requests of a session."""
    sent = play(route, [_told_apart(number, step) for number, step in enumerate(steps)])
    return Run([(one.view.window, rendered) for one in sent for rendered in (one.rendered, *one.repeats)])


def _told_apart(number: int, step: Step) -> Step:
    """A summary that no other is like: otherwise what was before could be found in the cache again."""
    return step._replace(summary=f"Summary {number}.") if isinstance(step, Compact) else step


def without_reminders(steps: Sequence[Step]) -> list[Step]:
    """The same session, numbered alike."""
    return [Clear("nobody") if isinstance(step, Remind) else step for step in steps]


@pytest.mark.requirement("render:cost:law")
@on(*PASSING, *LASTING)
@given(steps=sessions(REMINDS, COMPACTS))
def test_reminders_cost_their_tokens_and_nothing_else(route: Route, steps: list[Step]) -> None:
    told, bare = run(route, steps), run(route, without_reminders(steps))
    # Behind a summary that stands alone, a run without reminders has to say that it goes on.
    law = told.law() - bare.law()
    for one, other in zip(caches(route.profile.wire), caches(route.profile.wire), strict=True):
        cost = total(bare.usages(other)).cost
        assert total(told.usages(one)).cost - law == pytest.approx(cost, rel=TOLERANCE)


@pytest.mark.requirement("render:cost:cache-traffic-is-unchanged")
@on(*PASSING)
@given(steps=sessions(FLEETING))
def test_reminders_that_pass_change_nothing_that_is_read_or_written(route: Route, steps: list[Step]) -> None:
    told, bare = run(route, steps), run(route, without_reminders(steps))
    assert all(fragment.scope is not Scope.KEPT for _, rendered in told.requests for fragment in rendered.fragments)
    for one, other in zip(caches(route.profile.wire), caches(route.profile.wire), strict=True):
        assert traffic(told.usages(one)) == traffic(bare.usages(other))


def traffic(usages: Sequence[Usage]) -> list[tuple[float, float]]:
    return [(used.read, used.written) for used in usages]


@pytest.mark.requirement("render:cost:law", "render:cost:cache-traffic-is-unchanged")
@on("anthropic-tail", "chat-tail", "responses-tail")
def test_the_law_would_notice_reminders_in_front(route: Route) -> None:
    steps = [
        step
        for number in range(6)
        for step in (
            Remind(f"Fact {number}.", 1, RoleHint.SYSTEM, None, IN_PROCESS, preserve=False),
            Ask(End.ANSWERED, "x" * 400, (("y" * 4_000, ToolStatus.OK),) * 12, native=False),
        )
    ]
    in_front = run(route._replace(placement=Placement.SEED), steps)
    for one, other in zip(caches(route.profile.wire), caches(route.profile.wire), strict=True):
        dear, cheap = total(in_front.usages(one)), total(run(route, steps).usages(other))
        assert dear.cost > 2 * cheap.cost
        assert dear.read < cheap.read

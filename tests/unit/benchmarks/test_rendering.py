"""The trace that placements are priced on: what it costs is reckoned, not measured, so here it is asserted."""

from itertools import product
from typing import Final

import pytest

from benchmarks.chart import PICTURE, drawn
from benchmarks.placements import BYTES, EVERY, Load, priced, trace
from benchmarks.rendering import MAX_ERROR
from benchmarks.ways import ANTHROPIC, GROUPS, Group
from sideband.render.profiles import Wire
from tests.cache_oracle import blocks

# The input cost of a session with reminders of 60 tokens, beside the same without: by the turns each is shown in.
MAX_COST: Final = {1: 1.004, 2: 1.007, 3: 1.011, None: 1.015}
# Placements whose reminders stay in the prefix cost a little more.
KEPT: Final = ("tail, bound to the prefix", "native, kept")
MAX_KEPT_COST: Final = 1.018

# The placements that the law holds for.
OURS: Final[dict[str, Group]] = {
    group.name: group._replace(ways=[way for way in group.ways if way.lawful])
    for group in GROUPS
    if any(way.lawful for way in group.ways)
}


def test_every_part_of_the_trace_has_the_size_it_should() -> None:
    sent = trace(ANTHROPIC[0], Wire.ANTHROPIC, Load(60, 1, 12), calls=12, requests=4)
    found = [blocks(Wire.ANTHROPIC, rendered.request.body) for rendered in sent]
    tokens = [sum(block.tokens for block in request) for request in found]
    frame = len("<system-reminder>\n\n</system-reminder>") / BYTES
    assert tokens == [14_500, 15_700, 16_900 + 60 + frame, 18_100]
    assert [len(request) for request in found] == [3, 3 + 25, 3 + 50 + 1, 3 + 75]
    assert [len(rendered.shown) for rendered in sent] == [int(number % EVERY == 0) for number in range(1, 5)]


@pytest.mark.parametrize(
    ("name", "ttl", "calls"),
    [
        *product(["Anthropic"], MAX_COST, (1, 12)),
        *product(["OpenAI Chat"], MAX_COST, (12,)),
        *product(["OpenAI Responses"], (None,), (1, 12)),
    ],
    ids=str,
)
def test_reminders_cost_no_more_than_the_limit_and_what_the_law_predicts(
    name: str, ttl: int | None, calls: int
) -> None:
    prices = [*priced(OURS[name], Load(60, ttl, calls))]
    assert len(prices) == 3 if name == "Anthropic" else 6
    for price in prices:
        assert price.relative <= (MAX_KEPT_COST if price.way.name in KEPT else MAX_COST[ttl])
        assert price.error is not None
        assert price.error <= MAX_ERROR


def test_the_picture_in_the_documentation_shows_what_the_trace_costs() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn()

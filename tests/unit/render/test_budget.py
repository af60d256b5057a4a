"""The token budget of reminders, and the order in which they are admitted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.blocks import estimated_tokens
from sideband.core.live import LiveItem
from sideband.core.trust import Provenance, Trust
from sideband.render.budget import PATIENCE, Allowance, Candidate, admitted, allowance
from tests.builders import a_reminder


def an_asking(place: int = 0, *, tokens: int = 10, trust: Trust = Trust.OPERATOR, left_out: int = 0) -> Candidate:
    item = LiveItem(
        reminder=a_reminder(f"r{place}"), provenance=Provenance(trust=trust), place=place, left_out=left_out
    )
    return Candidate(item, tokens)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(None, Allowance(2_000, None), id="unknown-window"),
        pytest.param(1_000_000, Allowance(2_000, 100_000), id="large-window"),
        pytest.param(100_000, Allowance(2_000, 10_000), id="both-the-same"),
        pytest.param(99_999, Allowance(1_999, 9_999), id="a-share-is-rounded-down"),
        pytest.param(32_768, Allowance(655, 3_276), id="small-window"),
        pytest.param(8, Allowance(0, 0), id="no-room-at-all"),
    ],
)
def test_a_window_leaves_the_smaller_of_a_fixed_amount_and_a_share(window: int | None, expected: Allowance) -> None:
    assert allowance(window) == expected


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("a", 1, id="a-begun-token-counts"),
        pytest.param("abcd", 1, id="four-bytes"),
        pytest.param("abcde", 2, id="five-bytes"),
        pytest.param("é" * 4, 2, id="bytes-not-letters"),
        pytest.param("🦀", 1, id="four-bytes-in-one-letter"),
    ],
)
def test_tokens_are_estimated_from_the_bytes(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


@given(st.text(st.characters(codec="utf-8")))
def test_the_estimate_is_the_bytes_by_four_rounded_up(text: str) -> None:
    assert 4 * (estimated_tokens(text) - 1) < len(text.encode()) <= 4 * estimated_tokens(text)


@pytest.mark.parametrize(
    ("asking", "fit"),
    [
        pytest.param([], set(), id="no-candidates"),
        pytest.param([an_asking(0), an_asking(1)], {"r0", "r1"}, id="all-fit"),
        pytest.param([an_asking(0), an_asking(1), an_asking(2, tokens=11)], {"r0", "r1"}, id="the-older-first"),
        pytest.param(
            [an_asking(0, trust=Trust.SERVER, tokens=20), an_asking(1, tokens=11)], {"r1"}, id="the-more-trusted-first"
        ),
        pytest.param(
            [an_asking(0, tokens=20), an_asking(1, trust=Trust.SERVER, tokens=20, left_out=PATIENCE)],
            {"r1"},
            id="who-has-waited-before-the-more-trusted",
        ),
        pytest.param(
            [an_asking(0, tokens=20), an_asking(1, tokens=20, left_out=PATIENCE - 1)],
            {"r0"},
            id="who-has-not-waited-long-enough-does-not",
        ),
        pytest.param([an_asking(0, tokens=31), an_asking(1, tokens=1)], {"r0"}, id="the-first-fits-and-is-alone"),
        pytest.param(
            [an_asking(0, tokens=20), an_asking(1, tokens=31), an_asking(2, tokens=10)],
            {"r0", "r2"},
            id="a-smaller-later-one-fits",
        ),
        pytest.param(
            [an_asking(0), an_asking(1, tokens=25, left_out=PATIENCE), an_asking(2, tokens=30, left_out=PATIENCE)],
            {"r1"},
            id="only-the-first-of-those-who-waited-is-sure",
        ),
    ],
)
def test_a_budget_of_thirty_tokens_is_spent_in_order(asking: list[Candidate], fit: set[str]) -> None:
    assert admitted(asking, 30) == fit


askings = st.lists(
    st.builds(
        an_asking,
        tokens=st.integers(1, 50),
        trust=st.sampled_from([Trust.OPERATOR, Trust.CONTROLLER, Trust.PEER, Trust.SERVER]),
        left_out=st.integers(0, 5),
    ),
    max_size=8,
).map(
    lambda asking: [
        an_asking(place, tokens=one.tokens, trust=one.item.provenance.trust, left_out=one.item.left_out)
        for place, one in enumerate(asking)
    ]
)


@given(askings, st.integers(0, 100))
def test_the_admitted_reminders_fit_the_budget_or_there_is_one(asking: list[Candidate], tokens: int) -> None:
    fit = admitted(asking, tokens)
    spent = sum(size for item, size in asking if item.id in fit)
    assert spent <= tokens or len(fit) == 1


@given(askings, st.integers(0, 100))
def test_a_reminder_that_is_left_out_would_not_fit_with_the_admitted_ones(asking: list[Candidate], tokens: int) -> None:
    fit = admitted(asking, tokens)
    spent = sum(size for item, size in asking if item.id in fit)
    assert bool(fit) is bool(asking)
    assert all(spent + size > tokens for item, size in asking if item.id not in fit)


@given(askings, st.integers(0, 100))
def test_the_result_does_not_depend_on_the_order_of_candidates(asking: list[Candidate], tokens: int) -> None:
    assert admitted(asking[::-1], tokens) == admitted(asking, tokens)

"""The tables of trust are complete, and the laws of ceilings and grants hold for every draft."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.draft import Draft
from sideband.core.errors import InvalidOption
from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.trust import (
    CEILINGS,
    LEVELS,
    MODES,
    REACHES,
    ROLE_HINTS,
    UNLIMITED,
    Connection,
    Grant,
    GrantField,
    Provenance,
    Trust,
    ceiling_for,
    clamp,
)
from tests.builders import a_draft
from tests.sessions import PEER

drafts = st.builds(
    Draft,
    body=st.just("x"),
    role_hint=st.sampled_from(RoleHint),
    mode=st.sampled_from(Mode),
    propagate=st.sampled_from(Propagate),
    preserve_on_compact=st.booleans(),
    ttl_turns=st.none() | st.integers(1, 10),
)
VALUES: dict[GrantField, st.SearchStrategy[str | int | None]] = {
    GrantField.ROLE_HINT: st.sampled_from(RoleHint),
    GrantField.MODE: st.sampled_from(Mode),
    GrantField.PROPAGATE: st.sampled_from(Propagate),
    GrantField.PRESERVE_ON_COMPACT: st.booleans(),
    GrantField.TTL_TURNS: st.none() | st.integers(1, 10),
}
grants = st.sampled_from(GrantField).flatmap(
    lambda field: VALUES[field].map(
        lambda value: Grant(trust=Trust.PEER, principal="planner", field=field, value=value)
    )
)
senders = st.sampled_from(
    [Provenance(trust=level, principal="planner") for level in Trust if level is not Trust.CONTENT]
)


def rank(draft: Draft) -> tuple[float, ...]:
    """How much a draft asks for, field by field."""
    return (
        ROLE_HINTS.index(draft.role_hint),
        MODES.index(draft.mode),
        REACHES.index(draft.propagate),
        draft.preserve_on_compact,
        float("inf") if draft.ttl_turns is None else draft.ttl_turns,
    )


def test_every_connection_has_a_level_and_every_level_a_connection() -> None:
    assert LEVELS.keys() == set(Connection)
    assert set(LEVELS.values()) == set(Trust)


def test_every_level_that_may_inject_has_a_ceiling() -> None:
    assert CEILINGS.keys() == set(Trust) - {Trust.CONTENT}


def test_every_word_has_a_rank() -> None:
    assert set(ROLE_HINTS) == set(RoleHint)
    assert set(MODES) == set(Mode)
    assert set(REACHES) == set(Propagate)


@given(drafts, senders, st.lists(grants))
def test_clamping_only_lowers_and_says_what(draft: Draft, sender: Provenance, granted: list[Grant]) -> None:
    clamped, requested = clamp(draft, ceiling_for(sender, grants=granted))
    assert all(got <= asked for got, asked in zip(rank(clamped), rank(draft), strict=True))
    changed = {field for field in requested if getattr(clamped, field) != getattr(draft, field)}
    assert changed == requested.keys()
    assert {field: getattr(draft, field) for field in requested} == requested


@given(drafts, senders, st.lists(grants))
def test_what_was_clamped_is_not_clamped_again(draft: Draft, sender: Provenance, granted: list[Grant]) -> None:
    ceiling = ceiling_for(sender, grants=granted)
    clamped = clamp(draft, ceiling).draft
    assert clamp(clamped, ceiling) == (clamped, {})


@given(drafts, senders, st.lists(grants), grants)
def test_no_grant_takes_anything_away(draft: Draft, sender: Provenance, granted: list[Grant], another: Grant) -> None:
    before = clamp(draft, ceiling_for(sender, grants=granted)).draft
    after = clamp(draft, ceiling_for(sender, grants=[*granted, another])).draft
    assert all(more >= less for more, less in zip(rank(after), rank(before), strict=True))


@given(st.lists(grants))
def test_the_order_of_grants_does_not_matter(granted: list[Grant]) -> None:
    assert ceiling_for(PEER, grants=granted) == ceiling_for(PEER, grants=granted[::-1])


def test_everything_granted_is_no_ceiling_at_all() -> None:
    all_of_it = [
        Grant(trust=Trust.PEER, principal="planner", field=GrantField.ROLE_HINT, value="system"),
        Grant(trust=Trust.PEER, principal="planner", field=GrantField.MODE, value="interrupt_immediate"),
        Grant(trust=Trust.PEER, principal="planner", field=GrantField.PROPAGATE, value="all"),
        Grant(trust=Trust.PEER, principal="planner", field=GrantField.PRESERVE_ON_COMPACT, value=True),
        Grant(trust=Trust.PEER, principal="planner", field=GrantField.TTL_TURNS, value=None),
    ]
    assert ceiling_for(PEER, grants=all_of_it) == UNLIMITED


@pytest.mark.parametrize(
    ("now", "ttl"),
    [
        pytest.param(99, 9, id="in-force"),
        pytest.param(100, 3, id="ended"),
        pytest.param(None, 3, id="without-a-clock"),
    ],
)
def test_a_grant_that_ends_counts_until_then(now: int | None, ttl: int) -> None:
    grant = Grant(trust=Trust.PEER, principal="planner", field=GrantField.TTL_TURNS, value=9, until=100)
    assert clamp(a_draft(), ceiling_for(PEER, grants=[grant], now=now)).draft.ttl_turns == ttl


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(GrantField.ROLE_HINT, "root", id="unknown-role"),
        pytest.param(GrantField.ROLE_HINT, None, id="no-role"),
        pytest.param(GrantField.MODE, "steer", id="mode-of-a-message"),
        pytest.param(GrantField.PROPAGATE, "workspace", id="unknown-reach"),
        pytest.param(GrantField.PRESERVE_ON_COMPACT, 1, id="not-a-truth"),
        pytest.param(GrantField.TTL_TURNS, 0, id="ttl-too-small"),
        pytest.param(GrantField.TTL_TURNS, 1_000_001, id="ttl-too-large"),
        pytest.param(GrantField.TTL_TURNS, True, id="ttl-not-a-number"),
    ],
)
def test_what_no_reminder_can_ask_for_cannot_be_granted(field: GrantField, value: str | int | None) -> None:
    with pytest.raises(InvalidOption) as refused:
        Grant(trust=Trust.PEER, principal="planner", field=field, value=value)
    assert refused.value.value == value


def test_there_is_nothing_else_to_grant() -> None:
    with pytest.raises(InvalidOption, match="there is no 'body' to grant") as refused:
        Grant(trust=Trust.PEER, principal="planner", field="body", value="x")  # type: ignore[arg-type]  # an untyped caller
    assert refused.value.field == "field"

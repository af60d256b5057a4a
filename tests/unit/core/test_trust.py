"""Trust: the tables are complete, and the laws of ceilings and grants hold for every draft."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import accept
from sideband.core.apply import fold
from sideband.core.errors import InvalidOption
from sideband.core.events import QueuedReminder
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Draft, Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.state import SessionState
from sideband.core.trust import (
    CEILINGS,
    LEVELS,
    MODES,
    REACHES,
    ROLE_HINTS,
    UNLIMITED,
    Ceiling,
    Channel,
    Grant,
    GrantField,
    Provenance,
    Trust,
    TrustPolicy,
    advertised,
    ceiling_for,
    clamp,
)
from tests.builders import a_draft
from tests.sessions import PEER

HINTS = ("role_hint", "mode", "propagate", "preserve_on_compact", "ttl_turns")

drafts = st.builds(
    a_draft,
    role_hint=st.sampled_from(RoleHint),
    mode=st.sampled_from(Mode),
    propagate=st.sampled_from(Propagate),
    preserve_on_compact=st.booleans(),
    ttl_turns=st.none() | st.integers(1, 10),
)
grantable: dict[GrantField, st.SearchStrategy[Any]] = {
    GrantField.ROLE_HINT: st.sampled_from(RoleHint),
    GrantField.MODE: st.sampled_from(Mode),
    GrantField.PROPAGATE: st.sampled_from(Propagate),
    GrantField.PRESERVE_ON_COMPACT: st.booleans(),
    GrantField.TTL_TURNS: st.none() | st.integers(1, 10),
}
grants = st.one_of(
    *(
        st.builds(
            Grant,
            trust=st.sampled_from([Trust.PEER, Trust.SERVER]),
            principal=st.sampled_from(["ann", "bob"]),
            field=st.just(field),
            value=values,
        )
        for field, values in grantable.items()
    )
)
sources = st.builds(Provenance, trust=st.sampled_from(list(CEILINGS)), principal=st.just("ann"))
ceilings = st.builds(lambda source, granted: ceiling_for(source, grants=granted), sources, st.lists(grants, max_size=3))


def rank(draft: Draft) -> tuple[float, ...]:
    """How much a draft asks for, field by field."""
    return (
        ROLE_HINTS.index(draft.role_hint),
        MODES.index(draft.mode),
        REACHES.index(draft.propagate),
        draft.preserve_on_compact,
        float("inf") if draft.ttl_turns is None else draft.ttl_turns,
    )


def is_within(draft: Draft, ceiling: Ceiling) -> bool:
    return (
        draft.role_hint in ceiling.role_hints
        and draft.mode in ceiling.modes
        and draft.propagate in ceiling.propagate
        and (ceiling.may_preserve or not draft.preserve_on_compact)
        and (ceiling.max_ttl is None or (draft.ttl_turns is not None and draft.ttl_turns <= ceiling.max_ttl))
    )


def test_every_channel_has_a_level_and_every_level_a_channel() -> None:
    assert LEVELS.keys() == set(Channel)
    assert set(LEVELS.values()) == set(Trust)


def test_every_level_that_may_inject_has_a_ceiling() -> None:
    assert CEILINGS.keys() == set(Trust) - {Trust.CONTENT}


def test_every_word_has_a_rank() -> None:
    assert set(ROLE_HINTS) == set(RoleHint)
    assert set(MODES) == set(Mode)
    assert set(REACHES) == set(Propagate)


# Ceilings.


@given(drafts, ceilings)
def test_nothing_effective_is_above_the_ceiling(draft: Draft, ceiling: Ceiling) -> None:
    assert is_within(clamp(draft, ceiling).draft, ceiling)


@given(drafts, ceilings)
def test_clamping_twice_changes_nothing(draft: Draft, ceiling: Ceiling) -> None:
    once = clamp(draft, ceiling).draft
    assert clamp(once, ceiling) == (once, {})


@given(drafts, ceilings)
def test_a_draft_within_the_ceiling_is_unchanged(draft: Draft, ceiling: Ceiling) -> None:
    assert (clamp(draft, ceiling) == (draft, {})) == is_within(draft, ceiling)


@given(drafts, ceilings)
def test_clamping_only_lowers_a_draft_and_keeps_what_was_asked_for(draft: Draft, ceiling: Ceiling) -> None:
    effective, requested = clamp(draft, ceiling)
    assert all(got <= asked for got, asked in zip(rank(effective), rank(draft), strict=True))
    assert msgspec.structs.replace(effective, **requested) == draft
    assert all(getattr(effective, name) != asked for name, asked in requested.items())
    assert requested.keys() <= set(HINTS)


@given(drafts, ceilings)
def test_a_value_is_kept_exactly_if_it_is_advertised(draft: Draft, ceiling: Ceiling) -> None:
    offered = advertised(ceiling)
    effective = clamp(draft, ceiling).draft
    assert (effective.role_hint == draft.role_hint) == (draft.role_hint in offered.role_hints)
    assert (effective.mode == draft.mode) == (draft.mode in offered.modes)
    assert (effective.propagate == draft.propagate) == (draft.propagate in offered.propagate)


@given(drafts, sources)
def test_the_seed_policy_lifts_every_ceiling_on_hints(draft: Draft, source: Provenance) -> None:
    ceiling = ceiling_for(source, policy=TrustPolicy.SEED)
    assert ceiling == UNLIMITED
    assert clamp(draft, ceiling) == (draft, {})


@given(drafts, sources)
def test_an_accepted_reminder_is_clamped_to_the_ceiling_of_its_sender(draft: Draft, source: Provenance) -> None:
    events, accepted = accept(SessionState(), draft, source, new_id="r1", limits=DEFAULT_LIMITS)
    effective, requested = clamp(draft, CEILINGS[source.trust])
    item = fold(events).inbox.get("r1")
    assert isinstance(item, QueuedReminder)
    assert accepted.requested == item.provenance.requested == requested
    assert (item.mode, item.reminder.ttl_turns) == (effective.mode, effective.ttl_turns)
    assert item.provenance.trust is source.trust


# Grants.


@given(drafts, sources, st.lists(grants, max_size=3), grants)
def test_one_more_grant_takes_nothing_away(
    draft: Draft, source: Provenance, granted: list[Grant], one_more: Grant
) -> None:
    before = clamp(draft, ceiling_for(source, grants=granted)).draft
    after = clamp(draft, ceiling_for(source, grants=[*granted, one_more])).draft
    assert all(more >= less for more, less in zip(rank(after), rank(before), strict=True))


@given(sources, st.lists(grants))
def test_the_order_of_grants_does_not_matter(source: Provenance, granted: list[Grant]) -> None:
    assert ceiling_for(source, grants=granted) == ceiling_for(source, grants=granted[::-1])


@given(sources, grants.filter(lambda grant: grant.principal != "ann"))
def test_a_grant_to_another_changes_nothing(source: Provenance, grant: Grant) -> None:
    assert ceiling_for(source, grants=[grant]) == CEILINGS[source.trust]


def test_granting_every_field_lifts_the_ceiling() -> None:
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
def test_a_grant_with_an_end_counts_until_then(now: int | None, ttl: int) -> None:
    grant = Grant(trust=Trust.PEER, principal="planner", field=GrantField.TTL_TURNS, value=9, until=100)
    assert clamp(a_draft(), ceiling_for(PEER, grants=[grant], now=now)).draft.ttl_turns == ttl


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(GrantField.ROLE_HINT, "root", id="unknown-role"),
        pytest.param(GrantField.ROLE_HINT, None, id="no-role"),
        pytest.param(GrantField.MODE, "steer", id="mode-of-a-message"),
        pytest.param(GrantField.PROPAGATE, "workspace", id="unknown-reach"),
        pytest.param(GrantField.PRESERVE_ON_COMPACT, 1, id="not-a-boolean"),
        pytest.param(GrantField.TTL_TURNS, 0, id="ttl-too-small"),
        pytest.param(GrantField.TTL_TURNS, 1_000_001, id="ttl-too-large"),
        pytest.param(GrantField.TTL_TURNS, True, id="ttl-not-a-number"),
    ],
)
def test_an_invalid_value_cannot_be_granted(field: GrantField, value: str | int | None) -> None:
    with pytest.raises(InvalidOption) as refused:
        Grant(trust=Trust.PEER, principal="planner", field=field, value=value)
    assert refused.value.value == value


def test_only_the_grantable_fields_can_be_granted() -> None:
    with pytest.raises(InvalidOption, match=r"field must be one of .*, not 'body'") as refused:
        Grant(trust=Trust.PEER, principal="planner", field="body", value="x")  # type: ignore[arg-type]  # an untyped caller
    assert refused.value.field == "field"

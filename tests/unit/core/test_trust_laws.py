"""What a source gets is never more than it may have, never less than it need be, and told where it differs."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.draft import Draft
from sideband.core.inbox import accept
from sideband.core.items import QueuedReminder
from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.state import SessionState, fold
from sideband.core.trust import (
    CEILINGS,
    UNLIMITED,
    Ceiling,
    Grant,
    GrantField,
    Provenance,
    TrustPolicy,
    advertised,
    ceiling_for,
    clamp,
)
from tests.builders import a_draft

HINTS = ("role_hint", "mode", "propagate", "preserve_on_compact", "ttl_turns")

drafts = st.builds(
    a_draft,
    role_hint=st.sampled_from(RoleHint),
    mode=st.sampled_from(Mode),
    propagate=st.sampled_from(Propagate),
    preserve_on_compact=st.booleans(),
    ttl_turns=st.none() | st.integers(1, 6),
)
grantable: dict[GrantField, st.SearchStrategy[Any]] = {
    GrantField.ROLE_HINT: st.sampled_from(RoleHint),
    GrantField.MODE: st.sampled_from(Mode),
    GrantField.PROPAGATE: st.sampled_from(Propagate),
    GrantField.PRESERVE_ON_COMPACT: st.booleans(),
    GrantField.TTL_TURNS: st.none() | st.integers(1, 6),
}
grants = st.one_of(
    *(
        st.builds(Grant, principal=st.sampled_from(["ann", "bob"]), field=st.just(field), value=values)
        for field, values in grantable.items()
    )
)
levels = st.sampled_from(list(CEILINGS))
sources = st.builds(Provenance, trust=levels, principal=st.just("ann"))
ceilings = st.builds(lambda source, granted: ceiling_for(source, grants=granted), sources, st.lists(grants, max_size=3))


def is_within(draft: Draft, ceiling: Ceiling) -> bool:
    return (
        draft.role_hint in ceiling.role_hints
        and draft.mode in ceiling.modes
        and draft.propagate in ceiling.propagate
        and (ceiling.may_preserve or not draft.preserve_on_compact)
        and (ceiling.max_ttl is None or (draft.ttl_turns is not None and draft.ttl_turns <= ceiling.max_ttl))
    )


@given(drafts, ceilings)
def test_nothing_effective_is_above_the_ceiling(draft: Draft, ceiling: Ceiling) -> None:
    assert is_within(clamp(draft, ceiling).draft, ceiling)


@given(drafts, ceilings)
def test_clamping_twice_changes_nothing(draft: Draft, ceiling: Ceiling) -> None:
    once = clamp(draft, ceiling).draft
    assert clamp(once, ceiling) == (once, {})


@given(drafts, ceilings)
def test_what_is_within_the_ceiling_stays_as_it_is(draft: Draft, ceiling: Ceiling) -> None:
    assert (clamp(draft, ceiling) == (draft, {})) == is_within(draft, ceiling)


@given(drafts, ceilings)
def test_what_was_asked_for_is_kept_wherever_it_was_lowered(draft: Draft, ceiling: Ceiling) -> None:
    effective, requested = clamp(draft, ceiling)
    assert msgspec.structs.replace(effective, **requested) == draft
    assert all(getattr(effective, name) != asked for name, asked in requested.items())
    assert requested.keys() <= set(HINTS)


@given(drafts, ceilings)
def test_a_caller_gets_each_word_it_is_offered(draft: Draft, ceiling: Ceiling) -> None:
    offered = advertised(ceiling)
    effective = clamp(draft, ceiling).draft
    assert (effective.role_hint == draft.role_hint) == (draft.role_hint in offered.role_hints)
    assert (effective.mode == draft.mode) == (draft.mode in offered.modes)
    assert (effective.propagate == draft.propagate) == (draft.propagate in offered.propagate)


@given(drafts, sources, st.lists(grants, max_size=3), grants)
def test_one_more_grant_takes_nothing_away(
    draft: Draft, source: Provenance, granted: list[Grant], one_more: Grant
) -> None:
    before = ceiling_for(source, grants=granted)
    after = ceiling_for(source, grants=[*granted, one_more])
    assert not is_within(draft, before) or is_within(draft, after)


@given(sources, grants.filter(lambda grant: grant.principal != "ann"))
def test_a_grant_to_another_changes_nothing(source: Provenance, grant: Grant) -> None:
    assert ceiling_for(source, grants=[grant]) == CEILINGS[source.trust]


@given(drafts, sources)
def test_the_policy_of_the_documents_lifts_every_ceiling_on_hints(draft: Draft, source: Provenance) -> None:
    ceiling = ceiling_for(source, policy=TrustPolicy.SEED)
    assert ceiling == UNLIMITED
    assert clamp(draft, ceiling) == (draft, {})


@given(drafts, sources)
def test_what_is_accepted_is_what_the_level_allows(draft: Draft, source: Provenance) -> None:
    accepted = accept(SessionState().inbox, draft, source, new_id="r1")
    effective, requested = clamp(draft, CEILINGS[source.trust])
    item = fold(accepted.events).inbox.get("r1")
    assert isinstance(item, QueuedReminder)
    assert accepted.requested == item.provenance.requested == requested
    assert (item.mode, item.reminder.ttl_turns) == (effective.mode, effective.ttl_turns)
    assert item.provenance.trust is source.trust

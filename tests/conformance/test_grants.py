"""What an operator may raise for one source, and what each source is told of it."""

from typing import Any, Final

import pytest

from sideband.core.accept import issue_grant
from sideband.core.apply import fold
from sideband.core.errors import BodyTooLarge, NotPermitted, TooManyPending
from sideband.core.events import Granted, QueuedReminder
from sideband.core.reminder import Draft, Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.state import SessionState
from sideband.core.trust import (
    IN_PROCESS,
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
from tests.sessions import CLIENT, PEER, SERVER, Session

OTHER_PEER: Final = Provenance(trust=Trust.PEER, principal="reviewer", via="a2a")
# Every hint at its most demanding.
GREEDY: Final[dict[str, Any]] = {
    "role_hint": RoleHint.SYSTEM,
    "mode": Mode.INTERRUPT_IMMEDIATE,
    "propagate": Propagate.ALL,
    "preserve_on_compact": True,
    "ttl_turns": 100,
}


def hints(draft: Draft) -> dict[str, Any]:
    return {field: getattr(draft, field) for field in GREEDY}


@pytest.mark.requirement("trust:grant:raises-one-field-of-one-source")
@pytest.mark.parametrize(
    ("field", "value", "asked", "got"),
    [
        pytest.param(GrantField.ROLE_HINT, "system", RoleHint.SYSTEM, RoleHint.SYSTEM, id="role-as-granted"),
        pytest.param(GrantField.ROLE_HINT, "system", RoleHint.DEVELOPER, RoleHint.DEVELOPER, id="role-below"),
        pytest.param(GrantField.ROLE_HINT, "developer", RoleHint.SYSTEM, RoleHint.DEVELOPER, id="role-above"),
        pytest.param(
            GrantField.MODE, "interrupt_immediate", Mode.INTERRUPT_IMMEDIATE, Mode.INTERRUPT_IMMEDIATE, id="mode"
        ),
        pytest.param(GrantField.MODE, "audit_only", Mode.FINISH_STEP, Mode.FINISH_STEP, id="mode-never-less"),
        pytest.param(GrantField.PROPAGATE, "session", Propagate.SESSION, Propagate.SESSION, id="reach-as-granted"),
        pytest.param(GrantField.PROPAGATE, "all", Propagate.SESSION, Propagate.SESSION, id="reach-below"),
        pytest.param(GrantField.PROPAGATE, "session", Propagate.ALL, Propagate.SESSION, id="reach-above"),
        pytest.param(GrantField.PROPAGATE, "all", Propagate.NONE, Propagate.NONE, id="reach-far-below"),
        pytest.param(GrantField.PRESERVE_ON_COMPACT, True, True, True, id="preserve"),
        pytest.param(GrantField.PRESERVE_ON_COMPACT, False, True, False, id="preserve-not-granted"),
        pytest.param(GrantField.TTL_TURNS, 10, 100, 10, id="ttl-above"),
        pytest.param(GrantField.TTL_TURNS, 10, None, 10, id="ttl-still-required"),
        pytest.param(GrantField.TTL_TURNS, None, None, None, id="ttl-none-at-all"),
        pytest.param(GrantField.TTL_TURNS, 1, 100, 3, id="ttl-never-less"),
    ],
)
def test_a_grant_raises_one_ceiling_of_one_source(field: GrantField, value: Any, asked: object, got: object) -> None:  # noqa: ANN401 - any kind of hint
    draft = a_draft(**{**GREEDY, field.value: asked})
    grants = [Grant(trust=Trust.PEER, principal="planner", field=field, value=value)]
    base = hints(clamp(draft, ceiling_for(PEER)).draft)
    assert hints(clamp(draft, ceiling_for(PEER, grants=grants)).draft) == {**base, field.value: got}
    assert ceiling_for(OTHER_PEER, grants=grants) == ceiling_for(OTHER_PEER)


@pytest.mark.requirement("trust:grant:raises-one-field-of-one-source")
def test_a_granted_ceiling_is_what_the_next_reminder_gets() -> None:
    session = Session()
    session.grant(Grant(trust=Trust.PEER, principal="planner", field=GrantField.PROPAGATE, value="session"))
    session.accept(a_draft(**GREEDY), PEER)
    (item,) = session.state.inbox.items()
    assert isinstance(item, QueuedReminder)
    assert item.reminder.propagate is Propagate.SESSION
    assert item.provenance.requested["propagate"] is Propagate.ALL


@pytest.mark.requirement("trust:grant:only-the-operator")
@pytest.mark.parametrize("actor", [CLIENT, PEER, SERVER], ids=["controller", "peer", "server"])
def test_nobody_but_the_operator_may_grant(actor: Provenance) -> None:
    grant = Grant(trust=Trust.PEER, principal="planner", field=GrantField.MODE, value="interrupt_immediate")
    with pytest.raises(NotPermitted) as refused:
        issue_grant(SessionState(), grant, actor)
    assert refused.value.reason == "not_permitted"


@pytest.mark.requirement("trust:grant:is-logged")
def test_each_grant_is_an_event_that_folding_keeps() -> None:
    grant = Grant(trust=Trust.PEER, principal="planner", field=GrantField.TTL_TURNS, value=9, until=100)
    events = issue_grant(SessionState(), grant, IN_PROCESS).events
    assert events == (Granted(grant=grant),)
    assert fold(events).grants == [grant]


@pytest.mark.requirement("trust:grant:trust-seed")
@pytest.mark.parametrize("sender", [PEER, SERVER], ids=["peer", "server"])
def test_with_trust_seed_no_hint_is_clamped(sender: Provenance) -> None:
    lifted = ceiling_for(sender, policy=TrustPolicy("seed"))
    for asked in (GREEDY, {**GREEDY, "ttl_turns": None}):
        assert hints(clamp(a_draft(**asked), lifted).draft) == asked


@pytest.mark.requirement("trust:grant:trust-seed")
def test_trust_seed_lifts_neither_size_nor_number_nor_rate() -> None:
    session, lifted = Session(), TrustPolicy.SEED
    with pytest.raises(BodyTooLarge):
        session.accept(a_draft(body="x" * 1025), SERVER, policy=lifted)
    for _ in range(4):
        session.accept(a_draft(), SERVER, policy=lifted)
    with pytest.raises(TooManyPending):
        session.accept(a_draft(), SERVER, policy=lifted)


@pytest.mark.requirement("trust:advertised:what-the-caller-would-get")
@pytest.mark.parametrize("caller", [IN_PROCESS, CLIENT, PEER, SERVER], ids=["operator", "controller", "peer", "server"])
@pytest.mark.parametrize(
    "grants",
    [
        pytest.param((), id="nothing-granted"),
        pytest.param(
            (Grant(trust=Trust.PEER, principal="planner", field=GrantField.PROPAGATE, value="all"),), id="reach-granted"
        ),
        pytest.param(
            (Grant(trust=Trust.SERVER, principal="watcher", field=GrantField.ROLE_HINT, value="developer"),),
            id="role-granted",
        ),
    ],
)
def test_a_caller_is_told_of_exactly_the_words_it_would_be_left(caller: Provenance, grants: tuple[Grant, ...]) -> None:
    ceiling = ceiling_for(caller, grants=grants)

    def survives(**hint: object) -> bool:
        (field,) = hint
        return field not in clamp(a_draft(**hint), ceiling).requested

    told = advertised(ceiling)
    assert told.role_hints == tuple(hint for hint in RoleHint if survives(role_hint=hint))
    assert told.modes == tuple(mode for mode in Mode if survives(mode=mode))
    assert told.propagate == tuple(reach for reach in Propagate if survives(propagate=reach))

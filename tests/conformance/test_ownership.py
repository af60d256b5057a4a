"""Whose a reminder is: namespaces of keys, who may end what, and what a sub-agent inherits."""

from typing import Final

import msgspec
import pytest

from sideband.core.accept import RevokeStatus, Selector
from sideband.core.errors import AlreadyDelivered, RateLimited, ReminderError, UnknownReminder, UnknownSession
from sideband.core.events import Deduped, DropReason
from sideband.core.limits import Limits
from sideband.core.propagation import Handed, seed_child
from sideband.core.seams import Mode, Seam
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import a_draft, a_reminder
from tests.sessions import CLIENT, PEER, SERVER, Session

HOOK: Final = Provenance(provider_id="read_file")
OTHER_PEER: Final = Provenance(trust=Trust.PEER, principal="reviewer", via="a2a")
OTHER_SERVER: Final = Provenance(trust=Trust.SERVER, principal="builder", via="mcp")
FOREIGN: Final = [PEER, OTHER_PEER, SERVER, OTHER_SERVER]
EVERYBODY: Final = [IN_PROCESS, CLIENT, *FOREIGN]
OWN_SIDE: Final = [IN_PROCESS, HOOK, CLIENT]
SELECTORS: Final = [Selector(id="id-1"), Selector(tag="t"), Selector(dedupe_key="k")]


def of(provenance: Provenance) -> str:
    return provenance.principal or provenance.provider_id or "this process"


@pytest.mark.requirement("trust:namespace:own-is-shared")
@pytest.mark.parametrize("older", OWN_SIDE, ids=of)
@pytest.mark.parametrize("newer", OWN_SIDE, ids=of)
def test_the_newest_wins_across_code_hooks_and_clients(older: Provenance, newer: Provenance) -> None:
    waiting = Session()
    waiting.accept(a_draft(dedupe_key="k"), older)
    assert waiting.accept(a_draft(dedupe_key="k"), newer).deduped_count == 1
    assert waiting.queued_ids == ["id-2"]
    live = Session()
    live.inject(a_reminder("old", dedupe_key="k"), older)
    live.inject(a_reminder("new", dedupe_key="k"), newer)
    assert live.live_ids == ["new"]
    assert older.namespace == newer.namespace == "own"


@pytest.mark.requirement("trust:namespace:one-for-each-principal")
def test_each_peer_and_each_server_has_a_namespace_of_its_own() -> None:
    namesakes = [
        Provenance(trust=Trust.PEER, principal="own"),
        Provenance(trust=Trust.SERVER, principal="own"),
        Provenance(trust=Trust.SERVER, principal="planner"),
    ]
    everybody = [IN_PROCESS, *FOREIGN, *namesakes]
    assert len({sender.namespace for sender in everybody}) == len(everybody)


@pytest.mark.requirement("trust:namespace:survives-reconnects")
def test_a_principal_finds_its_own_again_after_it_reconnects() -> None:
    session = Session()
    reminder_id = session.accept(a_draft(dedupe_key="k"), PEER).reminder_id
    again = Provenance(trust=Trust.PEER, principal="planner", via="http")
    assert session.accept(a_draft(dedupe_key="k"), again).deduped_count == 1
    assert reminder_id not in session.queued_ids
    assert session.revoke(session.queued_ids[0], again) is RevokeStatus.REVOKED


@pytest.mark.requirement("trust:namespace:dedupe-never-crosses")
@pytest.mark.parametrize("older", EVERYBODY, ids=of)
@pytest.mark.parametrize("newer", EVERYBODY, ids=of)
def test_a_key_displaces_nothing_in_another_namespace(older: Provenance, newer: Provenance) -> None:
    same = older.namespace == newer.namespace
    session = Session()
    first = session.accept(a_draft(dedupe_key="k"), older).reminder_id
    session.drain()
    session.accept(a_draft(dedupe_key="k"), older)
    answer = session.accept(a_draft(dedupe_key="k"), newer)
    assert answer.deduped_count == (1 if same else 0)
    replaced = [event.replaced_id for event in session.drain().events if isinstance(event, Deduped)]
    # The second reminder of the older source replaces its first, even if another source uses the same key.
    assert replaced == [first]
    assert len(session.live_ids) == (1 if same else 2)


@pytest.mark.requirement("trust:namespace:dedupe-never-crosses")
@pytest.mark.parametrize("sender", FOREIGN, ids=of)
def test_an_id_that_is_live_cannot_be_taken_by_anybody_else(sender: Provenance) -> None:
    session = Session()
    session.inject(a_reminder("policy", body="Never push to main."))
    with pytest.raises(ReminderError) as refused:
        session.accept(a_draft(caller_id="policy"), sender)
    assert refused.value.reason == "idempotency_conflict"
    session.drain()
    assert [item.reminder.body for item in session.state.live] == ["Never push to main."]


# Ownership.


@pytest.mark.requirement("trust:owner:own-may-end-anything")
@pytest.mark.parametrize("owner", EVERYBODY, ids=of)
@pytest.mark.parametrize("actor", OWN_SIDE, ids=of)
def test_the_sessions_own_side_may_revoke_and_clear_anything(owner: Provenance, actor: Provenance) -> None:
    session = Session()
    session.accept(a_draft(tags=("t",)), owner)
    session.drain()
    assert len(session.clear(Selector(tag="t"), actor)) == 1
    assert session.live_ids == []
    assert session.revoke(session.accept(a_draft(), owner).reminder_id, actor) is RevokeStatus.REVOKED


@pytest.mark.requirement("trust:owner:others-only-theirs")
@pytest.mark.parametrize("owner", FOREIGN, ids=of)
@pytest.mark.parametrize("selector", SELECTORS, ids=["id", "tag", "key"])
def test_a_peer_or_server_may_revoke_and_clear_what_is_its_own(owner: Provenance, selector: Selector) -> None:
    session = Session()
    session.accept(a_draft(tags=("t",), dedupe_key="k"), owner)
    session.drain()
    assert len(session.clear(selector, owner)) == 1
    assert session.revoke(session.accept(a_draft(), owner).reminder_id, owner) is RevokeStatus.REVOKED


@pytest.mark.requirement("trust:owner:others-only-theirs")
@pytest.mark.parametrize("owner", EVERYBODY, ids=of)
@pytest.mark.parametrize("selector", SELECTORS, ids=["id", "tag", "key"])
def test_a_peer_or_server_can_end_nothing_that_is_not_its_own(owner: Provenance, selector: Selector) -> None:
    session = Session()
    live = session.accept(a_draft(tags=("t",), dedupe_key="k"), owner).reminder_id
    session.drain()
    waiting = session.accept(a_draft(), owner).reminder_id
    for actor in FOREIGN:
        if actor is not owner:
            assert session.clear(selector, actor) == ()
            with pytest.raises(UnknownReminder):
                session.revoke(waiting, actor)
    assert (session.live_ids, session.queued_ids) == ([live], [waiting])


@pytest.mark.requirement("trust:owner:foreign-is-unknown")
@pytest.mark.parametrize("actor", FOREIGN, ids=of)
def test_what_is_not_theirs_is_answered_as_if_it_did_not_exist(actor: Provenance) -> None:
    session = Session()
    waiting, revoked, delivered = (
        session.accept(a_draft(mode=mode)).reminder_id
        for mode in (Mode.FINISH_STEP, Mode.AUDIT_ONLY, Mode.INTERRUPT_IMMEDIATE)
    )
    session.revoke(revoked)
    session.drain(Seam.PRE_TOOL_DISPATCH)
    with pytest.raises(AlreadyDelivered):
        session.revoke(delivered)
    answers = []
    for reminder_id in (waiting, revoked, delivered, "never-there"):
        with pytest.raises(UnknownReminder) as refused:
            session.revoke(reminder_id, actor)
        answers.append(str(refused.value).replace(reminder_id, "…"))
    assert len(set(answers)) == 1


# The order of the checks.

FULL: Final = Limits(pending_per_source={Trust.PEER: 0})


def belong_to_another_peer(session: Session) -> None:
    session.record(owner="reviewer")


def finish(session: Session) -> None:
    session.close(DropReason.TASK_FINISHED)


def nothing(_session: Session) -> None:
    pass


@pytest.mark.requirement("trust:checks:in-one-order")
@pytest.mark.parametrize(
    ("passed", "reason"),
    [
        (0, "unknown_session"),
        (1, "idempotency_conflict"),
        (2, "task_finished"),
        (3, "rate_limited"),
        (4, "too_many_pending"),
    ],
)
def test_the_first_check_that_fails_names_the_reason(passed: int, reason: str) -> None:
    """The request fails every check but the first `passed` ones."""
    session = Session()
    session.accept(a_draft(caller_id="mine"), PEER)
    session.revoke("mine", PEER)
    (belong_to_another_peer if passed < 1 else nothing)(session)
    (finish if passed < 3 else nothing)(session)
    with pytest.raises(ReminderError) as refused:
        session.accept(
            a_draft(body="another payload", caller_id="mine" if passed < 2 else None),
            PEER,
            rate=RateLimited(retry_after_ms=1) if passed < 4 else None,
            limits=FULL,
        )
    assert refused.value.reason == reason


@pytest.mark.requirement("trust:checks:repeat-comes-early")
def test_a_repeat_gets_its_reply_whatever_has_changed_except_for_a_stranger() -> None:
    session = Session()
    first = session.accept(a_draft(caller_id="mine"), PEER, now=5)
    assert not first.is_free
    finish(session)
    rate = RateLimited(retry_after_ms=1)
    again = session.accept(a_draft(caller_id="mine"), PEER, now=6, rate=rate, limits=FULL)
    assert again == msgspec.structs.replace(first, is_free=True)
    session = Session()
    session.accept(a_draft(caller_id="mine"), PEER)
    belong_to_another_peer(session)
    with pytest.raises(UnknownSession):
        session.accept(a_draft(caller_id="mine"), PEER)


@pytest.mark.requirement("trust:inherited:keeps-the-lower-level")
@pytest.mark.parametrize("origin", [Trust.OPERATOR, Trust.CONTROLLER, Trust.PEER, Trust.SERVER])
@pytest.mark.parametrize("hop", [Trust.OPERATOR, Trust.CONTROLLER, Trust.PEER, Trust.SERVER])
def test_an_inherited_copy_has_the_lower_level_of_origin_and_hop(origin: Trust, hop: Trust) -> None:
    child = Session()
    handed = Handed(reminder=a_reminder(), provenance=Provenance(trust=origin, principal="someone"))
    child.decide(seed_child(child.state, [handed], sub_agent_id="helper", hop=hop))
    (copy,) = child.state.live
    # A lower level has a higher number.
    assert copy.provenance.trust == max(origin.value, hop.value)

"""What is promised of every accepted item: where it may go, that it ends once, and that the journal knows it all."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import RevokeStatus, Selector
from sideband.core.apply import fold
from sideband.core.effects import read_effects
from sideband.core.errors import AlreadyDelivered, IdempotencyConflict, TooManyPending, UnknownSession
from sideband.core.events import (
    AuditRecorded,
    Checkpoint,
    Closed,
    Deduped,
    Dropped,
    DropReason,
    Event,
    Expired,
    ExpiryReason,
    Inherited,
    Injected,
    Queued,
    Revoked,
)
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.propagation import propagate, seed_child
from sideband.core.reminder import ReminderId, Source, mint
from sideband.core.seams import DRAINS, InjectMode, Mode, Seam
from sideband.core.state import SessionState
from sideband.core.surfaces import Surface
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import a_draft, a_reminder
from tests.sessions import CLIENT, Session

PEER = Provenance(trust=Trust.PEER, principal="coordinator", via="a2a")
OTHER_CLIENT = Provenance(trust=Trust.CONTROLLER, principal="terminal", via="acp")


# Where a queued item may go.


def turned_away(item_id: str) -> list[Event]:
    """A reminder of this id is refused where the sender reads no reply."""
    return [Dropped(reminder_id=item_id, reason=DropReason.INVALID, at_the_door=True)]


@pytest.mark.requirement("promises:state:queued-moves")
@pytest.mark.parametrize(
    ("mode", "move", "event"),
    [
        pytest.param(Mode.FINISH_STEP, lambda session, _: session.drain(), Injected, id="drained"),
        pytest.param(
            Mode.FINISH_STEP, lambda session, _: session.accept(a_draft(dedupe_key="k")), Deduped, id="deduped"
        ),
        pytest.param(Mode.FINISH_STEP, lambda session, item: session.revoke(item), Revoked, id="revoked"),
        pytest.param(Mode.FINISH_STEP, lambda session, item: session.clear(Selector(id=item)), Expired, id="cleared"),
        pytest.param(Mode.FINISH_STEP, lambda session, _: session.close(), Dropped, id="dropped"),
        pytest.param(
            Mode.AUDIT_ONLY, lambda session, _: session.drain(Seam.LOOP_EXIT), AuditRecorded, id="audit-recorded"
        ),
    ],
)
def test_a_queued_item_leaves_the_inbox_by_one_of_six_events(
    mode: Mode, move: Callable[[Session, str], object], event: type[Event]
) -> None:
    session = Session()
    item = session.accept(a_draft(dedupe_key="k", mode=mode)).reminder_id
    move(session, item)
    assert item not in session.queued_ids
    assert len([found for found in session.journal if isinstance(found, event)]) == 1


@pytest.mark.requirement("promises:state:queued-moves")
@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param(lambda session, _: session.turn(), id="a-turn"),
        pytest.param(lambda session, _: session.compact(), id="a-compaction"),
        pytest.param(lambda session, item: session.replace_reminder(item, "The build is green."), id="replacing"),
        pytest.param(lambda session, _: session.clear(Selector(tag="other")), id="clearing-others"),
        pytest.param(lambda session, item: session.commit(turned_away(item)), id="refusing-another-of-its-id"),
        pytest.param(
            lambda session, _: session.inject(a_reminder("live", dedupe_key="k")), id="injecting-one-of-its-key"
        ),
    ],
)
def test_nothing_else_moves_a_queued_item(elsewhere: Callable[[Session, str], object]) -> None:
    session = Session()
    item = session.accept(a_draft(dedupe_key="k", ttl_turns=1)).reminder_id
    elsewhere(session, item)
    assert session.queued_ids == [item]


@pytest.mark.requirement("promises:state:queued-moves")
@pytest.mark.parametrize("mode", Mode)
def test_a_seam_moves_only_the_modes_it_drains(mode: Mode) -> None:
    for seam in Seam:
        session = Session()
        item = session.accept(a_draft(mode=mode)).reminder_id
        session.drain(seam)
        assert session.queued_ids == ([] if mode in DRAINS[seam] else [item])


# Where a drained item may go.


@pytest.mark.requirement("promises:state:drained-moves")
@pytest.mark.parametrize(
    ("move", "end"),
    [
        pytest.param(
            lambda session, _: [session.turn(), session.turn()],
            lambda item: Expired(reminder_id=item, reason=ExpiryReason.TTL, turn=2, dedupe_key="k", provenance=CLIENT),
            id="expired",
        ),
        pytest.param(
            lambda session, item: session.clear(Selector(id=item)),
            lambda item: Expired(
                reminder_id=item, reason=ExpiryReason.CLEARED, turn=0, dedupe_key="k", provenance=CLIENT
            ),
            id="cleared",
        ),
        pytest.param(
            lambda session, _: session.inject(a_reminder("newer", dedupe_key="k")),
            lambda item: Deduped(replaced_id=item, replacing_id="newer", dedupe_key="k", provenance=IN_PROCESS),
            id="deduped",
        ),
        pytest.param(
            lambda session, item: session.drop(item, DropReason.CAPABILITY_MISMATCH),
            lambda item: Dropped(reminder_id=item, reason=DropReason.CAPABILITY_MISMATCH),
            id="dropped",
        ),
    ],
)
def test_a_drained_item_ends_by_one_of_these_events(
    move: Callable[[Session, str], object], end: Callable[[str], Event]
) -> None:
    session = Session()
    item = session.accept(a_draft(dedupe_key="k", ttl_turns=2)).reminder_id
    session.drain()
    move(session, item)
    assert item not in session.live_ids
    assert session.journal.count(end(item)) == 1


@pytest.mark.requirement("promises:state:drained-moves")
def test_a_drained_item_may_be_compacted_out() -> None:
    session = Session()
    item = session.accept(a_draft()).reminder_id
    session.drain()
    session.compact()
    (end,) = (event for event in session.journal if isinstance(event, Expired))
    assert (end.reminder_id, end.reason) == (item, ExpiryReason.COMPACTION)


@pytest.mark.requirement("promises:state:drained-moves")
def test_a_drained_item_may_be_fired_any_number_of_times() -> None:
    session = Session()
    item = session.accept(a_draft()).reminder_id
    session.drain()
    assert [session.turn() for _ in range(10)] == [[item]] * 10


@pytest.mark.requirement("promises:state:drained-names-turn-and-seam")
def test_a_drained_item_names_the_turn_and_the_seam() -> None:
    session = Session()
    session.turn()
    item = session.accept(a_draft()).reminder_id
    events = session.drain(Seam.POST_TOOL_DISPATCH).events
    (injected,) = (event for event in events if isinstance(event, Injected))
    assert (injected.reminder.id, injected.reminder.fired_at_turn, injected.seam) == (item, 2, Seam.POST_TOOL_DISPATCH)
    assert events[-1] == Checkpoint(turn=1, seam=Seam.POST_TOOL_DISPATCH, ids=(item,))


@pytest.mark.requirement("promises:state:hooks-and-providers-start-drained")
@pytest.mark.parametrize(
    ("surface", "source"), [(Surface.HOOK, Source.HOOK), (Surface.PROVIDER, Source.STDLIB_PROVIDER)]
)
def test_what_hooks_and_providers_return_is_live_at_once(surface: Surface, source: Source) -> None:
    session = Session()
    (draft,) = read_effects({"body": "x"}, surface).reminders
    session.inject(mint(draft, reminder_id=ReminderId("a"), source=source), Provenance(provider_id="mine"))
    assert (session.live_ids, session.queued_ids) == (["a"], [])
    assert [type(event) for event in session.journal] == [Injected]


# Closing.


@pytest.mark.requirement("promises:close:live-ends-as-cleared", "promises:close:queued-ends-as-dropped")
def test_closing_ends_what_is_live_and_what_waits() -> None:
    session = Session()
    session.inject(a_reminder("live"))
    session.turn()
    queued = [session.accept(a_draft(mode=mode)).reminder_id for mode in Mode]
    assert session.close() == (
        *(Dropped(reminder_id=item, reason=DropReason.SESSION_CLOSED, provenance=CLIENT) for item in queued),
        Expired(reminder_id="live", reason=ExpiryReason.CLEARED, turn=1, provenance=IN_PROCESS),
        Closed(),
    )
    assert (session.live_ids, session.queued_ids) == ([], [])


@pytest.mark.requirement("promises:close:queued-ends-as-dropped")
def test_a_closed_session_accepts_nothing() -> None:
    session = Session()
    session.close()
    with pytest.raises(UnknownSession):
        session.accept(a_draft())
    with pytest.raises(UnknownSession):
        session.say("hello?", InjectMode.QUEUE)


# Races.


@pytest.mark.requirement("promises:race:one-of-revoke-and-drain-wins")
def test_a_revoke_before_the_drain_wins() -> None:
    session = Session()
    item = session.accept(a_draft()).reminder_id
    assert session.revoke(item) is RevokeStatus.REVOKED
    assert session.drain().taken == ()
    assert session.revoke(item) is RevokeStatus.ALREADY_REVOKED
    assert session.live_ids == []


@pytest.mark.requirement("promises:race:one-of-revoke-and-drain-wins")
def test_a_drain_before_the_revoke_wins() -> None:
    session = Session()
    item = session.accept(a_draft()).reminder_id
    session.drain()
    with pytest.raises(AlreadyDelivered):
        session.revoke(item)
    assert session.live_ids == [item]


# Idempotency.


@pytest.mark.requirement("promises:idempotency:same-payload-same-reply")
def test_a_repeat_gets_the_reply_of_the_first_and_adds_nothing() -> None:
    session = Session()
    session.accept(a_draft(dedupe_key="k"), PEER)
    draft = a_draft(dedupe_key="k", caller_id="mine", ttl_turns=9, meta={"a": 1, "b": 2})
    first = session.accept(draft, PEER)
    assert (first.deduped_count, first.requested["ttl_turns"]) == (1, 9)
    journal = list(session.journal)
    for _ in range(2):
        repeat = session.accept(msgspec.structs.replace(draft, meta={"traceparent": "of the retry"}), PEER)
        assert repeat == first
        session.drain()
        session.clear(Selector(id="mine"))
    assert session.journal[: len(journal)] == journal
    assert [event for event in session.journal[len(journal) :] if isinstance(event, Queued)] == []


@pytest.mark.requirement("promises:idempotency:other-payload-conflicts")
@pytest.mark.parametrize(
    "change",
    [
        {"body": "The build is green."},
        {"tags": ("ci",)},
        {"dedupe_key": "k"},
        {"ttl_turns": 1},
        {"preserve_on_compact": True},
        {"propagate": "all"},
        {"role_hint": "developer"},
        {"mode": Mode.AUDIT_ONLY},
        {"claims": {"source": "boss"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_payload_under_the_same_id_is_a_conflict_or_a_newer_version(change: dict[str, object]) -> None:
    session = Session()
    session.accept(a_draft(caller_id="mine"))
    with pytest.raises(IdempotencyConflict) as refused:
        session.accept(a_draft(caller_id="mine", **change))
    assert refused.value.reason == "idempotency_conflict"
    assert session.queued_ids == ["mine"]
    session.accept(a_draft(caller_id="mine", **change), versioned=True)
    assert session.queued_ids == ["mine~2"]


@pytest.mark.requirement("promises:idempotency:belongs-to-a-principal")
@pytest.mark.parametrize("principal", [OTHER_CLIENT, PEER, Provenance()], ids=lambda sender: str(sender.principal))
def test_an_id_that_another_principal_has_taken_is_a_conflict(principal: Provenance) -> None:
    session = Session()
    session.accept(a_draft(caller_id="mine"), CLIENT)
    with pytest.raises(IdempotencyConflict):
        session.accept(a_draft(caller_id="mine"), principal)
    session.drain()
    with pytest.raises(IdempotencyConflict):
        session.accept(a_draft(caller_id="mine"), principal)
    assert (session.live_ids, session.queued_ids) == (["mine"], [])


@pytest.mark.requirement("promises:idempotency:belongs-to-a-principal")
def test_an_id_the_session_has_minted_is_taken_too() -> None:
    session = Session()
    minted = session.accept(a_draft()).reminder_id
    session.inject(a_reminder("in process"))
    for taken in (minted, "in process"):
        with pytest.raises(IdempotencyConflict):
            session.accept(a_draft(caller_id=taken))


# Histories: each move is about whatever its number chooses.


def choose(number: int) -> dict[str, object]:
    """A key, a TTL, or neither."""
    return {"dedupe_key": (None, "k", "l")[number % 3], "ttl_turns": (None, 1, 2)[number // 3 % 3]}


def accepted(session: Session, number: int, *, caller_id: str | None = None) -> None:
    draft = a_draft(mode=tuple(Mode)[number % 3], caller_id=caller_id, **choose(number))
    with suppress(TooManyPending, IdempotencyConflict):
        session.accept(draft, (CLIENT, PEER)[number // 9 % 2])


def named(session: Session, number: int) -> None:
    accepted(session, number, caller_id=f"caller-{number}")


def injected(session: Session, number: int) -> None:
    session.inject(a_reminder(session.new_id(), preserve_on_compact=number < 9, **choose(number)))


def inherited(session: Session, number: int) -> None:
    parent = Session()
    parent.inject(a_reminder(f"inherited-{number}", **choose(number)))
    handoff = propagate(parent.state, agent_id="parent", limits=DEFAULT_LIMITS).reminder_propagation
    session.decide(seed_child(session.state, handoff, sub_agent_id="child", hop=Trust.OPERATOR))


def drained(session: Session, number: int) -> None:
    session.drain(tuple(Seam)[number % len(Seam)])


def revoked(session: Session, number: int) -> None:
    for item in session.queued_ids[number::100]:
        session.revoke(item, Provenance())


def versioned(session: Session, number: int) -> None:
    with suppress(TooManyPending):
        session.accept(a_draft(caller_id="versions", body=f"{number}", **choose(number)), PEER, versioned=True)


def cleared(session: Session, number: int) -> None:
    for item in (session.live_ids + session.queued_ids)[number::100]:
        session.clear(Selector(id=item))


def dropped(session: Session, number: int) -> None:
    for item in session.live_ids[number::100]:
        session.drop(item, DropReason.INVALID)


def refused(session: Session, number: int) -> None:
    for item in (session.live_ids + session.queued_ids)[number::100]:
        session.commit(turned_away(item))


def requested(session: Session, number: int) -> None:
    if session.state.request is None:
        session.send_request(left_out=session.live_ids[number::3])


def voided(session: Session, _number: int) -> None:
    if session.state.request is not None:
        session.void()


def answered(session: Session, number: int) -> None:
    requested(session, number)
    session.take_reply()


def compacted(session: Session, number: int) -> None:
    voided(session, number)
    session.compact(archived_messages=number % 3)


Move = Callable[[Session, int], None]
MOVES: tuple[Move, ...] = (
    accepted,
    named,
    versioned,
    injected,
    inherited,
    drained,
    revoked,
    cleared,
    dropped,
    refused,
    requested,
    voided,
    answered,
    compacted,
)
HISTORIES = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 3) | st.integers(0, 35)), max_size=40)


def a_session(history: list[tuple[Move, int]]) -> Session:
    session = Session()
    for move, number in history:
        move(session, number)
    return session


def items(journal: list[Event]) -> set[str]:
    """Every reminder that was ever accepted or became live."""
    return {event.item.id for event in journal if isinstance(event, Queued)} | {
        event.reminder.id for event in journal if isinstance(event, Injected | Inherited)
    }


def ends(journal: list[Event]) -> Counter[str]:
    """How often each reminder reached a terminal state."""
    counted = Counter[str]()
    for event in journal:
        match event:
            case Deduped(replaced_id=gone) | Expired(reminder_id=gone) | Revoked(reminder_id=gone):
                counted[gone] += 1
            case Dropped(reminder_id=gone, at_the_door=False):
                counted[gone] += 1
            case AuditRecorded(reminder=reminder):
                counted[reminder.id] += 1
            case _:
                pass
    return counted


def everything(state: SessionState) -> dict[str, object]:
    """All that the journal of a session says, in a form that can be compared; the store sets the rest."""
    known = {name: value for name, value in vars(state).items() if name not in ("attended", "receipts")}
    return {**known, "inbox": vars(state.inbox), "live": vars(state.live)}


@pytest.mark.requirement("promises:state:at-most-one-terminal", "promises:state:exactly-one-once-closed")
@given(history=HISTORIES)
def test_in_every_history_an_item_ends_at_most_once_and_exactly_once_when_closed(
    history: list[tuple[Move, int]],
) -> None:
    session = a_session(history)
    so_far = ends(session.journal)
    still_there = {*session.queued_ids, *session.live_ids}
    assert all(so_far[item] == (item not in still_there) for item in items(session.journal))
    session.close()
    assert ends(session.journal) == Counter(dict.fromkeys(items(session.journal), 1))


@pytest.mark.requirement("promises:journal:folding-rebuilds-the-state")
@given(history=HISTORIES)
def test_folding_the_written_journal_gives_the_state_again(history: list[tuple[Move, int]]) -> None:
    session = a_session(history)
    written = msgspec.json.encode(session.journal)
    folded = fold(msgspec.json.decode(written, type=list[Event]))
    assert everything(folded) == everything(session.state)

"""What a sub-agent is told of what its parent was told."""

import asyncio
from collections.abc import Iterable

import pytest

from sideband import spawn
from sideband.core.accept import RevokeStatus
from sideband.core.events import Inherited
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.propagation import Handed, propagate, seed_child
from sideband.core.reminder import Propagate, Source
from sideband.core.seams import InjectMode, Mode
from sideband.core.state import PendingState
from sideband.core.transcript import Transcript, propagate_reminders, reminder_event
from sideband.core.trust import Provenance, Trust
from sideband.runtime.store import Store
from sideband.testing import ScriptedModel
from tests.builders import a_draft, a_reminder
from tests.sessions import Session
from tests.unit.store.twins import Twin

LOWERED = Provenance(trust=Trust.SERVER, principal="ci")


def handed(session: Session, *, agent_id: str = "parent") -> tuple[Handed, ...]:
    return propagate(session.state, agent_id=agent_id, limits=DEFAULT_LIMITS).reminder_propagation


def a_child(reminders: Iterable[Handed], *, next_turn: int = 1) -> Session:
    """A session that begins with what was handed to it."""
    child = Session()
    child.state.live.turn = next_turn - 1
    child.decide(seed_child(child.state, reminders, sub_agent_id="child", hop=Trust.OPERATOR))
    return child


def generation_after(parent: Session, *, agent_id: str) -> Session:
    return a_child(handed(parent, agent_id=agent_id))


@pytest.mark.requirement("propagation:handoff:field", "propagation:handoff:live-then-queued")
def test_a_handoff_has_what_is_live_then_what_is_queued() -> None:
    parent = Session()
    words = (("c", Propagate.ALL), ("n", Propagate.NONE), ("a", Propagate.SESSION), ("b", Propagate.ALL))
    queued = [
        parent.accept(a_draft(propagate=word, mode=mode)).reminder_id
        for word, mode in (
            (Propagate.SESSION, Mode.FINISH_STEP),
            (Propagate.ALL, Mode.AUDIT_ONLY),
            (Propagate.NONE, Mode.FINISH_STEP),
            (Propagate.ALL, Mode.INTERRUPT_IMMEDIATE),
        )
    ]
    parent.say("Go on.", InjectMode.QUEUE)
    for name, word in words:
        parent.inject(a_reminder(name, propagate=word))
    handoff = propagate(parent.state, agent_id="parent", limits=DEFAULT_LIMITS)
    expected = ["c", "a", "b", queued[0], queued[3]]
    assert [entry.reminder.id for entry in handoff.reminder_propagation] == expected
    child = a_child(handoff.reminder_propagation)
    assert child.live_ids == expected
    # The direct child hands on only what is for all.
    assert [entry.reminder.id for entry in handed(child)] == ["c", "b", queued[3]]


@pytest.mark.requirement("propagation:handoff:live-then-queued")
def test_a_queued_reminder_that_will_replace_a_live_one_replaces_it_in_the_child() -> None:
    parent = Session()
    parent.inject(a_reminder("old", dedupe_key="k"))
    parent.accept(a_draft(dedupe_key="k"))
    (newest,) = [entry.id for entry in parent.state.inbox.items()]
    assert a_child(handed(parent)).live_ids == [newest]


@pytest.mark.requirement("propagation:handoff:the-parent-keeps-its-own")
def test_what_another_process_has_queued_reaches_a_child_and_stays_with_the_parent(twin: Twin) -> None:
    async def main() -> None:
        async with twin.open() as ours, twin.open() as theirs:
            parent = await Store(ours).session("parent")
            queued = await (await Store(theirs).session("parent")).remind("Small patches only.", propagate="all")
            model = ScriptedModel(["Done."])
            worker = await spawn(parent, Store(ours), "Write the patch.", model=model)
            assert [(row.state, row.reminder.id) for row in await parent.pending()] == [
                (PendingState.QUEUED, queued.reminder_id)
            ]
            assert await parent.revoke(queued.reminder_id) is RevokeStatus.REVOKED
            await worker.work()
            assert "Small patches only." in model.requests[0].text

    asyncio.run(main())


@pytest.mark.requirement("propagation:handoff:field")
def test_a_transcript_hands_over_what_a_session_would() -> None:
    reminders = [a_reminder(word.value, propagate=word) for word in Propagate]
    transcript = Transcript(events=tuple(reminder_event(each, event_id=f"e-{each.id}") for each in reminders))
    handoff = propagate_reminders(transcript, agent_id="parent")
    assert [entry.reminder.id for entry in handoff.reminder_propagation] == ["all", "session"]


@pytest.mark.parametrize(
    ("word", "generations"),
    [
        pytest.param("all", 3, marks=pytest.mark.requirement("propagation:filter:all")),
        pytest.param("session", 1, marks=pytest.mark.requirement("propagation:filter:session")),
        pytest.param("none", 0, marks=pytest.mark.requirement("propagation:filter:none")),
    ],
)
def test_a_word_says_how_many_generations_have_the_reminder(word: str, generations: int) -> None:
    session = Session()
    session.inject(a_reminder("a", propagate=Propagate(word)))
    reached = []
    for depth in range(3):
        session = generation_after(session, agent_id=f"agent {depth}")
        reached.append(session.live_ids)
    assert reached == [["a"]] * generations + [[]] * (3 - generations)


@pytest.mark.requirement("propagation:copy:source-is-inherited", "propagation:copy:names-the-first-emitter")
def test_every_copy_is_inherited_and_names_the_first_emitter() -> None:
    session = Session()
    session.inject(a_reminder("a", propagate=Propagate.ALL, source=Source.HOOK))
    for agent_id in ("root", "middle", "leaf"):
        session = generation_after(session, agent_id=agent_id)
        (item,) = session.state.live
        assert (item.reminder.source, item.reminder.originating_agent_id) == (Source.INHERITED, "root")


@pytest.mark.requirement(
    "propagation:copy:keeps-id-body-and-flags",
    "propagation:copy:has-the-remaining-ttl",
    "propagation:copy:turn-is-restamped",
)
def test_a_copy_is_the_original_with_what_is_left_of_its_ttl_and_the_turn_of_the_child() -> None:
    original = a_reminder(
        "a",
        tags=("ci",),
        dedupe_key="k",
        ttl_turns=3,
        preserve_on_compact=True,
        propagate=Propagate.ALL,
        fired_at_turn=1,
    )
    parent = Session()
    parent.inject(original)
    parent.turn()
    parent.turn()
    child = a_child(handed(parent), next_turn=4)
    (item,) = child.state.live
    assert item.reminder == a_reminder(
        "a",
        tags=("ci",),
        dedupe_key="k",
        ttl_turns=1,
        preserve_on_compact=True,
        propagate=Propagate.ALL,
        source=Source.INHERITED,
        fired_at_turn=4,
        originating_agent_id="parent",
    )


@pytest.mark.requirement("propagation:copy:has-the-remaining-ttl")
def test_a_child_shows_a_copy_in_as_many_turns_as_were_left() -> None:
    parent = Session()
    parent.inject(a_reminder("a", ttl_turns=3))
    parent.turn()
    child = a_child(handed(parent))
    assert [child.turn() for _ in range(3)] == [["a"], ["a"], []]
    assert parent.turn() == ["a"]


@pytest.mark.requirement("propagation:hops:at-most-eight")
def test_what_was_handed_over_eight_times_stays_where_it_is() -> None:
    session = Session()
    session.inject(a_reminder("a", propagate=Propagate.ALL))
    for hop in range(8):
        assert propagate(session.state, agent_id=f"agent {hop}", limits=DEFAULT_LIMITS).at_hop_limit == ()
        session = generation_after(session, agent_id=f"agent {hop}")
    assert session.live_ids == ["a"]
    assert propagate(session.state, agent_id="the ninth", limits=DEFAULT_LIMITS) == ((), ("a",))


@pytest.mark.requirement("propagation:copy:has-an-inherited-event")
def test_each_copy_has_one_inherited_event() -> None:
    parent = Session()
    parent.inject(a_reminder("a"))
    parent.inject(a_reminder("b"))
    events = a_child(handed(parent)).journal
    assert [
        (type(event), event.reminder.id, event.sub_agent_id) for event in events if isinstance(event, Inherited)
    ] == [
        (Inherited, "a", "child"),
        (Inherited, "b", "child"),
    ]
    assert len(events) == 2


@pytest.mark.requirement("propagation:copy:has-an-inherited-event")
def test_a_handoff_that_comes_again_brings_nothing_new() -> None:
    parent = Session()
    parent.inject(a_reminder("a"))
    reminders = handed(parent)
    child = a_child((*reminders, *reminders))
    child.decide(seed_child(child.state, reminders, sub_agent_id="child", hop=Trust.OPERATOR))
    assert len(child.journal) == 1


@pytest.mark.requirement("core:dedupe:at-most-one-queued-and-one-live")
def test_of_copies_that_share_a_key_a_child_takes_the_newest_in_its_place() -> None:
    reminders = [a_reminder(name, dedupe_key=key) for name, key in (("a", "k"), ("x", None), ("b", "k"))]
    transcript = Transcript(events=tuple(reminder_event(each, event_id=f"e-{each.id}") for each in reminders))
    child = a_child(propagate_reminders(transcript, agent_id="parent").reminder_propagation)
    assert child.live_ids == ["x", "b"]


@pytest.mark.requirement("core:dedupe:at-most-one-queued-and-one-live")
def test_a_copy_displaces_what_the_child_has_of_its_key() -> None:
    parent, child = Session(), Session()
    parent.inject(a_reminder("a", dedupe_key="k"))
    parent.inject(a_reminder("b", dedupe_key="k"), LOWERED)
    child.inject(a_reminder("own", dedupe_key="k"))
    child.decide(seed_child(child.state, handed(parent), sub_agent_id="child", hop=Trust.OPERATOR))
    assert child.live_ids == ["a", "b"]

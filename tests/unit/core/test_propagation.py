"""Propagation through a tree of agents: which agents get a copy, its origin, and its trust level."""

from typing import NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.propagation import propagate, seed_child
from sideband.core.reminder import Propagate, Source
from sideband.core.transcript import Transcript, propagate_reminders, reminder_event
from sideband.core.trust import Provenance, Trust
from tests.builders import a_reminder
from tests.sessions import Session
from tests.unit.core.state_checks import check_indexes

keys = st.sampled_from([None, "k1", "k2"])
levels = st.sampled_from([Trust.OPERATOR, Trust.CONTROLLER, Trust.PEER, Trust.SERVER])


class Family(NamedTuple):
    """Agent 0 is the root; agent n+1 was started by `parents[n]`, over a connection of the level `hops[n]`."""

    parents: list[int]
    hops: list[Trust]

    def way_down(self, first: int, agent: int) -> list[int] | None:
        """The agents after `first` on the way to `agent`; None where `agent` does not descend from it."""
        way: list[int] = []
        while agent != first:
            if agent == 0:
                return None
            way.append(agent)
            agent = self.parents[agent - 1]
        return way[::-1]


@st.composite
def families(draw: st.DrawFn) -> Family:
    """Some are deep enough for a reminder to reach the hop limit."""
    size = draw(st.integers(0, 12))
    is_chain = draw(st.booleans())
    parents = [agent if is_chain else draw(st.integers(0, agent)) for agent in range(size)]
    return Family(parents, [draw(levels) for _ in parents])


class Told(NamedTuple):
    """What an agent was told by a sender other than its parent."""

    agent: int
    reach: Propagate
    trust: Trust
    dedupe_key: str | None


def raised(family: Family, told: list[Told]) -> list[Session]:
    """Each agent is told its own, then what its parent hands down; parents come before their children."""
    sessions: list[Session] = []
    for agent in range(len(family.parents) + 1):
        session = Session()
        for number, entry in enumerate(told):
            if entry.agent == agent:
                reminder = a_reminder(f"r{number}", propagate=entry.reach, dedupe_key=entry.dedupe_key)
                session.inject(reminder, Provenance(trust=entry.trust, principal=f"p{number}"))
        if agent:
            parent = family.parents[agent - 1]
            handoff = propagate(sessions[parent].state, agent_id=f"agent {parent}", limits=DEFAULT_LIMITS)
            session.decide(
                seed_child(
                    session.state,
                    handoff.reminder_propagation,
                    sub_agent_id=f"agent {agent}",
                    hop=family.hops[agent - 1],
                )
            )
        sessions.append(session)
    return sessions


tellings = st.lists(
    st.builds(Told, st.integers(0, 12), st.sampled_from(Propagate), levels, st.none()),
    max_size=4,
)


def gets(entry: Told, way: list[int] | None) -> bool:
    """Whether a reminder told at the beginning of the way arrives at its end."""
    if way is None:
        return False
    most = {Propagate.NONE: 0, Propagate.SESSION: 1, Propagate.ALL: DEFAULT_LIMITS.hops}
    return len(way) <= most[entry.reach]


@given(families(), tellings)
def test_none_stays_session_goes_one_level_all_goes_everywhere(family: Family, told: list[Told]) -> None:
    for agent, session in enumerate(raised(family, told)):
        expected = {f"r{n}" for n, entry in enumerate(told) if gets(entry, family.way_down(entry.agent, agent))}
        assert set(session.live_ids) == expected


@given(families(), tellings)
def test_a_copy_says_who_first_had_it_and_nothing_else_changes(family: Family, told: list[Told]) -> None:
    for agent, session in enumerate(raised(family, told)):
        for item in session.state.live:
            entry = told[int(item.id[1:])]
            original = a_reminder(item.id, propagate=entry.reach, dedupe_key=entry.dedupe_key)
            if entry.agent == agent:
                assert item.reminder == original
            else:
                assert item.reminder == msgspec.structs.replace(
                    original,
                    source=Source.INHERITED,
                    originating_agent_id=f"agent {entry.agent}",
                    fired_at_turn=1,
                )


@given(families(), tellings)
def test_trust_is_the_lowest_on_the_way_and_hops_are_counted(family: Family, told: list[Told]) -> None:
    for agent, session in enumerate(raised(family, told)):
        for item in session.state.live:
            entry = told[int(item.id[1:])]
            way = family.way_down(entry.agent, agent)
            assert way is not None
            assert item.provenance.trust == max([entry.trust, *(family.hops[each - 1] for each in way)])
            assert item.provenance.hops == len(way)
            assert item.provenance.principal == f"p{int(item.id[1:])}"


@given(families(), tellings, st.booleans())
def test_a_handoff_that_arrives_again_brings_nothing(family: Family, told: list[Told], have_ended: bool) -> None:  # noqa: FBT001 - drawn by name
    sessions = raised(family, told)
    for agent, parent in enumerate(family.parents, start=1):
        child = sessions[agent]
        handoff = propagate(sessions[parent].state, agent_id="parent", limits=DEFAULT_LIMITS)
        if have_ended:
            child.compact()
        again = seed_child(child.state, handoff.reminder_propagation, sub_agent_id="child", hop=Trust.OPERATOR)
        assert not again.events


@given(families(), st.lists(st.builds(Told, st.integers(0, 12), st.just(Propagate.ALL), levels, keys)))
def test_in_every_agent_a_key_is_live_once_in_a_namespace(family: Family, told: list[Told]) -> None:
    for session in raised(family, told):
        check_indexes(session.state)
        taken = [
            (item.provenance.namespace, item.reminder.dedupe_key)
            for item in session.state.live
            if item.reminder.dedupe_key is not None
        ]
        assert len(taken) == len(set(taken))


@given(st.lists(keys, max_size=6))
def test_of_a_transcript_made_by_hand_a_child_gets_the_newest_of_each_key(each: list[str | None]) -> None:
    reminders = [a_reminder(f"r{place}", dedupe_key=key) for place, key in enumerate(each)]
    transcript = Transcript(events=tuple(reminder_event(each, event_id=f"e-{each.id}") for each in reminders))
    child = Session()
    handed = propagate_reminders(transcript, agent_id="parent").reminder_propagation
    child.decide(seed_child(child.state, handed, sub_agent_id="child", hop=Trust.OPERATOR))
    newest = {reminder.dedupe_key or reminder.id: reminder.id for reminder in reminders}
    assert child.live_ids == [reminder.id for reminder in reminders if reminder.id in newest.values()]

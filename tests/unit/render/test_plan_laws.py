"""Laws of planned requests: for every conversation."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import NothingToAnswer
from sideband.core.ledger import Lifetime
from sideband.core.reminder import RoleHint
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.render.plan import Plan, Planner
from sideband.render.profiles import Placement, Profile
from tests.planned_sessions import CLAUDE, CLEARING, GEMINI, GPT, ROUTE, UNKNOWN, PlannedSession, a_profile, shown_ids
from tests.sessions import PEER

ORDER: Final = [Lifetime.KEPT, Lifetime.VOLATILE, Lifetime.CLEARING]

reminders = st.tuples(
    st.sampled_from(["", "short", "x" * 3_000]),
    st.sampled_from([IN_PROCESS, PEER]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([RoleHint.SYSTEM, RoleHint.USER_BLOCK]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("remind"), reminders),
        st.tuples(st.just("forget"), st.integers(0, 9)),
        st.tuples(st.just("turn"), st.sampled_from(["tool", "user", ""])),
        st.tuples(st.just("lose"), st.sampled_from(["user", ""])),
    ),
    max_size=25,
)
routes = st.sampled_from(
    [
        (CLAUDE, Placement.TAIL),
        (a_profile(CLAUDE, prefix_bound_thinking=True), Placement.TAIL),
        (CLEARING, Placement.NATIVE),
        (GPT, Placement.TAIL),
        (GPT, Placement.NATIVE),
        (GEMINI, Placement.TAIL),
        (UNKNOWN, Placement.TAIL),
        (a_profile(kv_prefix=True), Placement.TAIL),
    ]
)


def played(route: tuple[Profile, Placement], history: list[tuple[str, object]]) -> list[tuple[PlannedSession, Plan]]:
    """Every request of a conversation with these steps, and the conversation as it was then."""
    profile, placement = route
    session = PlannedSession(profile, placement)
    requests = []
    for number, (what, how) in enumerate(history):
        match what, how:
            case "remind", (str(body), Provenance() as sender, ttl, hint):
                session.remind(f"r{number}", body, sender, ttl_turns=ttl, role_hint=hint)
            case "forget", int(index):
                for reminder_id in session.live_ids[index : index + 1]:
                    session.forget(reminder_id)
            case _ if (planned := _checked(session)) is not None:
                requests.append((session, planned))
                _end(session, what, str(how))
            case _:
                session.user()
    return requests


def _end(session: PlannedSession, what: str, then: str) -> None:
    if what == "lose":
        session.lose()
    else:
        session.answer()
    if then == "tool":
        session.result()
    elif then == "user":
        session.user()


def _checked(session: PlannedSession) -> Plan | None:
    """Check every law on one request; None if it would say nothing."""
    live = list(session.live_ids)
    standing = dict(session.state.ledger.standing)
    usable = {item.id for item in session.state.live if item.reminder.body}
    if session.messages[-1]["role"] == "assistant" and usable == set(standing):
        with pytest.raises(NothingToAnswer):
            session.ask()
        return None
    fresh = Planner(session.profile, session.placement).plan(session.view(), session.state.ledger.on(ROUTE))
    planned = session.ask()
    assert planned == fresh, "what is remembered shows"
    told = [*shown_ids(planned), *planned.left_out, *(entry.reminder_id for entry in planned.unusable)]
    assert sorted(told) == sorted(live), "each live reminder is shown, left out or unusable, and only once"
    said = [reminder_id for fragment in planned.fragments for reminder_id in fragment.reminders]
    assert said == [entry.reminder_id for entry in planned.shown if not entry.carried]
    assert [entry.reminder_id for entry in planned.shown if entry.carried] == [key for key in live if key in standing]
    scopes = [fragment.scope for fragment in planned.fragments]
    assert scopes == sorted(scopes, key=ORDER.index)
    assert {fragment.anchor for fragment in planned.fragments} <= {len(session.messages)}
    return planned


@given(routes, steps)
def test_the_requests_of_any_conversation_are_sound(
    route: tuple[Profile, Placement], history: list[tuple[str, object]]
) -> None:
    for session, _ in played(route, history):
        handles = [fragment.handle for fragment in session.state.ledger.fragments if fragment.handle is not None]
        taken_back = [handle for fragment in session.state.ledger.fragments for handle in fragment.withdraws]
        assert handles == sorted(set(handles)), "each handle is given once"
        assert sorted(taken_back) == sorted(set(taken_back)), "nothing is taken back twice"
        assert set(taken_back) <= set(handles), "only what stands is taken back"


@given(routes, steps)
def test_a_reminder_that_has_ended_is_not_kept_after_the_next_answer(
    route: tuple[Profile, Placement], history: list[tuple[str, object]]
) -> None:
    # The second turn follows a user message, so that there is something to answer.
    for session, planned in played(route, [*history, ("turn", "user"), ("turn", "user")])[-1:]:
        ended = {key for key in session.state.ledger.standing if key not in session.state.live}
        expired_with_the_answer = {entry.reminder_id for entry in planned.shown} - set(session.live_ids)
        assert ended <= expired_with_the_answer

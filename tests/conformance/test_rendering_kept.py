"""How long the text of a reminder stays in a conversation, and what is on record of it."""

from typing import Final

import pytest

from sideband.core.events import Fired
from sideband.core.ledger import Lifetime
from sideband.core.topic import Correlation, publish
from sideband.core.turn import Shown
from sideband.render.profiles import Cache, Profile
from tests.planned_sessions import (
    CLAUDE,
    CLEARING,
    GEMINI,
    GPT,
    UNKNOWN,
    PlannedSession,
    a_profile,
    scopes,
    shown_ids,
    texts,
)
from tests.sessions import PEER

BOUND: Final = a_profile(CLAUDE, prefix_bound_thinking=True)
ROUTES: Final = (CLAUDE, BOUND, CLEARING, GPT, GEMINI, UNKNOWN)


def a_talk(profile: Profile, end: str = "user") -> PlannedSession:
    """A conversation that ends so."""
    session = PlannedSession(profile)
    session.messages.append({"role": end, "content": "x"})
    return session


# Volatile and kept.


@pytest.mark.requirement("render:volatile:one-request-only")
def test_a_volatile_fragment_is_said_anew_in_each_request_and_is_no_history() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a", ttl_turns=3)
    requests = [session.asked_and_answered() for _ in range(4)]
    assert [scopes(planned) for planned in requests] == [[Lifetime.VOLATILE]] * 3 + [[]]
    assert [fragment.anchor for planned in requests for fragment in planned.fragments] == [1, 3, 5]
    assert session.state.ledger.fragments == []


@pytest.mark.requirement("render:kept:placed-once", "render:fired:carried-without-new-bytes")
def test_a_kept_fragment_is_placed_once_and_carried() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a")
    first, second, third = (session.asked_and_answered() for _ in range(3))
    assert [fragment.reminders for fragment in first.fragments] == [("a",)]
    assert second.fragments == third.fragments == ()
    assert second.shown == third.shown == (Shown("a", "user", carried=True),)
    assert session.state.ledger.fragments == list(first.fragments)
    assert [event.carried for event in session.fired] == [False, True, True]


@pytest.mark.requirement("render:kept:states-its-turns")
@pytest.mark.parametrize(
    ("profile", "ttl", "opening"),
    [
        pytest.param(BOUND, 1, '<system-reminder id="1">', id="one-turn"),
        pytest.param(BOUND, 3, '<system-reminder id="1" turns="3">', id="three-turns"),
        pytest.param(BOUND, None, '<system-reminder id="1">', id="no-ttl"),
        pytest.param(a_profile(kv_prefix=True), 3, "System reminder 1 (3 turns):", id="plain"),
    ],
)
def test_a_kept_fragment_states_its_turns(profile: Profile, ttl: int | None, opening: str) -> None:
    session = PlannedSession(profile)
    session.remind("a", ttl_turns=ttl)
    assert [text.splitlines()[0] for text in texts(session.plan())] == [opening]


@pytest.mark.requirement("render:kept:states-its-turns")
def test_a_kept_notice_states_its_turns() -> None:
    session = PlannedSession(BOUND)
    session.remind("a", sender=PEER, ttl_turns=2)
    assert texts(session.plan()) == ['<peer-notice from="planner" id="1" turns="2">\nBody of a.\n</peer-notice>']


@pytest.mark.requirement("render:kept:withdrawn-by-one-line", "render:kept:ended-is-not-shown")
def test_one_line_withdraws_all_that_has_ended() -> None:
    session = PlannedSession(BOUND)
    session.remind("expires", ttl_turns=1)
    session.remind("is_cleared")
    session.remind("is_replaced", dedupe_key="k")
    session.remind("stays")
    session.asked_and_answered()
    session.forget("is_cleared")
    session.remind("replaces", dedupe_key="k")
    second, third = session.asked_and_answered(), session.asked_and_answered()
    line, _ = second.fragments
    assert (line.text, line.withdraws) == ("<system-reminder>\nWithdrawn: 1, 2, 3.\n</system-reminder>", (1, 2, 3))
    assert shown_ids(second) == ["stays", "replaces"]
    assert third.fragments == ()
    assert set(shown_ids(third)) == {"stays", "replaces"}
    assert {event.reminder_id for event in session.fired if event.turn > 1} == {"stays", "replaces"}
    # The bytes remain.
    assert "Body of expires." in "".join(fragment.text for fragment in session.state.ledger.fragments)


@pytest.mark.requirement("render:kept:finite-is-volatile")
@pytest.mark.parametrize("profile", [CLAUDE, GPT, UNKNOWN])
@pytest.mark.parametrize("end", ["user", "tool"])
def test_a_finite_reminder_is_volatile_and_a_lasting_one_kept(profile: Profile, end: str) -> None:
    session = a_talk(profile, end)
    session.remind("finite", ttl_turns=1)
    session.remind("lasting")
    found = {fragment.reminders: fragment.scope for fragment in session.plan().fragments}
    assert found == {("finite",): Lifetime.VOLATILE, ("lasting",): Lifetime.KEPT}


@pytest.mark.parametrize(
    ("profile", "end"),
    [
        pytest.param(
            CLAUDE, "assistant", id="turn-of-its-own", marks=pytest.mark.requirement("render:kept:own-messages")
        ),
        pytest.param(
            a_profile(GPT, consecutive_assistant=False),
            "user",
            id="developer-message",
            marks=pytest.mark.requirement("render:kept:own-messages"),
        ),
        pytest.param(
            BOUND, "tool", id="prefix-bound", marks=pytest.mark.requirement("render:kept:prefix-bound-models")
        ),
        pytest.param(
            a_profile(CLEARING, inline_verified=False),
            "user",
            id="slot-that-is-not-heeded",
            marks=pytest.mark.requirement("render:kept:prefix-bound-models"),
        ),
        pytest.param(
            a_profile(GPT, server_side_history=True),
            "user",
            id="server-side-history",
            marks=pytest.mark.requirement("render:kept:server-side-history"),
        ),
        pytest.param(
            a_profile(UNKNOWN, kv_prefix=True),
            "tool",
            id="local-server",
            marks=pytest.mark.requirement("render:kept:local-servers"),
        ),
        pytest.param(
            GEMINI, "user", id="implicit-caching", marks=pytest.mark.requirement("render:kept:foreign-breakpoints")
        ),
    ],
)
def test_some_routes_keep_every_fragment(profile: Profile, end: str) -> None:
    session = a_talk(profile, end)
    for ttl in (1, 2, None):
        session.remind(f"r{ttl}", ttl_turns=ttl)
    assert scopes(session.plan()) == [Lifetime.KEPT] * 3


@pytest.mark.requirement("render:kept:own-messages")
def test_a_message_of_its_own_is_volatile_where_answers_may_follow_each_other() -> None:
    for profile in (GPT, a_profile(CLAUDE, consecutive_assistant=True)):
        session = a_talk(profile, "assistant")
        session.remind("a", ttl_turns=1)
        assert scopes(session.plan()) == [Lifetime.VOLATILE]


@pytest.mark.requirement("render:kept:foreign-breakpoints")
def test_developer_text_is_volatile_even_where_the_breakpoints_are_not_ours() -> None:
    session = PlannedSession(a_profile(GPT, cache=Cache.IMPLICIT))
    session.remind("a", ttl_turns=1)
    session.remind("p", sender=PEER, ttl_turns=1)
    found = {fragment.reminders: fragment.scope for fragment in session.plan().fragments}
    assert found == {("a",): Lifetime.VOLATILE, ("p",): Lifetime.KEPT}


@pytest.mark.requirement("render:kept:before-volatile")
@pytest.mark.parametrize("profile", [CLAUDE, GPT, UNKNOWN])
def test_what_is_kept_stands_before_what_is_volatile(profile: Profile) -> None:
    session = PlannedSession(profile)
    for reminder_id, ttl in [("v1", 1), ("k1", None), ("v2", 2), ("k2", None), ("v3", 3)]:
        session.remind(reminder_id, ttl_turns=ttl)
    said = [fragment.reminders[0] for fragment in session.plan().fragments]
    assert said == ["k1", "k2", "v1", "v2", "v3"]


# On record.


@pytest.mark.requirement("render:fired:once-for-each-turn-shown")
@pytest.mark.parametrize("profile", ROUTES)
def test_a_reminder_fires_once_for_each_turn_that_shows_it(profile: Profile) -> None:
    session = PlannedSession(profile)
    session.remind("finite", ttl_turns=2)
    session.remind("lasting")
    for _ in range(3):
        session.asked_and_answered()
    turns = [(event.reminder_id, event.turn) for event in session.fired]
    assert sorted(turns) == [("finite", 1), ("finite", 2), ("lasting", 1), ("lasting", 2), ("lasting", 3)]


@pytest.mark.requirement("render:fired:only-when-the-request-is-committed")
def test_planning_a_request_fires_nothing() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a")
    session.plan()
    assert session.fired == []
    session.ask()
    assert [event.reminder_id for event in session.fired] == ["a"]


@pytest.mark.requirement("render:fired:role-is-that-of-the-carrier")
@pytest.mark.parametrize(
    ("profile", "end", "role"),
    [
        pytest.param(CLAUDE, "user", "user", id="text-of-the-user"),
        pytest.param(CLEARING, "tool", "system", id="system-entry"),
        pytest.param(GPT, "tool", "developer", id="developer-message"),
        pytest.param(UNKNOWN, "tool", "tool", id="in-a-tool-message"),
        pytest.param(a_profile(CLAUDE, user_text_resets_reasoning=True), "tool", "user", id="in-a-result-of-the-user"),
    ],
)
def test_the_rendered_role_is_that_of_the_message_that_carries_it(profile: Profile, end: str, role: str) -> None:
    session = a_talk(profile, end)
    session.remind("a", ttl_turns=1)
    planned = session.ask()
    assert [fragment.role for fragment in planned.fragments] == [role]
    assert [event.rendered_role for event in session.fired] == [role]


@pytest.mark.requirement("render:fired:role-is-that-of-the-carrier")
def test_what_is_carried_has_the_role_it_was_placed_in() -> None:
    session = a_talk(UNKNOWN, "tool")
    session.remind("a")
    session.asked_and_answered(then="user")
    session.asked_and_answered()
    assert [event.rendered_role for event in session.fired] == ["tool", "tool"]


@pytest.mark.requirement("render:fired:carried-without-new-bytes")
def test_the_record_says_that_nothing_was_added() -> None:
    placed = Fired(reminder_id="a", turn=1, rendered_role="user")
    carried = Fired(reminder_id="a", turn=2, rendered_role="user", carried=True)
    told = [publish(event, Correlation(session_id="s1")) for event in (placed, carried)]
    assert [record.payload.get("carried") for record in told if record is not None] == [None, True]


@pytest.mark.requirement("render:ledger:joins-when-answered", "render:ledger:unanswered-is-planned-again")
def test_a_fragment_is_history_when_it_is_answered_and_planned_again_when_not() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a")
    lost = session.ask()
    session.lose()
    assert session.state.ledger.fragments == []
    session.user("Something else.")
    again = session.ask()
    assert [(fragment.anchor, fragment.reminders) for fragment in lost.fragments] == [(1, ("a",))]
    assert [(fragment.anchor, fragment.reminders) for fragment in again.fragments] == [(2, ("a",))]
    assert session.state.ledger.fragments == []
    session.answer()
    assert session.state.ledger.fragments == list(again.fragments)

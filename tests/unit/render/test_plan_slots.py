"""Planning: provider slots, requests without reminders, repeated requests, and reported advice."""

import pytest

from sideband.core.errors import NothingToAnswer
from sideband.core.events import DropReason
from sideband.core.ledger import Form, Lifetime
from sideband.core.reminder import RoleHint
from sideband.core.turn import Shown, Unusable
from sideband.render.plan import Plan, Planner
from sideband.render.profiles import InlineSystem, Placement, Profile, Wire
from tests.planned_sessions import (
    CLAUDE,
    CLEARING,
    GPT,
    ROUTE,
    UNKNOWN,
    PlannedSession,
    a_profile,
    carriers,
    scopes,
    shown_ids,
    texts,
)
from tests.sessions import PEER

# The slots of providers.


def test_a_clearing_slot_takes_what_is_finite_and_ours() -> None:
    session = PlannedSession(CLEARING)
    session.remind("gone")
    session.asked_and_answered()
    session.forget("gone")
    session.remind("f1", "one", ttl_turns=1)
    session.remind("nil", "two")
    session.remind("peer", "three", PEER, ttl_turns=2)
    session.remind("f2", "four", ttl_turns=3, role_hint=RoleHint.USER_BLOCK)
    planned = session.plan()
    assert [fragment.reminders for fragment in planned.fragments] == [(), ("nil",), ("peer",), ("f1", "f2")]
    assert scopes(planned) == [Lifetime.KEPT, Lifetime.KEPT, Lifetime.KEPT, Lifetime.CLEARING]
    assert carriers(planned) == [(Form.TEXT, "user")] * 3 + [(Form.MESSAGE, "system")]
    assert planned.fragments[-1].text == (
        "<system-reminder>\none\n</system-reminder>\n<system-reminder>\nfour\n</system-reminder>"
    )
    assert planned.shown == (
        Shown("nil", "user"),
        Shown("peer", "user"),
        Shown("f1", "system"),
        Shown("f2", "system"),
    )


def test_a_finite_notice_beside_a_clearing_slot_is_kept_whatever_the_prefix() -> None:
    session = PlannedSession(a_profile(CLEARING, prefix_bound_thinking=False), Placement.NATIVE)
    session.remind("peer", sender=PEER, ttl_turns=1)
    session.remind("a", ttl_turns=1)
    assert scopes(session.plan()) == [Lifetime.KEPT, Lifetime.CLEARING]


def test_a_clearing_entry_is_said_again_while_its_reminder_lives() -> None:
    session = PlannedSession(CLEARING)
    session.remind("a", ttl_turns=2)
    first, second, third = (session.asked_and_answered() for _ in range(3))
    assert texts(first) == texts(second) != []
    assert third.fragments == ()


def test_a_clearing_slot_is_not_used_where_no_user_speaks_before_it() -> None:
    for bound in (True, False):
        session = PlannedSession(a_profile(CLEARING, prefix_bound_thinking=bound), Placement.NATIVE, asks="")
        session.messages.append({"role": "assistant", "content": "x"})
        session.remind("a", ttl_turns=1)
        planned = session.plan()
        assert (scopes(planned), carriers(planned)) == ([Lifetime.KEPT], [(Form.MESSAGE, "user")])


@pytest.mark.parametrize(
    ("profile", "scope", "carrier"),
    [
        pytest.param(CLEARING, Lifetime.CLEARING, (Form.MESSAGE, "system"), id="anthropic"),
        pytest.param(
            a_profile(CLEARING, inline_verified=False), Lifetime.KEPT, (Form.TEXT, "user"), id="anthropic-not-verified"
        ),
        pytest.param(
            a_profile(CLEARING, inline_system=InlineSystem.NONE),
            Lifetime.KEPT,
            (Form.TEXT, "user"),
            id="anthropic-no-slot",
        ),
        pytest.param(
            a_profile(CLEARING, self_clearing=None), Lifetime.KEPT, (Form.TEXT, "user"), id="anthropic-not-clearing"
        ),
        pytest.param(GPT, Lifetime.KEPT, (Form.MESSAGE, "developer"), id="openai-chat"),
        pytest.param(
            a_profile(GPT, wire=Wire.OPENAI_RESPONSES, prefers_role_developer=False),
            Lifetime.KEPT,
            (Form.MESSAGE, "developer"),
            id="openai-responses",
        ),
        pytest.param(
            a_profile(GPT, inline_verified=False, prefers_role_developer=False),
            Lifetime.VOLATILE,
            (Form.TEXT, "user"),
            id="openai-not-verified",
        ),
        pytest.param(
            a_profile(GPT, developer_role=False, prefers_role_developer=False),
            Lifetime.VOLATILE,
            (Form.TEXT, "user"),
            id="openai-without-the-role",
        ),
        pytest.param(
            a_profile(UNKNOWN, inline_verified=True, self_clearing="x", developer_role=True),
            Lifetime.VOLATILE,
            (Form.TEXT, "user"),
            id="a-wire-without-a-slot",
        ),
    ],
)
def test_native_uses_a_slot_of_the_provider_only_where_it_is_heeded(
    profile: Profile, scope: Lifetime, carrier: tuple[Form, str]
) -> None:
    session = PlannedSession(profile, Placement.NATIVE)
    session.remind("a", ttl_turns=1)
    planned = session.plan()
    assert (scopes(planned), carriers(planned)) == ([scope], [carrier])


def test_notices_beside_developer_items_follow_their_own_rule() -> None:
    session = PlannedSession(GPT, Placement.NATIVE)
    session.remind("p", sender=PEER, ttl_turns=1)
    session.remind("a", ttl_turns=1)
    planned = session.plan()
    assert [(fragment.reminders, fragment.scope) for fragment in planned.fragments] == [
        (("a",), Lifetime.KEPT),
        (("p",), Lifetime.VOLATILE),
    ]


# Nothing to say.


def test_a_request_without_reminders_has_no_fragments() -> None:
    assert PlannedSession(CLAUDE).plan() == Plan()


def test_a_carried_reminder_alone_adds_no_text_after_the_model() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a")
    session.asked_and_answered(then="")
    with pytest.raises(NothingToAnswer, match="no reminder adds text"):
        session.plan()
    session.forget("a")
    assert texts(session.plan()) == ["<system-reminder>\nWithdrawn: 1.\n</system-reminder>"]


# The same request once more.


def test_a_request_that_is_sent_again_says_the_same() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("old")
    session.asked_and_answered()
    session.remind("a", ttl_turns=1)
    session.remind("b")
    before = session.ask()
    session.remind("late")
    session.forget("a")
    again = session.plan(again=before.fragments)
    assert again.fragments is before.fragments
    assert set(again.shown) == set(before.shown)


def test_a_repeated_request_lists_only_reminders_that_are_still_live() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("old")
    session.asked_and_answered()
    session.forget("old")
    assert session.plan(again=()) == Plan()


# What is told beside.


def test_unusable_reminders_are_listed_in_transcript_order() -> None:
    session = PlannedSession(a_profile(accepts_notices=False, context_window=20_000))
    session.remind("huge", "x" * 8_001)
    session.remind("a")
    session.remind("peer", sender=PEER)
    session.remind("blank", "")
    planned = session.plan()
    assert planned.unusable == (
        Unusable("huge", DropReason.TOO_LARGE),
        Unusable("peer", DropReason.CAPABILITY_MISMATCH),
        Unusable("blank", DropReason.INVALID),
    )
    assert shown_ids(planned) == ["a"]


def test_a_lost_hint_is_told_with_every_request_that_says_the_text() -> None:
    session = PlannedSession(UNKNOWN)
    session.remind("a", role_hint=RoleHint.USER_BLOCK, ttl_turns=2)
    first, second = session.asked_and_answered(), session.asked_and_answered()
    assert first.advice == second.advice != ()


def test_the_budget_is_shared_by_kept_and_volatile_text() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a", "x" * 3_900, ttl_turns=2)
    session.remind("b", "x" * 3_900)
    session.remind("c", "x" * 3_900, ttl_turns=2)
    planned = session.plan()
    assert planned.left_out == ("c",)
    assert [fragment.reminders for fragment in planned.fragments] == [("b",), ("a",)]


# Remembering saves work and changes nothing.


def test_a_reminder_of_the_same_id_in_another_session_is_another() -> None:
    one, two = PlannedSession(CLAUDE), PlannedSession(CLAUDE)
    one.remind("a", "one", ttl_turns=2)
    two.remind("a", "two", ttl_turns=2)
    assert texts(one.plan()) == ["<system-reminder>\none\n</system-reminder>"]
    assert texts(two.plan()) == ["<system-reminder>\ntwo\n</system-reminder>"]
    assert texts(one.plan()) == ["<system-reminder>\none\n</system-reminder>"]


def test_more_reminders_than_are_remembered_are_shown_all_the_same() -> None:
    session = PlannedSession(CLAUDE)
    for number in range(300):
        session.remind(f"r{number}", "x", ttl_turns=2)
    planner = Planner(CLAUDE, Placement.TAIL)
    first, second = (planner.plan(session.view(), session.state.ledger.on(ROUTE)) for _ in range(2))
    assert first == second
    assert len(first.shown) + len(first.left_out) == 300


def test_the_planner_forgets_the_texts_of_reminders_it_no_longer_plans() -> None:
    planner = Planner(CLAUDE, Placement.TAIL)
    for round_ in range(3):
        session = PlannedSession(CLAUDE)
        for number in range(300):
            session.remind(f"r{round_}-{number}", "x", ttl_turns=2)
        planner.plan(session.view(), session.state.ledger.on(ROUTE))
    assert max(len(end.known) for end in planner._ends.values()) == 300

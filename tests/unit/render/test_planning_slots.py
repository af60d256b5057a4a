"""The slots of providers, requests with nothing to say, requests sent once more, and what is told beside them."""

import pytest

from sideband.core.events import DropReason
from sideband.core.ledger import Form, Fragment, Scope
from sideband.core.lifecycle import Shown, Unusable
from sideband.core.reminder import RoleHint
from sideband.render.planning import GO_ON, Planned, Planner
from sideband.render.profile import InlineSystem, Placement, Profile, Wire
from tests.sessions import PEER
from tests.talks import CLAUDE, CLEARING, GPT, ROUTE, UNKNOWN, Talk, a_profile, carriers, scopes, shown_ids, texts

# The slots of providers.


def test_a_clearing_slot_takes_what_is_finite_and_ours() -> None:
    talk = Talk(CLEARING)
    talk.remind("gone")
    talk.asked_and_answered()
    talk.forget("gone")
    talk.remind("f1", "one", ttl_turns=1)
    talk.remind("nil", "two")
    talk.remind("peer", "three", PEER, ttl_turns=2)
    talk.remind("f2", "four", ttl_turns=3, role_hint=RoleHint.USER_BLOCK)
    planned = talk.plan()
    assert [fragment.reminders for fragment in planned.fragments] == [(), ("nil",), ("peer",), ("f1", "f2")]
    assert scopes(planned) == [Scope.KEPT, Scope.KEPT, Scope.KEPT, Scope.CLEARING]
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
    talk = Talk(a_profile(CLEARING, prefix_bound_thinking=False), Placement.NATIVE)
    talk.remind("peer", sender=PEER, ttl_turns=1)
    talk.remind("a", ttl_turns=1)
    assert scopes(talk.plan()) == [Scope.KEPT, Scope.CLEARING]


def test_a_clearing_entry_is_said_again_while_its_reminder_lives() -> None:
    talk = Talk(CLEARING)
    talk.remind("a", ttl_turns=2)
    first, second, third = (talk.asked_and_answered() for _ in range(3))
    assert texts(first) == texts(second) != []
    assert third.fragments == ()


@pytest.mark.parametrize("end", ["assistant", "system"])
def test_a_clearing_slot_is_not_used_where_no_user_speaks_before_it(end: str) -> None:
    for bound in (True, False):
        talk = Talk(a_profile(CLEARING, prefix_bound_thinking=bound), Placement.NATIVE, asks="")
        talk.messages.append({"role": end, "content": "x"})
        talk.remind("a", ttl_turns=1)
        planned = talk.plan()
        assert (scopes(planned), carriers(planned)) == ([Scope.KEPT], [(Form.MESSAGE, "user")])


@pytest.mark.parametrize(
    ("profile", "scope", "carrier"),
    [
        pytest.param(CLEARING, Scope.CLEARING, (Form.MESSAGE, "system"), id="anthropic"),
        pytest.param(
            a_profile(CLEARING, inline_verified=False), Scope.KEPT, (Form.TEXT, "user"), id="anthropic-not-verified"
        ),
        pytest.param(
            a_profile(CLEARING, inline_system=InlineSystem.NONE),
            Scope.KEPT,
            (Form.TEXT, "user"),
            id="anthropic-no-slot",
        ),
        pytest.param(
            a_profile(CLEARING, self_clearing=None), Scope.KEPT, (Form.TEXT, "user"), id="anthropic-not-clearing"
        ),
        pytest.param(GPT, Scope.KEPT, (Form.MESSAGE, "developer"), id="openai-chat"),
        pytest.param(
            a_profile(GPT, wire=Wire.OPENAI_RESPONSES, prefers_role_developer=False),
            Scope.KEPT,
            (Form.MESSAGE, "developer"),
            id="openai-responses",
        ),
        pytest.param(
            a_profile(GPT, inline_verified=False, prefers_role_developer=False),
            Scope.VOLATILE,
            (Form.TEXT, "user"),
            id="openai-not-verified",
        ),
        pytest.param(
            a_profile(GPT, developer_role=False, prefers_role_developer=False),
            Scope.VOLATILE,
            (Form.TEXT, "user"),
            id="openai-without-the-role",
        ),
        pytest.param(
            a_profile(UNKNOWN, inline_verified=True, self_clearing="x", developer_role=True),
            Scope.VOLATILE,
            (Form.TEXT, "user"),
            id="a-wire-without-a-slot",
        ),
    ],
)
def test_native_uses_a_slot_of_the_provider_only_where_it_is_heeded(
    profile: Profile, scope: Scope, carrier: tuple[Form, str]
) -> None:
    talk = Talk(profile, Placement.NATIVE)
    talk.remind("a", ttl_turns=1)
    planned = talk.plan()
    assert (scopes(planned), carriers(planned)) == ([scope], [carrier])


def test_notices_beside_developer_items_follow_their_own_rule() -> None:
    talk = Talk(GPT, Placement.NATIVE)
    talk.remind("p", sender=PEER, ttl_turns=1)
    talk.remind("a", ttl_turns=1)
    planned = talk.plan()
    assert [(fragment.reminders, fragment.scope) for fragment in planned.fragments] == [
        (("a",), Scope.KEPT),
        (("p",), Scope.VOLATILE),
    ]


# Nothing to say.


def test_a_request_without_reminders_has_no_fragments() -> None:
    assert Talk(CLAUDE).plan() == Planned(anchor=1)


def test_the_user_says_to_go_on_where_there_is_nothing_else_behind_the_model() -> None:
    talk = Talk(CLAUDE)
    talk.asked_and_answered(then="")
    (said,) = talk.plan().fragments
    assert said == Fragment(anchor=2, form=Form.MESSAGE, role="user", scope=Scope.KEPT, text=GO_ON)
    talk.remind("blank", " ")
    planned = talk.plan()
    assert planned.fragments == (said,)
    assert planned.unusable == (Unusable("blank", DropReason.INVALID),)


def test_a_carried_reminder_alone_does_not_speak_behind_the_model() -> None:
    talk = Talk(CLAUDE)
    talk.remind("a")
    talk.asked_and_answered(then="")
    planned = talk.plan()
    assert texts(planned) == [GO_ON]
    assert planned.shown == (Shown("a", "user", carried=True),)


def test_a_model_that_may_speak_twice_needs_no_word() -> None:
    talk = Talk(GPT)
    talk.asked_and_answered(then="")
    assert talk.plan().fragments == ()


# The same request once more.


def test_a_request_that_is_sent_again_says_the_same() -> None:
    talk = Talk(CLAUDE)
    talk.remind("old")
    talk.asked_and_answered()
    talk.remind("a", ttl_turns=1)
    talk.remind("b")
    before = talk.ask()
    talk.remind("late")
    talk.forget("a")
    again = talk.plan(again=before.fragments)
    assert again.fragments is before.fragments
    assert set(again.shown) == set(before.shown)
    assert again.anchor == before.anchor


def test_what_is_sent_again_carries_only_what_still_lives() -> None:
    talk = Talk(CLAUDE)
    talk.remind("old")
    talk.asked_and_answered()
    talk.forget("old")
    assert talk.plan(again=()) == Planned(anchor=3)


# What is told beside.


def test_what_cannot_be_shown_is_told_in_transcript_order() -> None:
    talk = Talk(a_profile(accepts_notices=False, context_window=20_000))
    talk.remind("huge", "x" * 8_001)
    talk.remind("a")
    talk.remind("peer", sender=PEER)
    talk.remind("blank", "")
    planned = talk.plan()
    assert planned.unusable == (
        Unusable("huge", DropReason.TOO_LARGE),
        Unusable("peer", DropReason.CAPABILITY_MISMATCH),
        Unusable("blank", DropReason.INVALID),
    )
    assert shown_ids(planned) == ["a"]


def test_a_lost_hint_is_told_with_every_request_that_says_the_text() -> None:
    talk = Talk(UNKNOWN)
    talk.remind("a", role_hint=RoleHint.USER_BLOCK, ttl_turns=2)
    first, second = talk.asked_and_answered(), talk.asked_and_answered()
    assert first.advice == second.advice != ()


def test_the_budget_is_shared_by_kept_and_volatile_text() -> None:
    talk = Talk(CLAUDE)
    talk.remind("a", "x" * 3_900, ttl_turns=2)
    talk.remind("b", "x" * 3_900)
    talk.remind("c", "x" * 3_900, ttl_turns=2)
    planned = talk.plan()
    assert planned.left_out == ("c",)
    assert [fragment.reminders for fragment in planned.fragments] == [("b",), ("a",)]


# Remembering saves work and changes nothing.


def test_a_reminder_of_the_same_id_in_another_session_is_another() -> None:
    one, two = Talk(CLAUDE), Talk(CLAUDE)
    one.remind("a", "one", ttl_turns=2)
    two.remind("a", "two", ttl_turns=2)
    assert texts(one.plan()) == ["<system-reminder>\none\n</system-reminder>"]
    assert texts(two.plan()) == ["<system-reminder>\ntwo\n</system-reminder>"]
    assert texts(one.plan()) == ["<system-reminder>\none\n</system-reminder>"]


def test_more_reminders_than_are_remembered_are_shown_all_the_same() -> None:
    talk = Talk(CLAUDE)
    for number in range(300):
        talk.remind(f"r{number}", "x", ttl_turns=2)
    planner = Planner(CLAUDE, Placement.TAIL)
    first, second = planner.plan(talk.view(), ROUTE), planner.plan(talk.view(), ROUTE)
    assert first == second
    assert len(first.shown) + len(first.left_out) == 300


def test_what_was_said_of_earlier_reminders_is_forgotten() -> None:
    planner = Planner(CLAUDE, Placement.TAIL)
    for session in range(3):
        talk = Talk(CLAUDE)
        for number in range(300):
            talk.remind(f"r{session}-{number}", "x", ttl_turns=2)
        planner.plan(talk.view(), ROUTE)
    assert max(len(end.known) for end in planner._ends.values()) == 300

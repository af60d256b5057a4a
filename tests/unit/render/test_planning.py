"""What each request says beside its messages, and for how long."""

from typing import Final

import pytest

from sideband.core.ledger import Form, Fragment, Scope
from sideband.core.lifecycle import Shown
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.render.planning import Planner, default_placement
from sideband.render.profile import Cache, InlineSystem, Placement, Profile
from tests.sessions import PEER, SERVER
from tests.talks import CLAUDE, CLEARING, GEMINI, GPT, UNKNOWN, Talk, a_profile, carriers, texts

BOUND: Final = a_profile(CLAUDE, prefix_bound_thinking=True)


# Placement.


@pytest.mark.parametrize(
    ("profile", "placement"),
    [
        pytest.param(UNKNOWN, Placement.TAIL, id="unknown-model"),
        pytest.param(CLAUDE, Placement.TAIL, id="free-prefix"),
        pytest.param(BOUND, Placement.TAIL, id="bound-without-clearing"),
        pytest.param(CLEARING, Placement.NATIVE, id="bound-and-clearing"),
        pytest.param(a_profile(CLEARING, prefix_bound_thinking=False), Placement.TAIL, id="clearing-and-free"),
        pytest.param(a_profile(CLEARING, inline_verified=False), Placement.TAIL, id="not-verified"),
        pytest.param(a_profile(CLEARING, inline_system=InlineSystem.NONE), Placement.TAIL, id="no-slot"),
        pytest.param(a_profile(CLEARING, placement=Placement.SEED), Placement.SEED, id="stated"),
    ],
)
def test_the_profile_tells_the_placement(profile: Profile, placement: Placement) -> None:
    assert default_placement(profile) is placement


# What carries a fragment.


@pytest.mark.parametrize(
    ("profile", "end", "carrier"),
    [
        pytest.param(CLAUDE, "user", (Form.TEXT, "user"), id="behind-the-user"),
        pytest.param(CLAUDE, "tool", (Form.TEXT, "user"), id="behind-results"),
        pytest.param(CLAUDE, "assistant", (Form.MESSAGE, "user"), id="behind-the-model"),
        pytest.param(CLAUDE, "", (Form.MESSAGE, "user"), id="before-anybody"),
        pytest.param(
            a_profile(CLAUDE, user_text_resets_reasoning=True),
            "tool",
            (Form.RESULT, "user"),
            id="in-a-result-of-the-user",
        ),
        pytest.param(
            a_profile(CLAUDE, user_text_resets_reasoning=True), "user", (Form.TEXT, "user"), id="resets-nothing-there"
        ),
        pytest.param(
            a_profile(GEMINI, user_after_tool=False), "tool", (Form.RESULT, "user"), id="in-a-result-of-gemini"
        ),
        pytest.param(UNKNOWN, "tool", (Form.RESULT, "tool"), id="in-a-result"),
        pytest.param(
            a_profile(UNKNOWN, fold_into_tool_result=False),
            "tool",
            (Form.TEXT, "user"),
            id="where-results-are-not-read",
        ),
        pytest.param(
            a_profile(CLAUDE, user_text_resets_reasoning=True, fold_into_tool_result=False),
            "tool",
            (Form.TEXT, "user"),
            id="lost-reasoning-before-a-lost-reminder",
        ),
        pytest.param(GPT, "user", (Form.MESSAGE, "developer"), id="developer-behind-the-user"),
        pytest.param(GPT, "tool", (Form.MESSAGE, "developer"), id="developer-behind-results"),
        pytest.param(GPT, "assistant", (Form.MESSAGE, "developer"), id="developer-behind-the-model"),
        pytest.param(GPT, "", (Form.MESSAGE, "developer"), id="developer-before-anybody"),
    ],
)
def test_the_end_of_the_conversation_decides_what_carries_text(
    profile: Profile, end: str, carrier: tuple[Form, str]
) -> None:
    talk = Talk(profile, Placement.TAIL, asks="")
    talk.remind("a")
    if end:
        talk.messages.append({"role": end, "content": "x"})
    planned = talk.plan()
    assert carriers(planned) == [carrier]
    assert planned.shown == (Shown("a", carrier[1]),)
    assert planned.anchor == planned.fragments[0].anchor == len(talk.messages)


def test_only_the_first_text_behind_the_model_begins_a_turn() -> None:
    talk = Talk(UNKNOWN)
    talk.asked_and_answered(then="")
    for reminder_id in "abc":
        talk.remind(reminder_id)
    assert carriers(talk.plan()) == [(Form.MESSAGE, "user"), (Form.TEXT, "user"), (Form.TEXT, "user")]


def test_text_behind_a_developer_message_begins_another_turn() -> None:
    talk = Talk(a_profile(GPT, fold_into_tool_result=True, user_after_tool=False))
    talk.remind("p", sender=PEER)
    talk.remind("a")
    talk.remind("q", sender=PEER)
    talk.remind("r", sender=SERVER)
    expected = [(Form.TEXT, "user"), (Form.MESSAGE, "developer"), (Form.MESSAGE, "user"), (Form.TEXT, "user")]
    assert carriers(talk.plan()) == expected
    talk.result()
    assert carriers(talk.plan()) == expected


# How long a fragment stands.


@pytest.mark.parametrize(
    ("profile", "end", "sender", "scope"),
    [
        pytest.param(CLAUDE, "user", IN_PROCESS, Scope.VOLATILE, id="text"),
        pytest.param(CLAUDE, "tool", PEER, Scope.VOLATILE, id="notice"),
        pytest.param(CLAUDE, "assistant", IN_PROCESS, Scope.KEPT, id="turn-of-its-own"),
        pytest.param(
            a_profile(CLAUDE, consecutive_assistant=True),
            "assistant",
            IN_PROCESS,
            Scope.VOLATILE,
            id="answers-may-join",
        ),
        pytest.param(
            a_profile(CLAUDE, consecutive_assistant=True),
            "system",
            IN_PROCESS,
            Scope.KEPT,
            id="the-first-turn-there-is",
        ),
        pytest.param(BOUND, "user", IN_PROCESS, Scope.KEPT, id="prefix-bound"),
        pytest.param(CLEARING, "user", IN_PROCESS, Scope.KEPT, id="clearing-slot-not-used"),
        pytest.param(a_profile(server_side_history=True), "user", IN_PROCESS, Scope.KEPT, id="server-side-history"),
        pytest.param(a_profile(kv_prefix=True), "user", IN_PROCESS, Scope.KEPT, id="kv-prefix"),
        pytest.param(GEMINI, "user", IN_PROCESS, Scope.KEPT, id="text-under-implicit-caching"),
        pytest.param(
            a_profile(cache=Cache.IMPLICIT), "tool", IN_PROCESS, Scope.KEPT, id="in-a-result-under-implicit-caching"
        ),
        pytest.param(GPT, "user", IN_PROCESS, Scope.VOLATILE, id="developer-message"),
        pytest.param(GPT, "assistant", IN_PROCESS, Scope.VOLATILE, id="developer-message-behind-the-model"),
        pytest.param(
            a_profile(GPT, cache=Cache.IMPLICIT),
            "user",
            IN_PROCESS,
            Scope.VOLATILE,
            id="developer-under-implicit-caching",
        ),
        pytest.param(
            a_profile(GPT, cache=Cache.IMPLICIT), "user", PEER, Scope.KEPT, id="notice-under-implicit-caching"
        ),
        pytest.param(
            a_profile(GPT, consecutive_assistant=False),
            "user",
            IN_PROCESS,
            Scope.KEPT,
            id="message-that-cannot-be-missed",
        ),
        pytest.param(
            a_profile(GPT, consecutive_assistant=False), "user", SERVER, Scope.VOLATILE, id="text-beside-such-messages"
        ),
    ],
)
def test_a_finite_reminder_is_volatile_unless_the_route_demands_otherwise(
    profile: Profile, end: str, sender: Provenance, scope: Scope
) -> None:
    talk = Talk(profile, Placement.TAIL, asks="")
    talk.messages.append({"role": end, "content": "x"})
    talk.remind("a", sender=sender, ttl_turns=2)
    talk.remind("b", sender=sender)
    planned = talk.plan()
    by_id = {fragment.reminders[0]: fragment for fragment in planned.fragments}
    assert by_id["a"].scope is scope
    assert by_id["b"].scope is Scope.KEPT
    assert [fragment.handle is None for fragment in planned.fragments] == [
        fragment.scope is Scope.VOLATILE for fragment in planned.fragments
    ]


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        pytest.param(None, '<system-reminder id="1">\nx\n</system-reminder>', id="no-ttl"),
        pytest.param(1, '<system-reminder id="1">\nx\n</system-reminder>', id="one-turn"),
        pytest.param(2, '<system-reminder id="1" turns="2">\nx\n</system-reminder>', id="two-turns"),
    ],
)
def test_what_is_kept_states_more_than_one_turn(ttl: int | None, text: str) -> None:
    talk = Talk(BOUND)
    talk.remind("a", "x", ttl_turns=ttl)
    assert texts(talk.plan()) == [text]


def test_it_states_the_turns_that_remain() -> None:
    talk = Talk(CLAUDE)
    talk.remind("a", "x", ttl_turns=3)
    talk.asked_and_answered()
    talk.profile = BOUND
    assert texts(talk.plan()) == ['<system-reminder id="1" turns="2">\nx\n</system-reminder>']


def test_handles_go_on_from_those_of_the_ledger() -> None:
    talk = Talk(CLAUDE)
    talk.remind("a")
    talk.remind("b")
    talk.asked_and_answered()
    talk.remind("c")
    assert [fragment.handle for fragment in talk.plan().fragments] == [3]


def test_a_route_of_its_own_knows_nothing_of_another() -> None:
    talk = Talk(CLAUDE)
    talk.remind("a")
    talk.asked_and_answered()
    planned = Planner(CLAUDE, Placement.TAIL).plan(talk.view(), "another-route")
    assert [(fragment.handle, fragment.reminders) for fragment in planned.fragments] == [(1, ("a",))]


# Withdrawing.


def test_what_ended_is_withdrawn_once_and_in_one_line() -> None:
    talk = Talk(CLAUDE)
    for reminder_id in "abc":
        talk.remind(reminder_id)
    talk.asked_and_answered()
    talk.forget("a")
    talk.forget("c")
    planned = talk.asked_and_answered()
    assert planned.fragments == (
        Fragment(
            anchor=3,
            form=Form.TEXT,
            role="user",
            scope=Scope.KEPT,
            text="<system-reminder>\nWithdrawn: 1, 3.\n</system-reminder>",
            withdraws=(1, 3),
        ),
    )
    assert planned.shown == (Shown("b", "user", carried=True),)
    assert talk.plan().fragments == ()


@pytest.mark.parametrize(
    ("profile", "placement", "then", "carrier", "text"),
    [
        pytest.param(UNKNOWN, None, "tool", (Form.RESULT, "tool"), "System reminder:\nWithdrawn: 1.", id="in-a-result"),
        pytest.param(
            UNKNOWN, None, "", (Form.MESSAGE, "user"), "System reminder:\nWithdrawn: 1.", id="behind-the-model"
        ),
        pytest.param(GPT, None, "tool", (Form.MESSAGE, "developer"), "System reminder:\nWithdrawn: 1.", id="developer"),
        pytest.param(
            CLEARING,
            None,
            "tool",
            (Form.TEXT, "user"),
            "<system-reminder>\nWithdrawn: 1.\n</system-reminder>",
            id="beside-a-clearing-slot",
        ),
        pytest.param(
            a_profile(CLAUDE, prefers_xml_scaffolding=False),
            None,
            "user",
            (Form.TEXT, "user"),
            "<system-reminder>\nWithdrawn: 1.\n</system-reminder>",
            id="anthropic-without-scaffolding",
        ),
        pytest.param(
            a_profile(GPT, prefers_role_developer=False),
            Placement.NATIVE,
            "tool",
            (Form.MESSAGE, "developer"),
            "System reminder:\nWithdrawn: 1.",
            id="developer-item",
        ),
    ],
)
def test_a_withdrawal_speaks_as_the_route_does(
    profile: Profile, placement: Placement | None, then: str, carrier: tuple[Form, str], text: str
) -> None:
    talk = Talk(profile, placement)
    talk.remind("a")
    talk.asked_and_answered(then=then)
    talk.forget("a")
    planned = talk.plan()
    assert (carriers(planned), texts(planned)) == ([carrier], [text])


def test_text_behind_a_withdrawal_is_in_the_turn_that_it_began() -> None:
    talk = Talk(UNKNOWN)
    talk.remind("a")
    talk.asked_and_answered(then="")
    talk.forget("a")
    talk.remind("b")
    assert carriers(talk.plan()) == [(Form.MESSAGE, "user"), (Form.TEXT, "user")]


def test_a_notice_behind_a_withdrawal_of_a_developer_begins_a_turn() -> None:
    talk = Talk(GPT)
    talk.remind("a")
    talk.asked_and_answered(then="user")
    talk.forget("a")
    talk.remind("p", sender=PEER)
    assert carriers(talk.plan()) == [(Form.MESSAGE, "developer"), (Form.MESSAGE, "user")]

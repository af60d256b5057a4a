"""Planning a request: what it says beside the messages and for how long, which reminders it shows, and how it ends."""

from typing import Any, Final

import pytest

from sideband.core.errors import NothingToAnswer
from sideband.core.events import DropReason
from sideband.core.ledger import Form, Fragment, Lifetime
from sideband.core.live import LiveItem
from sideband.core.reminder import RoleHint
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.core.turn import Shown, Unusable
from sideband.render.plan import (
    TAILS,
    Advice,
    Look,
    Piece,
    Planner,
    Reader,
    Tail,
    default_placement,
    tail_of,
)
from sideband.render.profiles import Cache, InlineSystem, Placement, Profile
from sideband.render.shapes import ReminderShape
from tests.builders import a_reminder
from tests.planned_sessions import CLAUDE, CLEARING, GEMINI, GPT, UNKNOWN, PlannedSession, a_profile, carriers, texts
from tests.sessions import PEER, SERVER

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
def test_the_profile_decides_the_placement(profile: Profile, placement: Placement) -> None:
    assert default_placement(profile) is placement


# What carries a fragment.


@pytest.mark.parametrize(
    ("profile", "end", "carrier"),
    [
        pytest.param(CLAUDE, "user", (Form.TEXT, "user"), id="after-the-user"),
        pytest.param(CLAUDE, "tool", (Form.TEXT, "user"), id="after-results"),
        pytest.param(CLAUDE, "assistant", (Form.MESSAGE, "user"), id="after-the-model"),
        pytest.param(CLAUDE, "", (Form.MESSAGE, "user"), id="in-an-empty-conversation"),
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
        pytest.param(GPT, "user", (Form.MESSAGE, "developer"), id="developer-after-the-user"),
        pytest.param(GPT, "tool", (Form.MESSAGE, "developer"), id="developer-after-results"),
        pytest.param(GPT, "assistant", (Form.MESSAGE, "developer"), id="developer-after-the-model"),
        pytest.param(GPT, "", (Form.MESSAGE, "developer"), id="developer-in-an-empty-conversation"),
    ],
)
def test_the_end_of_the_conversation_decides_the_form_and_the_role(
    profile: Profile, end: str, carrier: tuple[Form, str]
) -> None:
    session = PlannedSession(profile, Placement.TAIL, asks="")
    session.remind("a")
    if end:
        session.messages.append({"role": end, "content": "x"})
    planned = session.plan()
    assert carriers(planned) == [carrier]
    assert planned.shown == (Shown("a", carrier[1]),)
    assert planned.fragments[0].anchor == len(session.messages)


def test_only_the_first_text_after_the_model_begins_a_turn() -> None:
    session = PlannedSession(UNKNOWN)
    session.asked_and_answered(then="")
    for reminder_id in "abc":
        session.remind(reminder_id)
    assert carriers(session.plan()) == [(Form.MESSAGE, "user"), (Form.TEXT, "user"), (Form.TEXT, "user")]


def test_text_after_a_developer_message_begins_another_turn() -> None:
    session = PlannedSession(a_profile(GPT, fold_into_tool_result=True, user_after_tool=False))
    session.remind("p", sender=PEER)
    session.remind("a")
    session.remind("q", sender=PEER)
    session.remind("r", sender=SERVER)
    expected = [(Form.TEXT, "user"), (Form.MESSAGE, "developer"), (Form.MESSAGE, "user"), (Form.TEXT, "user")]
    assert carriers(session.plan()) == expected
    session.result()
    assert carriers(session.plan()) == expected


# How long a fragment stands.


@pytest.mark.parametrize(
    ("profile", "end", "sender", "scope"),
    [
        pytest.param(CLAUDE, "user", IN_PROCESS, Lifetime.VOLATILE, id="text"),
        pytest.param(CLAUDE, "tool", PEER, Lifetime.VOLATILE, id="notice"),
        pytest.param(CLAUDE, "assistant", IN_PROCESS, Lifetime.KEPT, id="turn-of-its-own"),
        pytest.param(
            a_profile(CLAUDE, consecutive_assistant=True),
            "assistant",
            IN_PROCESS,
            Lifetime.VOLATILE,
            id="answers-may-join",
        ),
        pytest.param(
            a_profile(CLAUDE, consecutive_assistant=True),
            "",
            IN_PROCESS,
            Lifetime.KEPT,
            id="the-first-turn-there-is",
        ),
        pytest.param(CLAUDE, "system", IN_PROCESS, Lifetime.VOLATILE, id="after-a-summary"),
        pytest.param(BOUND, "user", IN_PROCESS, Lifetime.KEPT, id="prefix-bound"),
        pytest.param(CLEARING, "user", IN_PROCESS, Lifetime.KEPT, id="clearing-slot-not-used"),
        pytest.param(a_profile(server_side_history=True), "user", IN_PROCESS, Lifetime.KEPT, id="server-side-history"),
        pytest.param(a_profile(kv_prefix=True), "user", IN_PROCESS, Lifetime.KEPT, id="kv-prefix"),
        pytest.param(GEMINI, "user", IN_PROCESS, Lifetime.KEPT, id="text-under-implicit-caching"),
        pytest.param(
            a_profile(cache=Cache.IMPLICIT), "tool", IN_PROCESS, Lifetime.KEPT, id="in-a-result-under-implicit-caching"
        ),
        pytest.param(GPT, "user", IN_PROCESS, Lifetime.VOLATILE, id="developer-message"),
        pytest.param(GPT, "assistant", IN_PROCESS, Lifetime.VOLATILE, id="developer-message-after-the-model"),
        pytest.param(
            a_profile(GPT, cache=Cache.IMPLICIT),
            "user",
            IN_PROCESS,
            Lifetime.VOLATILE,
            id="developer-under-implicit-caching",
        ),
        pytest.param(
            a_profile(GPT, cache=Cache.IMPLICIT), "user", PEER, Lifetime.KEPT, id="notice-under-implicit-caching"
        ),
        pytest.param(
            a_profile(GPT, consecutive_assistant=False),
            "user",
            IN_PROCESS,
            Lifetime.KEPT,
            id="message-that-cannot-be-missed",
        ),
        pytest.param(
            a_profile(GPT, consecutive_assistant=False),
            "user",
            SERVER,
            Lifetime.VOLATILE,
            id="text-beside-such-messages",
        ),
    ],
)
def test_a_finite_reminder_is_volatile_unless_the_route_demands_otherwise(
    profile: Profile, end: str, sender: Provenance, scope: Lifetime
) -> None:
    session = PlannedSession(profile, Placement.TAIL, asks="")
    session.messages.extend({"role": role, "content": "x"} for role in (end,) if role)
    session.remind("a", sender=sender, ttl_turns=2)
    session.remind("b", sender=sender)
    planned = session.plan()
    by_id = {fragment.reminders[0]: fragment for fragment in planned.fragments}
    assert by_id["a"].scope is scope
    assert by_id["b"].scope is Lifetime.KEPT
    assert [fragment.handle is None for fragment in planned.fragments] == [
        fragment.scope is Lifetime.VOLATILE for fragment in planned.fragments
    ]


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        pytest.param(None, '<system-reminder id="1">\nx\n</system-reminder>', id="no-ttl"),
        pytest.param(1, '<system-reminder id="1">\nx\n</system-reminder>', id="one-turn"),
        pytest.param(2, '<system-reminder id="1" turns="2">\nx\n</system-reminder>', id="two-turns"),
    ],
)
def test_kept_text_states_a_ttl_of_more_than_one_turn(ttl: int | None, text: str) -> None:
    session = PlannedSession(BOUND)
    session.remind("a", "x", ttl_turns=ttl)
    assert texts(session.plan()) == [text]


def test_it_states_the_turns_that_remain() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a", "x", ttl_turns=3)
    session.asked_and_answered()
    session.profile = BOUND
    assert texts(session.plan()) == ['<system-reminder id="1" turns="2">\nx\n</system-reminder>']


def test_handles_continue_after_those_of_the_ledger() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a")
    session.remind("b")
    session.asked_and_answered()
    session.remind("c")
    assert [fragment.handle for fragment in session.plan().fragments] == [3]


def test_the_ledger_of_one_route_does_not_affect_another() -> None:
    session = PlannedSession(CLAUDE)
    session.remind("a")
    session.asked_and_answered()
    planned = Planner(CLAUDE, Placement.TAIL).plan(session.view(), session.state.ledger.on("another-route"))
    assert [(fragment.handle, fragment.reminders) for fragment in planned.fragments] == [(1, ("a",))]


# Withdrawing.


def test_ended_reminders_are_withdrawn_once_and_in_one_line() -> None:
    session = PlannedSession(CLAUDE)
    for reminder_id in "abc":
        session.remind(reminder_id)
    session.asked_and_answered()
    session.forget("a")
    session.forget("c")
    planned = session.asked_and_answered()
    assert planned.fragments == (
        Fragment(
            anchor=3,
            form=Form.TEXT,
            role="user",
            scope=Lifetime.KEPT,
            text="<system-reminder>\nWithdrawn: 1, 3.\n</system-reminder>",
            withdraws=(1, 3),
        ),
    )
    assert planned.shown == (Shown("b", "user", carried=True),)
    assert session.plan().fragments == ()


@pytest.mark.parametrize(
    ("profile", "placement", "then", "carrier", "text"),
    [
        pytest.param(UNKNOWN, None, "tool", (Form.RESULT, "tool"), "System reminder:\nWithdrawn: 1.", id="in-a-result"),
        pytest.param(
            UNKNOWN, None, "", (Form.MESSAGE, "user"), "System reminder:\nWithdrawn: 1.", id="after-the-model"
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
def test_a_withdrawal_has_the_role_and_shape_of_the_route(
    profile: Profile, placement: Placement | None, then: str, carrier: tuple[Form, str], text: str
) -> None:
    session = PlannedSession(profile, placement)
    session.remind("a")
    session.asked_and_answered(then=then)
    session.forget("a")
    planned = session.plan()
    assert (carriers(planned), texts(planned)) == ([carrier], [text])


def test_text_after_a_withdrawal_is_in_the_turn_that_it_began() -> None:
    session = PlannedSession(UNKNOWN)
    session.remind("a")
    session.asked_and_answered(then="")
    session.forget("a")
    session.remind("b")
    assert carriers(session.plan()) == [(Form.MESSAGE, "user"), (Form.TEXT, "user")]


def test_a_notice_after_a_withdrawal_in_the_developer_role_begins_a_turn() -> None:
    session = PlannedSession(GPT)
    session.remind("a")
    session.asked_and_answered(then="user")
    session.forget("a")
    session.remind("p", sender=PEER)
    assert carriers(session.plan()) == [(Form.MESSAGE, "developer"), (Form.MESSAGE, "user")]


# Which reminders a route shows, and what their senders are told.


CONTENT = Provenance(trust=Trust.CONTENT)


def an_item(sender: Provenance = IN_PROCESS, *, place: int = 0, reminder_id: str = "r1", **fields: object) -> LiveItem:
    return LiveItem(reminder=a_reminder(reminder_id, **fields), provenance=sender, place=place)


def a_piece(reader: Reader, item: LiveItem, *, tokens: int = 10) -> Piece:
    look = reader.look(item)
    assert isinstance(look, Look)
    return Piece(item, look, Shown(item.id, "user"), "text", tokens)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        pytest.param(an_item(body=""), DropReason.INVALID, id="empty"),
        pytest.param(an_item(body=" \n\t\u3000"), DropReason.INVALID, id="blank"),
        pytest.param(an_item(body="half \ud83e of a crab"), DropReason.INVALID, id="half-a-character"),
        pytest.param(an_item(CONTENT), DropReason.CAPABILITY_MISMATCH, id="found-in-content"),
        pytest.param(an_item(PEER), DropReason.CAPABILITY_MISMATCH, id="peer"),
        pytest.param(an_item(SERVER), DropReason.CAPABILITY_MISMATCH, id="server"),
        pytest.param(an_item(PEER, body=" "), DropReason.INVALID, id="blank-from-a-peer"),
    ],
)
def test_some_reminders_cannot_be_shown_on_a_route_without_notices(item: LiveItem, reason: DropReason) -> None:
    assert Reader(a_profile(accepts_notices=False)).look(item) is reason


@pytest.mark.parametrize("body", ["x", "日本語", " x ", "\u200b"])
def test_every_body_that_can_be_encoded_can_be_shown(body: str) -> None:
    assert Reader(UNKNOWN).look(an_item(body=body)) == Look(
        ReminderShape.PLAIN_SYSTEM_TEXT, is_tagged=False, is_notice=False, lost=None
    )


def test_a_route_with_notices_shows_those_of_peers_and_servers() -> None:
    reader = Reader(UNKNOWN)
    notice = Look(ReminderShape.NOTICE, is_tagged=True, is_notice=True, lost=None)
    assert {reader.look(an_item(sender, role_hint=hint)) for sender in (PEER, SERVER) for hint in RoleHint} == {notice}


def test_a_slot_that_demands_a_shape_gets_it_for_all_but_peers_and_servers() -> None:
    reader = Reader(CLAUDE, always=ReminderShape.DEVELOPER_MESSAGE)
    own = reader.look(an_item(role_hint=RoleHint.SYSTEM))
    assert own == Look(ReminderShape.DEVELOPER_MESSAGE, is_tagged=False, is_notice=False, lost=None)
    assert reader.look(an_item(PEER)) == Look(ReminderShape.NOTICE, is_tagged=True, is_notice=True, lost=None)


@pytest.mark.parametrize(
    ("window", "tokens", "is_too_large"),
    [
        pytest.param(None, 10**9, False, id="nothing-is-where-the-window-is-unknown"),
        pytest.param(1_000, 100, False, id="a-tenth"),
        pytest.param(1_000, 101, True, id="more-than-a-tenth"),
    ],
)
def test_a_text_is_too_large_for_a_window(window: int | None, tokens: int, is_too_large: bool) -> None:  # noqa: FBT001 - a column
    assert (tokens > Reader(a_profile(context_window=window)).largest) is is_too_large


def test_reminders_left_out_are_listed_in_transcript_order() -> None:
    reader = Reader(UNKNOWN)
    pieces = [a_piece(reader, an_item(place=place, reminder_id=f"r{place}"), tokens=900) for place in range(4)]
    assert reader.left_out(pieces) == ("r2", "r3")
    assert reader.left_out(reversed(pieces)) == ("r2", "r3")
    assert reader.left_out(pieces[:2]) == ()


@pytest.mark.parametrize(
    ("profile", "hint", "shape"),
    [
        pytest.param(GPT, RoleHint.USER_BLOCK, "developer message", id="user-block-to-developer"),
        pytest.param(GPT, RoleHint.EPHEMERAL_CACHE, "developer message", id="ephemeral-cache-to-developer"),
        pytest.param(GEMINI, RoleHint.USER_BLOCK, "tagged system text", id="user-block-to-tags"),
        pytest.param(UNKNOWN, RoleHint.EPHEMERAL_CACHE, "plain system text", id="ephemeral-cache-to-plain"),
        pytest.param(CLAUDE, RoleHint.USER_BLOCK, None, id="anthropic-keeps-user-blocks"),
        pytest.param(CLAUDE, RoleHint.EPHEMERAL_CACHE, None, id="anthropic-keeps-cached-ones"),
        pytest.param(UNKNOWN, RoleHint.DEVELOPER, None, id="developer-is-content"),
        pytest.param(GPT, RoleHint.SYSTEM, None, id="system-is-content"),
    ],
)
def test_a_sender_is_told_of_a_lost_hint(profile: Profile, hint: RoleHint, shape: str | None) -> None:
    reader = Reader(profile)
    piece = a_piece(reader, an_item(role_hint=hint, dedupe_key="build:status"))
    route = f"{profile.transport}:{profile.model}"
    told = f"{route} does not keep the hint {hint}: the reminder of the key 'build:status' becomes a {shape}"
    assert reader.advice([piece]) == ((Advice("HARN-RMD-003", told),) if shape else ())


def test_a_peer_is_told_nothing_of_its_hint() -> None:
    reader = Reader(UNKNOWN)
    assert reader.advice([a_piece(reader, an_item(PEER, role_hint=RoleHint.USER_BLOCK))]) == ()


def test_the_same_advice_is_given_once() -> None:
    reader = Reader(UNKNOWN)
    items = [an_item(reminder_id=f"r{place}", role_hint=RoleHint.USER_BLOCK) for place in range(3)]
    (told,) = reader.advice([a_piece(reader, item) for item in items])
    assert "a reminder without a key" in told.message


# The end of a request.


@pytest.mark.parametrize(
    ("messages", "tail"),
    [
        pytest.param([], Tail.EMPTY, id="nothing"),
        pytest.param([{"role": "system", "content": "Summary."}], Tail.USER, id="a-summary-alone"),
        pytest.param([{"role": "assistant"}, {"role": "user"}], Tail.USER, id="user"),
        pytest.param([{"role": "assistant"}, {"role": "tool"}], Tail.RESULTS, id="tool-results"),
        pytest.param([{"role": "user"}, {"role": "assistant"}], Tail.ASSISTANT, id="assistant"),
        pytest.param([{"role": "assistant", "tool_calls": [{}]}], Tail.RESULTS, id="calls-that-get-a-result"),
    ],
)
def test_the_tail_follows_from_the_last_message(messages: list[dict[str, Any]], tail: Tail) -> None:
    assert tail_of(messages) is tail


def test_every_tail_of_a_conversation_has_a_role() -> None:
    assert set(TAILS.values()) == set(Tail) - {Tail.EMPTY}


@pytest.mark.parametrize("profile", [CLAUDE, GEMINI, GPT, UNKNOWN], ids=lambda profile: profile.transport)
@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]])
def test_a_request_that_says_nothing_new_is_refused(profile: Profile, messages: list[dict[str, Any]]) -> None:
    session = PlannedSession(profile, asks="")
    session.messages.extend(messages)
    session.remind("blank", " ")
    for plan in (session.plan, session.plan_seed):
        with pytest.raises(
            NothingToAnswer, match=r"1 cannot be shown on this route \(invalid\); send a message"
        ) as told:
            plan()
        assert told.value.unusable == (Unusable("blank", DropReason.INVALID),)

"""Where reminders stand in a request, and what carries them."""

from itertools import product
from typing import Final

import pytest

from sideband.core.ledger import Form, Lifetime
from sideband.core.reminder import RoleHint
from sideband.core.trust import IN_PROCESS
from sideband.render.plan import default_placement
from sideband.render.profiles import Placement, Profile, Wire
from sideband.render.seed import SeedSlot
from tests.planned_sessions import (
    CLAUDE,
    CLEARING,
    GEMINI,
    GPT,
    UNKNOWN,
    PlannedSession,
    a_profile,
    carriers,
    scopes,
    shown_ids,
    texts,
)
from tests.sessions import PEER

BOUND: Final = a_profile(CLAUDE, prefix_bound_thinking=True)
ROUTES: Final = (CLAUDE, BOUND, CLEARING, GPT, GEMINI, UNKNOWN)
ENDS: Final = ("user", "tool", "assistant", "system")


def a_talk(profile: Profile, end: str = "user", placement: Placement | None = None) -> PlannedSession:
    """A conversation that ends so."""
    session = PlannedSession(profile, placement)
    session.messages.append({"role": end, "content": "x"})
    return session


# The presets.


@pytest.mark.requirement("render:request:every-request-in-transcript-order")
@pytest.mark.parametrize("profile", ROUTES)
@pytest.mark.parametrize("ttl", [None, 3])
def test_every_request_shows_the_live_reminders_in_transcript_order(profile: Profile, ttl: int | None) -> None:
    session = PlannedSession(profile)
    for reminder_id in "zaym":
        session.remind(reminder_id, ttl_turns=ttl)
    for turn in range(3):
        assert [placed.reminder_id for placed in session.placed()] == list("zaym")
        planned = session.asked_and_answered()
        assert shown_ids(planned) == list("zaym")
        said = [reminder_id for fragment in planned.fragments for reminder_id in fragment.reminders]
        assert said == [entry.reminder_id for entry in planned.shown if not entry.carried]
        assert said or turn


@pytest.mark.requirement("render:seed:system-text-is-in-the-system-prompt")
@pytest.mark.parametrize("profile", [CLAUDE, GEMINI, UNKNOWN])
def test_seed_puts_system_text_between_the_parts_of_the_system_text(profile: Profile) -> None:
    session = PlannedSession(profile)
    session.remind("a", role_hint=RoleHint.DEVELOPER)
    assert [(placed.slot, placed.role) for placed in session.placed()] == [(SeedSlot.SYSTEM, "system")]


@pytest.mark.requirement("render:seed:user-blocks-come-first")
def test_seed_puts_user_blocks_before_the_first_text_of_the_user() -> None:
    session = a_talk(CLAUDE, "tool")
    for reminder_id, hint in [("b", RoleHint.USER_BLOCK), ("s", RoleHint.SYSTEM), ("a", RoleHint.EPHEMERAL_CACHE)]:
        session.remind(reminder_id, role_hint=hint)
    placed = [(placed.reminder_id, placed.role) for placed in session.placed() if placed.slot is SeedSlot.FIRST_USER]
    assert placed == [("b", "user"), ("a", "user")]


@pytest.mark.requirement("render:seed:developer-messages-come-first")
def test_seed_puts_developer_messages_before_the_conversation() -> None:
    session = PlannedSession(GPT)
    session.remind("a")
    session.remind("b", role_hint=RoleHint.USER_BLOCK)
    slots = [(placed.slot, placed.role) for placed in session.placed()]
    assert slots == [(SeedSlot.FRONT_DEVELOPER, "developer")] * 2


@pytest.mark.requirement("render:breakpoint:seed-marks-the-last-block")
def test_seed_marks_only_the_last_cached_block() -> None:
    session = PlannedSession(CLAUDE)
    for reminder_id in "abc":
        session.remind(reminder_id, role_hint=RoleHint.EPHEMERAL_CACHE)
    assert [placed.marked for placed in session.placed()] == [False, False, True]


@pytest.mark.requirement("render:tail:is-the-default")
@pytest.mark.parametrize("profile", [CLAUDE, BOUND, GPT, GEMINI, UNKNOWN])
def test_without_another_choice_reminders_stand_at_the_end(profile: Profile) -> None:
    assert default_placement(profile) is Placement.TAIL
    for end in ENDS:
        session = a_talk(profile, end)
        session.remind("a")
        assert [fragment.anchor for fragment in session.plan().fragments] == [len(session.messages)]


@pytest.mark.requirement("render:tail:developer-message-is-last")
@pytest.mark.parametrize("end", ENDS)
def test_tail_puts_developer_messages_last(end: str) -> None:
    session = a_talk(GPT, end)
    session.remind("p", sender=PEER, ttl_turns=1)
    session.remind("a", ttl_turns=1)
    session.remind("b", ttl_turns=1)
    planned = session.plan()
    assert carriers(planned)[1:] == [(Form.MESSAGE, "developer")] * 2
    assert {fragment.anchor for fragment in planned.fragments} == {len(session.messages)}


@pytest.mark.requirement("render:tail:text-joins-an-unanswered-user-turn")
@pytest.mark.parametrize("profile", [CLAUDE, BOUND, GEMINI, UNKNOWN])
def test_text_joins_a_user_turn_that_nobody_has_answered(profile: Profile) -> None:
    session = a_talk(profile, "user")
    session.remind("a", ttl_turns=1)
    session.remind("b")
    assert set(carriers(session.plan())) == {(Form.TEXT, "user")}


@pytest.mark.requirement("render:tail:text-follows-tool-results")
@pytest.mark.parametrize("profile", [CLAUDE, BOUND, GEMINI, a_profile(user_after_tool=True)])
def test_text_follows_tool_results_where_the_wire_allows_it(profile: Profile) -> None:
    session = a_talk(profile, "tool")
    session.remind("a", ttl_turns=1)
    assert carriers(session.plan()) == [(Form.TEXT, "user")]


@pytest.mark.requirement("render:tail:text-folds-into-the-last-tool-result")
@pytest.mark.parametrize(
    ("profile", "role"),
    [
        pytest.param(UNKNOWN, "tool", id="unknown-model"),
        pytest.param(a_profile(user_after_tool=True, user_text_resets_reasoning=True), "tool", id="reasoning-at-stake"),
        pytest.param(a_profile(CLAUDE, user_text_resets_reasoning=True), "user", id="results-in-a-message-of-the-user"),
    ],
)
def test_text_folds_into_the_last_tool_result_where_none_may_follow_it(profile: Profile, role: str) -> None:
    session = a_talk(profile, "tool")
    session.remind("a", ttl_turns=1)
    session.remind("b", sender=PEER)
    assert carriers(session.plan()) == [(Form.RESULT, role)] * 2


@pytest.mark.requirement("render:tail:new-user-turn-only-after-the-assistant")
@pytest.mark.parametrize("profile", [CLAUDE, BOUND, GEMINI, UNKNOWN])
def test_a_user_turn_is_opened_only_behind_the_assistant(profile: Profile) -> None:
    opened = {}
    for end in ("user", "tool", "assistant"):
        session = a_talk(profile, end)
        session.remind("a", ttl_turns=1)
        session.remind("b")
        opened[end] = [form for form, _ in carriers(session.plan())].count(Form.MESSAGE)
    assert opened == {"user": 0, "tool": 0, "assistant": 1}


@pytest.mark.requirement("render:profile:unknown-model-folds-into-the-last-message")
@pytest.mark.parametrize(
    ("end", "form"), [pytest.param("user", Form.TEXT, id="user"), pytest.param("tool", Form.RESULT, id="tool-result")]
)
def test_an_unknown_model_reads_reminders_in_the_last_message(end: str, form: Form) -> None:
    session = a_talk(UNKNOWN, end)
    for sender, ttl in product((IN_PROCESS, PEER), (None, 2)):
        session.remind(f"{sender.trust}-{ttl}", sender=sender, ttl_turns=ttl)
    planned = session.plan()
    assert {form_of for form_of, _ in carriers(planned)} == {form}
    assert {fragment.anchor for fragment in planned.fragments} == {len(session.messages)}


# The slots of providers.


@pytest.mark.requirement("render:native:default-where-prefix-bound-and-clearing")
def test_native_is_the_default_where_a_bound_prefix_clears() -> None:
    for bound, verified, beta in product((True, False), (True, False), ("beta", None)):
        profile = a_profile(CLEARING, prefix_bound_thinking=bound, inline_verified=verified, self_clearing=beta)
        chosen = default_placement(profile)
        assert (chosen is Placement.NATIVE) is (bound and verified and beta is not None)


@pytest.mark.requirement("render:native:only-verified-slots")
@pytest.mark.parametrize("profile", [CLEARING, a_profile(GPT, prefers_role_developer=False)])
@pytest.mark.parametrize("end", ["user", "tool"])
def test_native_is_tail_where_the_slot_is_not_verified(profile: Profile, end: str) -> None:
    roles = {}
    for verified in (True, False):
        session = a_talk(a_profile(profile, inline_verified=verified), end, Placement.NATIVE)
        session.remind("a", ttl_turns=1)
        planned = session.plan()
        roles[verified] = carriers(planned)[0][1]
        if not verified:
            session.placement = Placement.TAIL
            assert planned == session.plan()
    assert roles == {True: "system" if profile is CLEARING else "developer", False: "user"}


@pytest.mark.requirement("render:native:anthropic-clearing-entry", "render:native:anthropic-one-system-entry")
@pytest.mark.parametrize("end", ["user", "tool"])
def test_finite_reminders_share_one_entry_that_clears(end: str) -> None:
    session = a_talk(CLEARING, end)
    for reminder_id, ttl in [("a", 1), ("nil", None), ("b", 2), ("c", 9)]:
        session.remind(reminder_id, ttl_turns=ttl)
    for _ in range(2):
        planned = session.asked_and_answered()
        entries = [fragment for fragment in planned.fragments if fragment.role == "system"]
        assert entries == list(planned.fragments[-1:])
        assert [entry.scope for entry in entries] == [Lifetime.CLEARING]
        finite = [key for key in shown_ids(planned) if key != "nil"]
        assert list(entries[0].reminders) == finite
        assert all(f"Body of {key}." in entries[0].text for key in finite)


@pytest.mark.requirement("render:native:anthropic-lasting-text")
def test_lasting_text_and_withdrawals_stand_before_the_clearing_entry() -> None:
    session = PlannedSession(CLEARING)
    session.remind("old")
    session.asked_and_answered()
    session.forget("old")
    session.remind("finite", ttl_turns=1)
    session.remind("lasting")
    assert [(fragment.role, fragment.form, fragment.text) for fragment in session.plan().fragments] == [
        ("user", Form.TEXT, "<system-reminder>\nWithdrawn: 1.\n</system-reminder>"),
        ("user", Form.TEXT, '<system-reminder id="2">\nBody of lasting.\n</system-reminder>'),
        ("system", Form.MESSAGE, "<system-reminder>\nBody of finite.\n</system-reminder>"),
    ]


@pytest.mark.requirement("render:native:openai-developer-items")
@pytest.mark.parametrize("wire", [Wire.OPENAI_CHAT, Wire.OPENAI_RESPONSES])
@pytest.mark.parametrize("end", ENDS)
def test_native_on_openai_uses_developer_items_that_stay(wire: Wire, end: str) -> None:
    session = a_talk(a_profile(GPT, wire=wire, prefers_role_developer=False), end, Placement.NATIVE)
    session.remind("a", "The build is red.", ttl_turns=3, role_hint=RoleHint.USER_BLOCK)
    planned = session.plan()
    assert (carriers(planned), scopes(planned)) == ([(Form.MESSAGE, "developer")], [Lifetime.KEPT])
    assert texts(planned) == ["System reminder 1 (3 turns):\nThe build is red."]

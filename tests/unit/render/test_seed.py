"""The placement `seed`: where it puts reminders."""

import pytest

from sideband.core.events import DropReason
from sideband.core.ledger import Form
from sideband.core.reminder import RoleHint
from sideband.core.turn import Shown, Unusable
from sideband.render.profiles import Cache, LeadingRole, Profile
from sideband.render.seed import SLOTS, Placed, SeedSlot
from sideband.render.shapes import ReminderShape
from tests.planned_sessions import (
    CLAUDE,
    GEMINI,
    GPT,
    UNKNOWN,
    PlannedSession,
    a_profile,
    carriers,
    shown_ids,
    texts,
)
from tests.sessions import PEER


def test_every_shape_has_a_slot() -> None:
    assert SLOTS.keys() == set(ReminderShape)


@pytest.mark.parametrize(
    ("profile", "hint", "slot", "role"),
    [
        pytest.param(CLAUDE, RoleHint.SYSTEM, SeedSlot.SYSTEM, "system", id="system-text"),
        pytest.param(CLAUDE, RoleHint.USER_BLOCK, SeedSlot.FIRST_USER, "user", id="user-block"),
        pytest.param(CLAUDE, RoleHint.EPHEMERAL_CACHE, SeedSlot.FIRST_USER, "user", id="cached-user-block"),
        pytest.param(GPT, RoleHint.USER_BLOCK, SeedSlot.FRONT_DEVELOPER, "developer", id="developer-message"),
        pytest.param(GEMINI, RoleHint.SYSTEM, SeedSlot.SYSTEM, "system", id="scaffolding"),
        pytest.param(
            a_profile(leading_role=LeadingRole.DEVELOPER),
            RoleHint.SYSTEM,
            SeedSlot.SYSTEM,
            "developer",
            id="led-by-developer",
        ),
        pytest.param(
            a_profile(leading_role=LeadingRole.USER), RoleHint.SYSTEM, SeedSlot.SYSTEM, "user", id="led-by-user"
        ),
    ],
)
def test_a_reminder_stands_where_its_shape_belongs(profile: Profile, hint: RoleHint, slot: SeedSlot, role: str) -> None:
    session = PlannedSession(profile)
    session.remind("a", role_hint=hint)
    (placed,) = session.placed()
    assert (placed.slot, placed.role) == (slot, role)
    assert session.plan_seed().shown == (Shown("a", role),)


def test_a_notice_is_a_block_of_the_user_on_any_route() -> None:
    for profile in (CLAUDE, GPT, GEMINI, UNKNOWN):
        session = PlannedSession(profile)
        session.remind("a", "<b>", PEER, role_hint=RoleHint.SYSTEM)
        text = '<peer-notice from="planner">\n&lt;b&gt;\n</peer-notice>'
        assert session.placed() == (Placed("a", text, SeedSlot.FIRST_USER, "user"),)


@pytest.mark.parametrize(
    ("cache", "marked"),
    [
        pytest.param(Cache.EXPLICIT, ["c"], id="explicit"),
        pytest.param(Cache.IMPLICIT, ["c"], id="implicit"),
        pytest.param(Cache.NONE, [], id="no-cache"),
    ],
)
def test_only_the_last_cached_block_is_marked(cache: Cache, marked: list[str]) -> None:
    session = PlannedSession(a_profile(CLAUDE, cache=cache))
    for reminder_id, hint in [
        ("a", RoleHint.EPHEMERAL_CACHE),
        ("b", RoleHint.USER_BLOCK),
        ("c", RoleHint.EPHEMERAL_CACHE),
        ("d", RoleHint.USER_BLOCK),
    ]:
        session.remind(reminder_id, role_hint=hint)
    assert [placed.reminder_id for placed in session.placed() if placed.marked] == marked


def test_what_cannot_be_shown_and_what_does_not_fit_is_told() -> None:
    session = PlannedSession(a_profile(context_window=10_000))
    session.remind("blank", " ")
    session.remind("huge", "x" * 4_001)
    session.remind("a", "x" * 700, role_hint=RoleHint.USER_BLOCK)
    session.remind("b", "x" * 700, role_hint=RoleHint.USER_BLOCK)
    planned = session.plan_seed()
    assert planned.unusable == (Unusable("blank", DropReason.INVALID), Unusable("huge", DropReason.TOO_LARGE))
    assert (shown_ids(planned), planned.left_out) == (["a"], ("b",))
    assert [told.code for told in planned.advice] == ["HARN-RMD-003"]


@pytest.mark.parametrize("profile", [CLAUDE, GEMINI, UNKNOWN], ids=lambda profile: profile.transport)
def test_reminders_are_the_last_turn_where_a_request_would_end_with_the_model(profile: Profile) -> None:
    session = PlannedSession(profile)
    session.remind("a")
    session.remind("b", sender=PEER)
    assert session.plan_seed().fragments == ()
    at_the_front = [placed.text for placed in session.placed()]
    session.messages.append({"role": "assistant", "content": "Done."})
    planned = session.plan_seed()
    assert session.placed() == ()
    assert texts(planned) == at_the_front
    assert carriers(planned) == [(Form.MESSAGE, "user"), (Form.TEXT, "user")]
    assert planned.shown == (Shown("a", "user"), Shown("b", "user"))


def test_reminders_stay_at_the_front_where_a_request_may_end_with_the_model() -> None:
    session = PlannedSession(GPT)
    session.remind("a")
    session.messages.append({"role": "assistant", "content": "Done."})
    assert [placed.slot for placed in session.placed()] == [SeedSlot.FRONT_DEVELOPER]

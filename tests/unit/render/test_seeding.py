"""Where the preset `seed` puts reminders."""

import pytest

from sideband.core.events import DropReason
from sideband.core.lifecycle import Shown, Unusable
from sideband.core.reminder import RoleHint
from sideband.render.planning import GO_ON, Placed, Slot
from sideband.render.profile import Cache, LeadingRole, Profile
from sideband.render.seeding import SLOTS
from sideband.render.shapes import Shape
from tests.sessions import PEER
from tests.talks import CLAUDE, GEMINI, GPT, UNKNOWN, Talk, a_profile, shown_ids


def test_every_shape_has_a_slot() -> None:
    assert SLOTS.keys() == set(Shape)


@pytest.mark.parametrize(
    ("profile", "hint", "slot", "role"),
    [
        pytest.param(CLAUDE, RoleHint.SYSTEM, Slot.SYSTEM, "system", id="system-text"),
        pytest.param(CLAUDE, RoleHint.USER_BLOCK, Slot.FIRST_USER, "user", id="user-block"),
        pytest.param(CLAUDE, RoleHint.EPHEMERAL_CACHE, Slot.FIRST_USER, "user", id="cached-user-block"),
        pytest.param(GPT, RoleHint.USER_BLOCK, Slot.FRONT_DEVELOPER, "developer", id="developer-message"),
        pytest.param(GEMINI, RoleHint.SYSTEM, Slot.SYSTEM, "system", id="scaffolding"),
        pytest.param(
            a_profile(leading_role=LeadingRole.DEVELOPER),
            RoleHint.SYSTEM,
            Slot.SYSTEM,
            "developer",
            id="led-by-developer",
        ),
        pytest.param(a_profile(leading_role=LeadingRole.USER), RoleHint.SYSTEM, Slot.SYSTEM, "user", id="led-by-user"),
    ],
)
def test_a_reminder_stands_where_its_shape_belongs(profile: Profile, hint: RoleHint, slot: Slot, role: str) -> None:
    talk = Talk(profile)
    talk.remind("a", role_hint=hint)
    planned = talk.plan_seed()
    (placed,) = planned.placed
    assert (placed.slot, placed.role) == (slot, role)
    assert planned.shown == (Shown("a", role),)


def test_a_notice_is_a_block_of_the_user_on_any_route() -> None:
    for profile in (CLAUDE, GPT, GEMINI, UNKNOWN):
        talk = Talk(profile)
        talk.remind("a", "<b>", PEER, role_hint=RoleHint.SYSTEM)
        text = '<peer-notice from="planner">\n&lt;b&gt;\n</peer-notice>'
        assert talk.plan_seed().placed == (Placed("a", text, Slot.FIRST_USER, "user"),)


@pytest.mark.parametrize(
    ("cache", "marked"),
    [
        pytest.param(Cache.EXPLICIT, ["c"], id="explicit"),
        pytest.param(Cache.IMPLICIT, ["c"], id="implicit"),
        pytest.param(Cache.NONE, [], id="no-cache"),
    ],
)
def test_only_the_last_cached_block_is_marked(cache: Cache, marked: list[str]) -> None:
    talk = Talk(a_profile(CLAUDE, cache=cache))
    for reminder_id, hint in [
        ("a", RoleHint.EPHEMERAL_CACHE),
        ("b", RoleHint.USER_BLOCK),
        ("c", RoleHint.EPHEMERAL_CACHE),
        ("d", RoleHint.USER_BLOCK),
    ]:
        talk.remind(reminder_id, role_hint=hint)
    assert [placed.reminder_id for placed in talk.plan_seed().placed if placed.marked] == marked


def test_what_cannot_be_shown_and_what_does_not_fit_is_told() -> None:
    talk = Talk(a_profile(context_window=10_000))
    talk.remind("blank", " ")
    talk.remind("huge", "x" * 4_001)
    talk.remind("a", "x" * 700, role_hint=RoleHint.USER_BLOCK)
    talk.remind("b", "x" * 700, role_hint=RoleHint.USER_BLOCK)
    planned = talk.plan_seed()
    assert planned.unusable == (Unusable("blank", DropReason.INVALID), Unusable("huge", DropReason.TOO_LARGE))
    assert (shown_ids(planned), planned.left_out) == (["a"], ("b",))
    assert [told.code for told in planned.advice] == ["HARN-RMD-003"]


def test_reminders_in_front_do_not_end_a_request_behind_the_model() -> None:
    talk = Talk(CLAUDE)
    talk.remind("a")
    assert talk.plan_seed().fragments == ()
    talk.messages.append({"role": "assistant", "content": "Done."})
    (said,) = talk.plan_seed().fragments
    assert (said.text, said.anchor) == (GO_ON, 2)

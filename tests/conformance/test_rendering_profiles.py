"""Profiles: data that comes with the package, and a user's rows over it."""

from datetime import date
from pathlib import Path

import pytest

from sideband.core.reminder import RoleHint
from sideband.render.profiles import Placement
from sideband.render.renderer import Renderer
from sideband.runtime.profiles import load_profiles
from tests.planned_sessions import PlannedSession


@pytest.mark.requirement("render:profile:rows-are-data")
def test_there_is_one_row_for_each_transport_and_prefix_with_a_source_and_a_date() -> None:
    rows = load_profiles().rows
    assert len({(row.transport, row.model) for row in rows}) == len(rows)
    for row in rows:
        assert row.source, row
        assert date.fromisoformat(row.verified) >= date(2026, 1, 1)


@pytest.mark.requirement("render:profile:user-overrides")
def test_what_a_users_row_states_decides_what_is_sent(tmp_path: Path) -> None:
    own = tmp_path / "profiles.toml"
    own.write_text(
        '[[profile]]\ntransport = "anthropic"\nmodel = "claude"\nplacement = "seed"\nsource = "us"\nverified = "2026-11-15"\n',
        encoding="utf-8",
    )
    model = "anthropic:claude-opus-5"
    session = PlannedSession(load_profiles().of(model))
    session.remind("a", "The build is red.", role_hint=RoleHint.SYSTEM, ttl_turns=1)
    built_in, overridden = (
        Renderer(profiles.of(model), model="claude-opus-5") for profiles in (load_profiles(), load_profiles(own))
    )
    assert built_in.placement is not Placement.SEED
    assert overridden.placement is Placement.SEED
    assert [shown.rendered_role for shown in overridden.render(session.view()).shown] == ["system"]
    assert overridden.profile.wire is built_in.profile.wire

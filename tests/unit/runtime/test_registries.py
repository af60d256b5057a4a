"""The hooks and providers of this process."""

from collections.abc import Iterator

import pytest

from sideband.core.hookevents import SessionEvent
from sideband.runtime import registries
from sideband.runtime.registries import HOOKS, PROVIDERS


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    registries.clear_hooks()
    registries.clear_reminder_providers()


def before(_ctx: object) -> None:
    """A hook that returns nothing."""


def after(_ctx: object) -> None:
    """Another one."""


def test_hooks_are_registered_for_the_process() -> None:
    registries.register_tool_hook("a*", pre=before, post=after)
    registries.register_step_hook(pre=before, post=after)
    registries.register_persona_hook("b*", pre=before, post=after)
    registries.register_session_hook("post_turn", before)
    assert HOOKS.tool == [("a*", before, after)]
    assert HOOKS.step == [("*", before, after)]
    assert HOOKS.persona == [("b*", before, after)]
    assert HOOKS.session == {SessionEvent.POST_TURN: [before]}
    registries.clear_hooks()
    assert (HOOKS.tool, HOOKS.step, HOOKS.persona, HOOKS.session) == ([], [], [], {})


def test_a_provider_is_registered_for_the_process_until_it_is_cleared() -> None:
    canonical = PROVIDERS.providers
    registries.register_reminder_provider(id="own", subscribes_to=["session_idle"], evaluate=lambda _ctx: None)
    assert [provider.id for provider in PROVIDERS.providers] == [*(provider.id for provider in canonical), "own"]
    registries.clear_reminder_providers()
    assert PROVIDERS.providers == canonical

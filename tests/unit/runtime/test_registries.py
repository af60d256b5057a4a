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


def test_hooks_are_registered_for_the_process() -> None:
    registries.register_tool_hook("a*", pre=min, post=max)
    registries.register_step_hook(pre=min, post=max)
    registries.register_persona_hook("b*", pre=min, post=max)
    registries.register_session_hook("post_turn", min)
    assert HOOKS.tool == [("a*", min, max)]
    assert HOOKS.step == [("*", min, max)]
    assert HOOKS.persona == [("b*", min, max)]
    assert HOOKS.session == {SessionEvent.POST_TURN: [min]}
    registries.clear_hooks()
    assert (HOOKS.tool, HOOKS.step, HOOKS.persona, HOOKS.session) == ([], [], [], {})


def test_a_provider_is_registered_for_the_process_until_it_is_cleared() -> None:
    canonical = PROVIDERS.providers
    registries.register_reminder_provider(id="own", subscribes_to=["session_idle"], evaluate=lambda _ctx: None)
    assert [provider.id for provider in PROVIDERS.providers] == [*(provider.id for provider in canonical), "own"]
    registries.clear_reminder_providers()
    assert PROVIDERS.providers == canonical

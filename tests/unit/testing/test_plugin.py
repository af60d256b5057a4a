"""The fixtures of the pytest plugin, used as a user would."""

import asyncio

import pytest

from sideband.runtime.agents import agent_loop
from sideband.runtime.registries import HOOKS, PROVIDERS, register_reminder_provider, register_session_hook
from sideband.runtime.session import Session
from sideband.testing import FakeClock, MemoryStore, ScriptedModel

pytest_plugins = ["sideband.testing.plugin"]


def test_an_agent_can_be_tested_with_the_fixtures(
    sideband_store: MemoryStore, sideband_session: Session, sideband_clock: FakeClock
) -> None:
    model = ScriptedModel()

    async def main() -> None:
        await sideband_session.remind("a fact")
        await agent_loop("Go.", session=sideband_session, model=model, clock=sideband_clock)

    asyncio.run(main())
    assert "a fact" in model.requests[0].text
    assert {logged.session_id for logged in sideband_store.journal} == {"test"}


@pytest.fixture
def _registries_were_cleaned() -> object:
    yield
    assert (HOOKS.session, len(PROVIDERS.providers)) == ({}, 8)


@pytest.mark.usefixtures("_registries_were_cleaned", "sideband_clean_registries")
def test_what_a_test_registers_is_forgotten() -> None:
    register_session_hook("post_turn", min)
    register_reminder_provider(id="own", subscribes_to=["post_turn"], evaluate=lambda _ctx: None)
    assert HOOKS.session
    assert len(PROVIDERS.providers) == 9

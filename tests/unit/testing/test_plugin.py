"""The pytest plugin: its fixtures, whether it is installed, loaded by name, or both."""

import asyncio
from pathlib import Path

import pytest

from sideband.runtime.agents import agent_loop
from sideband.runtime.registries import HOOKS, PROVIDERS, register_reminder_provider, register_session_hook
from sideband.runtime.session import Session
from sideband.testing import FakeClock, MemoryStore, ScriptedModel, plugin
from tests.programs import Answer, run_python

# The plugin is switched off in our own runs; its fixtures are these.
sideband_store = plugin.sideband_store
sideband_session = plugin.sideband_session
sideband_clock = plugin.sideband_clock
sideband_clean_registries = plugin.sideband_clean_registries


def test_a_session_lives_in_the_store_of_its_test(
    sideband_store: MemoryStore, sideband_session: Session, sideband_clock: FakeClock
) -> None:
    model = ScriptedModel()

    async def main() -> None:
        assert (await sideband_session.remind("a fact")).reminder_id == "r-1"
        await agent_loop("Go.", session=sideband_session, model=model, clock=sideband_clock)

    asyncio.run(main())
    assert "a fact" in model.requests[0].text
    assert {logged.session_id for logged in sideband_store.journal} == {"test"}


@pytest.fixture
def _an_earlier_registration() -> object:
    register_session_hook("post_turn", lambda _ctx: None)
    register_reminder_provider(id="own", subscribes_to=["post_turn"], evaluate=lambda _ctx: None)
    yield
    assert (HOOKS.session, len(PROVIDERS.providers)) == ({}, 8)


@pytest.mark.usefixtures("_an_earlier_registration", "sideband_clean_registries")
def test_registries_are_clean_at_the_beginning_and_at_the_end() -> None:
    assert (HOOKS.session, len(PROVIDERS.providers)) == ({}, 8)
    register_session_hook("post_turn", lambda _ctx: None)


# As a user has it: in a run of pytest of its own.


USES_IT = """
import asyncio
import sideband as sb
from sideband.testing import ScriptedModel


def test_an_agent(sideband_store, sideband_session, sideband_clock):
    model = ScriptedModel()

    async def main():
        await sideband_session.remind("a fact")
        await sb.agent_loop("Go.", session=sideband_session, model=model, clock=sideband_clock)

    asyncio.run(main())
    assert "a fact" in model.requests[0].text
    assert {logged.session_id for logged in sideband_store.journal} == {"test"}
    assert sideband_clock.monotonic() == 0
"""

REGISTERS = """
import sideband as sb
from sideband.runtime.registries import HOOKS, PROVIDERS


def register():
    sb.register_session_hook("post_turn", lambda _ctx: None)
    sb.register_reminder_provider(id="own", subscribes_to=["post_turn"], evaluate=lambda _ctx: None)


def registered():
    return bool(HOOKS.session), len(PROVIDERS.providers)


def test_1_registers_a_hook_and_leaves_it():
    register()
    assert registered() == (True, 9)


def test_2_starts_with_clean_registries(sideband_clean_registries):
    assert registered() == (False, 8)
    register()


def test_3_starts_clean_after_it():
    assert registered() == (False, 8)
"""


def pytest_on(folder: Path, text: str, *options: str, **environment: str) -> Answer:
    """What pytest says of a test file somewhere else."""
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    alone = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    return run_python(*alone, *options, str(folder / "test_it.py"), cwd=folder, env=environment)


@pytest.mark.parametrize(
    ("text", "options", "environment"),
    [
        pytest.param(USES_IT, [], {}, id="installed"),
        pytest.param(f'pytest_plugins = ["sideband.testing.plugin"]\n{USES_IT}', [], {}, id="asked-for-in-the-file"),
        pytest.param(USES_IT, ["-p", "sideband.testing.plugin"], {}, id="asked-for-on-the-command-line"),
        pytest.param(
            USES_IT,
            ["-p", "sideband.testing.plugin"],
            {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            id="asked-for-where-none-is-loaded-by-itself",
        ),
    ],
)
def test_an_agent_can_be_tested_with_the_fixtures(
    tmp_path: Path, text: str, options: list[str], environment: dict[str, str]
) -> None:
    answer = pytest_on(tmp_path, text, *options, **environment)
    assert "1 passed" in answer.stdout, answer.stdout + answer.stderr


def test_registries_are_clean_before_and_after_a_test_that_wants_them_so(tmp_path: Path) -> None:
    answer = pytest_on(tmp_path, REGISTERS)
    assert "3 passed" in answer.stdout, answer.stdout + answer.stderr


def test_the_plugin_can_be_switched_off(tmp_path: Path) -> None:
    answer = pytest_on(tmp_path, USES_IT, "-p", "no:sideband.testing.plugin")
    assert "fixture 'sideband_store' not found" in answer.stdout


def test_a_run_that_does_not_use_it_loads_nothing_else_of_the_package(tmp_path: Path) -> None:
    text = "import sys\n\ndef test_it():\n    assert not {'sideband.core', 'sideband.runtime'} & sys.modules.keys()\n"
    assert "1 passed" in pytest_on(tmp_path, text).stdout

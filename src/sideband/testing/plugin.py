"""The pytest plugin: fixtures for tests of agents. Enable it with `pytest_plugins = ["sideband.testing.plugin"]`."""

import pytest

from sideband.core.limits import DEFAULT_LIMITS
from sideband.runtime.registries import clear_hooks, clear_reminder_providers
from sideband.runtime.session import Session
from sideband.store.memory import MemoryStore
from sideband.testing.clock import FakeClock
from sideband.testing.ids import CountingIds


@pytest.fixture
def sideband_store() -> MemoryStore:
    """Where the sessions of this test live; its journal holds all that happened."""
    return MemoryStore()


@pytest.fixture
def sideband_session(sideband_store: MemoryStore) -> Session:
    """A session whose ids count."""
    return Session(sideband_store, "test", new_id=CountingIds(), limits=DEFAULT_LIMITS)


@pytest.fixture
def sideband_clock() -> FakeClock:
    """A clock on which nobody waits: a sleep moves it on."""
    return FakeClock()


@pytest.fixture
def sideband_clean_registries() -> object:
    """Forget the hooks and providers that the test registers."""
    yield
    clear_hooks()
    clear_reminder_providers()

"""The pytest plugin with fixtures for tests of agents, registered by installing the package.

pytest loads it in every run, so each fixture imports what it needs only when a test requests it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sideband.runtime.session import Session
    from sideband.store.memory import MemoryStore
    from sideband.testing.fakes import FakeClock


@pytest.fixture
def sideband_store() -> "MemoryStore":
    """An in-memory store for the sessions of this test."""
    from sideband.store.memory import MemoryStore  # noqa: PLC0415 - loaded on request

    return MemoryStore()


@pytest.fixture
def sideband_session(sideband_store: "MemoryStore") -> "Session":
    """A session with counting ids."""
    from sideband.core.limits import DEFAULT_LIMITS  # noqa: PLC0415 - loaded on request
    from sideband.runtime.session import Session  # noqa: PLC0415 - loaded on request
    from sideband.testing.fakes import CountingIds  # noqa: PLC0415 - loaded on request

    return Session(sideband_store, "test", new_id=CountingIds(), limits=DEFAULT_LIMITS)


@pytest.fixture
def sideband_clock() -> "FakeClock":
    """A fake clock on which a sleep returns at once and advances the time."""
    from sideband.testing.fakes import FakeClock  # noqa: PLC0415 - loaded on request

    return FakeClock()


@pytest.fixture
def sideband_clean_registries() -> Iterator[None]:
    """Remove registered hooks and providers before and after the test."""
    from sideband.runtime.registries import clear_hooks, clear_reminder_providers  # noqa: PLC0415 - loaded on request

    clear_hooks()
    clear_reminder_providers()
    yield
    clear_hooks()
    clear_reminder_providers()

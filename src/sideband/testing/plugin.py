"""The pytest plugin: fixtures for tests of agents. pytest finds it wherever the package is installed.

It is in every run, also in those that never use it, so each fixture imports what it needs when it is asked for.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sideband.runtime.session import Session
    from sideband.store.memory import MemoryStore
    from sideband.testing.clock import FakeClock


@pytest.fixture
def sideband_store() -> "MemoryStore":
    """Where the sessions of this test live; its journal holds all that happened."""
    from sideband.store.memory import MemoryStore  # noqa: PLC0415 - see above

    return MemoryStore()


@pytest.fixture
def sideband_session(sideband_store: "MemoryStore") -> "Session":
    """A session whose ids count."""
    from sideband.core.limits import DEFAULT_LIMITS  # noqa: PLC0415 - see above
    from sideband.runtime.session import Session  # noqa: PLC0415 - see above
    from sideband.testing.ids import CountingIds  # noqa: PLC0415 - see above

    return Session(sideband_store, "test", new_id=CountingIds(), limits=DEFAULT_LIMITS)


@pytest.fixture
def sideband_clock() -> "FakeClock":
    """A clock on which nobody waits: a sleep moves it on."""
    from sideband.testing.clock import FakeClock  # noqa: PLC0415 - see above

    return FakeClock()


@pytest.fixture
def sideband_clean_registries() -> Iterator[None]:
    """No hooks and no providers but the canonical ones: neither those of others before, nor this test's own after it."""
    from sideband.runtime.registries import clear_hooks, clear_reminder_providers  # noqa: PLC0415 - see above

    clear_hooks()
    clear_reminder_providers()
    yield
    clear_hooks()
    clear_reminder_providers()

"""Opening the place where sessions live."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from sideband.core.errors import InvalidOption, shown
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.ports import Journal
from sideband.runtime.ids import new_id
from sideband.runtime.session import Session
from sideband.store.memory import MemoryStore


class Store:
    """Sessions by name; the same name is the same session."""

    def __init__(
        self, journal: Journal, *, limits: Limits = DEFAULT_LIMITS, new_id: Callable[[], str] = new_id
    ) -> None:
        self.journal = journal
        self.limits = limits
        self.new_id = new_id
        self._sessions: dict[str, Session] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sessions outlive the handle on their store; they end when they are closed."""

    async def session(self, session_id: str | None = None) -> Session:
        """The session of this name, begun if there is none; without a name a new one."""
        name = session_id or self.new_id()
        if name not in self._sessions:
            self._sessions[name] = Session(self.journal, name, new_id=self.new_id, limits=self.limits)
        return self._sessions[name]


def open_store(url: str = "memory:", *, limits: Limits = DEFAULT_LIMITS) -> Store:
    """Open a store: `memory:` keeps sessions for the life of the process."""
    if url == "memory:":
        return Store(MemoryStore(), limits=limits)
    raise InvalidOption(f"no store can be opened at {shown(url)}; there is 'memory:'", field="url", value=url)

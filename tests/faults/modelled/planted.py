"""Stores that are wrong on purpose: what they write is not all that was decided."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from sideband.core.events import Checkpoint, Deduped, Event, Expired, InjectReplaced, Revoked
from sideband.core.state import SessionState
from sideband.ports import Committed, Decision, Journal, Lease
from sideband.store.memory import MemoryStore
from tests.faults.journals import PassingOn

FORGOTTEN: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {
        "what-is-displaced-stays": Deduped,
        "what-is-revoked-stays": Revoked,
        "what-is-replaced-keeps-its-text": InjectReplaced,
        "what-has-expired-stays": Expired,
        "what-a-drain-took-is-not-on-record": Checkpoint,
    }
)
"""What is forgotten, by what comes of it."""


class ForgetfulJournal(PassingOn):
    """Events of one kind are never written."""

    def __init__(self, behind: Journal, forgotten: type[Event]) -> None:
        super().__init__(behind)
        self._forgotten = forgotten

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        def forgetting(state: SessionState) -> Iterable[Event]:
            return [event for event in decide(state) if not isinstance(event, self._forgotten)]

        return await super().commit(session_id, forgetting, lease=lease)


class ForgetfulHome:
    """A store in memory behind such a journal."""

    def __init__(self, forgotten: type[Event]) -> None:
        self._journal = ForgetfulJournal(MemoryStore(), forgotten)

    async def open(self) -> Journal:
        return self._journal

    async def crash(self, journal: Journal) -> Journal:
        return journal

    async def leave(self) -> None: ...

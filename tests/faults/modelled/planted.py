"""Planted faults: stores that lose events of one kind."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from sideband.core.events import Checkpoint, Deduped, Event, Expired, InjectReplaced, Replaced, Revoked
from sideband.core.state import Decided, Decision, SessionState
from sideband.ports import Journal, Lease
from sideband.store.memory import MemoryStore
from tests.faults.journals import ForwardingJournal

_Value = TypeVar("_Value")

FORGOTTEN: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {
        "displaced-reminders-stay": Deduped,
        "revoked-reminders-stay": Revoked,
        "replaced-messages-keep-their-text": InjectReplaced,
        "replaced-reminders-keep-their-body": Replaced,
        "expired-reminders-stay": Expired,
        "drains-leave-no-checkpoint": Checkpoint,
    }
)
"""The lost events, by the effect."""


class ForgetfulJournal(ForwardingJournal):
    """Events of one kind are never written."""

    def __init__(self, inner: Journal, forgotten: type[Event]) -> None:
        super().__init__(inner)
        self._forgotten = forgotten

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        def forgetting(state: SessionState) -> Decided[_Value]:
            events, value = decide(state)
            return Decided([event for event in events if not isinstance(event, self._forgotten)], value)

        return await super().commit(session_id, forgetting, lease=lease, receipts=receipts)


class ForgetfulHome:
    """A memory store with such a journal."""

    def __init__(self, forgotten: type[Event]) -> None:
        self._journal = ForgetfulJournal(MemoryStore(), forgotten)

    async def open(self) -> Journal:
        return self._journal

    async def crash(self, journal: Journal) -> Journal:
        return journal

    async def leave(self) -> None: ...

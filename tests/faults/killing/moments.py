"""The moments at which a process is stopped and killed."""

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar
from unittest.mock import patch

from sideband.core.events import (
    Begun,
    Checkpoint,
    Compacted,
    Deleted,
    Event,
    InjectAccepted,
    Queued,
    Recorded,
    RequestCommitted,
    ResultRecorded,
    TurnCommitted,
)
from sideband.core.state import Decided, Decision, SessionState
from sideband.ports import Journal, Lease
from sideband.store.postgres import journal as statements
from tests.faults.disks import SpendingDisk
from tests.faults.journals import ForwardingJournal
from tests.faults.scripted_agent import Say

_Value = TypeVar("_Value")


class Moment(StrEnum):
    """The first ones are in the middle of a commit, the next ones between two of them."""

    ACCEPT = "accept"
    DRAIN = "drain"
    REQUEST = "request"
    TURN = "turn"
    RESULT = "result"
    COMPACTION = "compaction"
    BEGIN = "begin"
    RECORD = "record"
    DELETE = "delete"
    ANSWER = "answer"
    RESULTS = "results"
    COMPACTOR = "compactor"
    PRUNE = "prune"
    ANYWHERE = "anywhere"


# A process that begins, changes and deletes sessions lives through these.
OF_SESSIONS: Final = (Moment.BEGIN, Moment.RECORD, Moment.ACCEPT, Moment.DELETE, Moment.PRUNE, Moment.ANYWHERE)
# A session lives through all the others, and more than once through what a request has to outlive.
MOMENTS: Final = (
    *(moment for moment in Moment if moment not in {Moment.BEGIN, Moment.RECORD, Moment.DELETE, Moment.PRUNE}),
    Moment.ANSWER,
    Moment.ANSWER,
)

# What a commit has to hold for the moment to have come.
COMMITTING: Final[Mapping[Moment, type[Event] | tuple[type[Event], ...]]] = MappingProxyType(
    {
        Moment.ACCEPT: (Queued, InjectAccepted),
        Moment.DRAIN: Checkpoint,
        Moment.REQUEST: RequestCommitted,
        Moment.TURN: TurnCommitted,
        Moment.RESULT: ResultRecorded,
        Moment.COMPACTION: Compacted,
        Moment.BEGIN: Begun,
        Moment.RECORD: Recorded,
        Moment.DELETE: Deleted,
    }
)
NOW: Final = "now"


class HaltingDisk(SpendingDisk):
    """Once it is armed it does so many things more, says that the moment has come, and never does anything again."""

    def __init__(self, say: Say) -> None:
        # What a killed process has written is there, synced or not; only a power cut takes it away.
        super().__init__()
        self._say = say
        self.left: int | None = None

    def spend(self) -> None:
        if self.left is not None:
            if self.left == 0:
                self._say(NOW)
                threading.Event().wait()
            self.left -= 1


class HaltingWire:
    """The same for a server: before a commit is sent, on its way, or after it was made and before its reply."""

    BEFORE, ON_THE_WAY, BEHIND = range(3)

    def __init__(self, say: Say) -> None:
        self._say = say
        self._append = statements.append
        self.left: int | None = None

    async def append(self, *what: Any) -> int:  # noqa: ANN401 - whatever the store sends
        place = None if self.left is None else self.left % 3
        if place in (self.BEFORE, self.ON_THE_WAY):
            self._say(NOW)
        if place == self.BEFORE:
            await asyncio.Event().wait()
        sequence = await self._append(*what)
        if place == self.BEHIND:
            self._say(NOW)
            await asyncio.Event().wait()
        return sequence

    def watching(self) -> AbstractContextManager[object]:
        """While a store of this process is open there."""
        return patch.object(statements, "append", self.append)


class Stop:
    """Comes at the `count`th time that a moment is reached; inside a commit, `operations` of what is halted later."""

    def __init__(
        self, moment: Moment | None, count: int, operations: int, say: Say, halting: HaltingDisk | HaltingWire
    ) -> None:
        self._moment = moment
        self._count = count
        self._operations = operations
        self._say = say
        self._halting = halting

    def _comes(self, moment: str) -> bool:
        if moment == self._moment:
            self._count -= 1
        return moment == self._moment and self._count == 0

    async def at(self, moment: str) -> None:
        """A moment between two commits."""
        if self._comes(moment):
            self._say(NOW)
            await asyncio.Event().wait()

    def committing(self, events: Iterable[Event]) -> None:
        """This was decided, and nothing of it is written yet."""
        kinds = COMMITTING.get(self._moment) if self._moment is not None else None
        if kinds is None or self._moment is None or not any(isinstance(event, kinds) for event in events):
            return
        if self._comes(self._moment):
            self._halting.left = self._operations


class StoppingJournal(ForwardingJournal):
    """Tells what is being committed, from inside the commit."""

    def __init__(self, inner: Journal, stop: Stop) -> None:
        super().__init__(inner)
        self._stop = stop

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        def watched(state: SessionState) -> Decided[_Value]:
            decided = decide(state)
            self._stop.committing(decided.events)
            return decided

        return await super().commit(session_id, watched, lease=lease, receipts=receipts)

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        await self._stop.at(Moment.PRUNE)
        return await super().prune(session_id, keep_events=keep_events)

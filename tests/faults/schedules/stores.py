"""Stores for schedules: they record commits and differ in where they yield to other tasks."""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sideband.core.events import Event
from sideband.core.state import Decision
from sideband.ports import Lease
from sideband.store.memory import MemoryStore
from tests.decisions import whole

_Value = TypeVar("_Value")

Commit: TypeAlias = tuple[Event, ...]


class WitnessedStore(MemoryStore):
    """The store in memory, which also remembers what was committed together, and gives cues."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of a store in memory
        super().__init__(**options)
        self.commits: list[Commit] = []
        self._waiting: list[tuple[type[Event], asyncio.Future[None]]] = []
        self._is_over = False

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        decided = await super().commit(session_id, whole(decide), lease=lease, receipts=receipts)
        if decided.events:
            self.commits.append(tuple(decided.events))
            self.give_cues({type(event) for event in decided.events})
        return decided.value

    async def cue(self, kind: type[Event]) -> None:
        """Wait for the next event of this kind; the wait ends when the play is over."""
        if not self._is_over:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((kind, told))
            await told

    def give_cues(self, kinds: Collection[type[Event]]) -> None:
        for entry in tuple(self._waiting):
            if entry[0] in kinds or self._is_over:
                self._waiting.remove(entry)
                entry[1].set_result(None)

    def end_of_play(self) -> None:
        self._is_over = True
        self.give_cues(())


class _Order(NamedTuple):
    session_id: str
    decide: Decision[Any]
    lease: Lease | None
    receipts: Sequence[str]
    done: asyncio.Future[Any]


class GroupingStore(WitnessedStore):
    """Commits stand in line and are made together, as a store on a disk makes them, while others go on.

    A caller that gives up waiting does not take its commit back.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of a store in memory
        super().__init__(**options)
        self._line: deque[_Order] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        loop = asyncio.get_running_loop()
        order = _Order(session_id, decide, lease, receipts, loop.create_future())
        self._line.append(order)
        if self._writing is None:
            self._writing = loop.create_task(self._write(), name="writer")
        value: _Value = await order.done
        return value

    async def _write(self) -> None:
        while self._line:
            order = self._line.popleft()
            try:
                committed = await super().commit(
                    order.session_id, order.decide, lease=order.lease, receipts=order.receipts
                )
            except Exception as error:  # noqa: BLE001 - any error of a decision is raised to its caller
                if not order.done.cancelled():
                    order.done.set_exception(error)
            else:
                if not order.done.cancelled():
                    order.done.set_result(committed)
        self._writing = None

"""Agents whose commits are recorded, in an event loop that skips waiting."""

import asyncio
import functools
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from sideband.core.accept import accept
from sideband.core.events import Event
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Draft
from sideband.core.state import Decided, Decision, ValueT
from sideband.core.trust import Provenance
from sideband.models.scripted import Line
from sideband.ports import Lease
from sideband.runtime.store import Store
from sideband.testing import CountingIds, MemoryStore
from tests.loop_builders import AScene, ATool
from tests.sessions import CLIENT

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


# How long to wait for another thread before polling again.
_GLANCE: Final = 0.001


class _Jumping(selectors.DefaultSelector):
    """Waits only for other threads; `jumped` is the time it has skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped = 0.0
        self._threads = threading.active_count()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if threading.active_count() > self._threads:
            return super().select(_GLANCE if timeout is None else min(timeout, _GLANCE))
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits for something that will not happen")
        self.jumped += 0 if ready else max(timeout or 0, 0)
        return ready


class JumpingEventLoop(asyncio.SelectorEventLoop):
    """When every task waits, time jumps to the earliest timer."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.jumped


def awaited(test: Callable[_Given, Coroutine[Any, Any, _Value]]) -> Callable[_Given, _Value]:
    """A coroutine as a plain function that runs on a `JumpingEventLoop`."""

    @functools.wraps(test)
    def run(*args: _Given.args, **kwargs: _Given.kwargs) -> _Value:
        with asyncio.Runner(loop_factory=JumpingEventLoop) as runner:
            return runner.run(test(*args, **kwargs))

    return run


class RecordingStore(MemoryStore):
    """A memory store that records the events of each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[tuple[Event, ...]] = []

    async def commit(
        self, session_id: str, decide: Decision[ValueT], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> ValueT:
        before = len(self.journal)
        value = await super().commit(session_id, decide, lease=lease, receipts=receipts)
        if len(self.journal) > before:
            self.commits.append(tuple(logged.event for logged in self.journal[before:]))
        return value


class AnAgent(AScene):
    """An agent with the script of its model."""

    def __init__(self, *script: Line, tools: Sequence[ATool] = (), context_window: int | None = None) -> None:
        self.recorded = RecordingStore()
        super().__init__(*tools, store=self.recorded)
        self.says(*script, context_window=context_window)

    async def remembers(self, past: Iterable[Event]) -> None:
        """Commit the events of an earlier process."""
        await self.recorded.commit(self.session.id, lambda _: Decided(tuple(past), None))
        self.recorded.commits.clear()

    def shown(self, request: int = -1) -> tuple[str, ...]:
        """The reminders in one of its requests, as they were framed."""
        return self.model.requests[request].reminders

    async def accept(self, draft: Draft, sender: Provenance = CLIENT) -> str:
        """Accept a reminder from a sender outside this process, as a bridge does."""
        reminder_id = self.session.talk.new_id()
        await self.session.talk.journal.commit(
            self.session.talk.session_id,
            lambda state: accept(state, draft, sender, new_id=reminder_id, limits=DEFAULT_LIMITS),
        )
        return reminder_id

    def children(self) -> Store:
        """The store of its sub-agents, on the same journal."""
        return Store(self.recorded, new_id=CountingIds("child"))

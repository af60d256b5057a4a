"""Agents whose every commit can be looked at, in an event loop where nobody waits."""

import asyncio
import functools
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from sideband.core.draft import Draft
from sideband.core.events import Event
from sideband.core.inbox import accept
from sideband.core.state import SessionState
from sideband.core.trust import Provenance
from sideband.models.scripted import Line
from sideband.ports import Committed, Decision, Lease
from sideband.runtime.store import Store
from sideband.testing import CountingIds, MemoryStore
from tests.loop_builders import AScene, ATool
from tests.sessions import CLIENT

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


# How long another thread is left to itself before somebody looks again whether it is through.
_GLANCE: Final = 0.001


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing but other threads; `jumped` is how long it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped = 0.0
        self._threads = threading.active_count()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if threading.active_count() > self._threads:
            return super().select(_GLANCE if timeout is None else min(timeout, _GLANCE))
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits for something that nobody will do")
        self.jumped += 0 if ready else max(timeout or 0, 0)
        return ready


class JumpingEventLoop(asyncio.SelectorEventLoop):
    """Where everybody waits, time moves on at once to what the first of them waits for."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.jumped


def awaited(test: Callable[_Given, Coroutine[Any, Any, _Value]]) -> Callable[_Given, _Value]:
    """A coroutine as a function that can be called; nothing in it takes longer than it computes."""

    @functools.wraps(test)
    def run(*args: _Given.args, **kwargs: _Given.kwargs) -> _Value:
        with asyncio.Runner(loop_factory=JumpingEventLoop) as runner:
            return runner.run(test(*args, **kwargs))

    return run


class RecordingStore(MemoryStore):
    """Sessions in memory that remember also which events were written together."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[tuple[Event, ...]] = []

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        committed = await super().commit(session_id, decide, lease=lease)
        if committed.events:
            self.commits.append(committed.events)
        return committed


class AnAgent(AScene):
    """An agent and what its model will answer, one line after the other."""

    def __init__(self, *script: Line, tools: Sequence[ATool] = (), context_window: int | None = None) -> None:
        self.recorded = RecordingStore()
        super().__init__(*tools, store=self.recorded)
        self.says(*script, context_window=context_window)

    async def remembers(self, past: Iterable[Event]) -> None:
        """All this happened before this process began."""
        await self.recorded.commit(self.session.id, lambda _: past)
        self.recorded.commits.clear()

    def shown(self, request: int = -1) -> tuple[str, ...]:
        """The reminders in one of its requests, each in its frame."""
        return self.model.requests[request].reminders

    async def accept(self, draft: Draft, sender: Provenance = CLIENT) -> str:
        """What a bridge does: take a reminder from somebody who is not this process."""

        def decide(state: SessionState) -> Iterable[Event]:
            return accept(state.inbox, draft, sender, new_id=reminder_id).events

        reminder_id = self.session.talk.new_id()
        await self.session.talk.accept(decide)
        return reminder_id

    def children(self) -> Store:
        """Where its sub-agents live: in the same journal."""
        return Store(self.recorded, new_id=CountingIds("child"))

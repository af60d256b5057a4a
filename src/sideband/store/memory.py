"""Sessions in memory: the reference for every other store, and the public double of them in tests."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, NamedTuple

from sideband.core.state import SessionState, fold
from sideband.core.topic import KINDS
from sideband.ports import Committed, Decision, Logged

SUBSCRIBER_EVENTS: Final = 1_000


class CursorLost(Exception):
    """A subscriber fell so far behind that it was cut off; it resumes behind the sequence it has seen last."""

    def __init__(self, seen: int) -> None:
        super().__init__(f"this subscriber was too slow; subscribe again with after={seen}")
        self.seen = seen


class _Subscriber(NamedTuple):
    wanted: Callable[[Logged], bool]
    waiting: deque[Logged]
    wake: asyncio.Event


class MemoryStore:
    """Decisions run on the state itself; nothing awaits between reading it and applying what was decided."""

    def __init__(self) -> None:
        self.journal: list[Logged] = []
        self._states: dict[str, SessionState] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._subscribers: list[_Subscriber] = []

    def state(self, session_id: str) -> SessionState:
        """The state of a session, which begins with its first mention. Read it; only commits change it."""
        state = self._states.get(session_id)
        if state is None:
            state = self._states[session_id] = SessionState()
        return state

    def nothing_waits(self, session_id: str) -> bool:
        """Whether the inbox of a session is empty."""
        state = self._states.get(session_id)
        return state is None or not len(state.inbox)

    async def commit(self, session_id: str, decide: Decision) -> Committed:
        """Run the decision and apply what it decided, all or nothing; an error of the decision changes nothing."""
        state = self.state(session_id)
        events = tuple(decide(state))
        if events:
            fold(events, state)
            logged = [
                Logged(sequence=sequence, session_id=session_id, event=event)
                for sequence, event in enumerate(events, len(self.journal) + 1)
            ]
            self.journal += logged
            self._announce(session_id, logged)
        return Committed(events=events, sequence=len(self.journal))

    def wake(self, session_id: str) -> asyncio.Event:
        """Set at each commit of the session; whoever waits for one clears it first."""
        wake = self._wakes.get(session_id)
        if wake is None:
            wake = self._wakes[session_id] = asyncio.Event()
        return wake

    async def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What was and will be logged behind `after`; a subscriber that falls behind is cut off with its cursor."""

        def wanted(logged: Logged) -> bool:
            mine = session_id is None or logged.session_id == session_id
            return mine and (not kind_prefix or KINDS.get(type(logged.event), "").startswith(kind_prefix))

        subscriber = _Subscriber(wanted, deque(filter(wanted, self.journal[after:])), asyncio.Event())
        self._subscribers.append(subscriber)
        seen = after
        try:
            while True:
                while subscriber.waiting:
                    logged = subscriber.waiting.popleft()
                    seen = logged.sequence
                    yield logged
                if subscriber not in self._subscribers:
                    raise CursorLost(seen)
                subscriber.wake.clear()
                await subscriber.wake.wait()
        finally:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

    def _announce(self, session_id: str, news: Sequence[Logged]) -> None:
        # Nobody can wait for what nobody has asked for yet.
        if session_id in self._wakes:
            self._wakes[session_id].set()
        if self._subscribers:
            for logged in news:
                self._tell(logged)

    def _tell(self, logged: Logged) -> None:
        for subscriber in tuple(self._subscribers):
            if not subscriber.wanted(logged):
                continue
            if len(subscriber.waiting) >= SUBSCRIBER_EVENTS:
                self._subscribers.remove(subscriber)
            else:
                subscriber.waiting.append(logged)
            subscriber.wake.set()

"""Sessions in memory: the reference for every other store, and the public double of them in tests."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from math import inf, isinf
from typing import Final, NamedTuple

from sideband.core.errors import SessionBusy, shown
from sideband.core.failures import CursorLost, LeaseLost
from sideband.core.state import SessionState, fold
from sideband.core.topic import KINDS
from sideband.ports import Committed, Decision, Lease, Logged

SUBSCRIBER_EVENTS: Final = 1_000
# When a lease lapses that never does, in milliseconds.
NEVER: Final = 2**63 - 1


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class _Subscriber(NamedTuple):
    wanted: Callable[[Logged], bool]
    waiting: deque[Logged]
    wake: asyncio.Event


class MemoryStore:
    """Decisions run on the state itself; nothing awaits between reading it and applying what was decided.

    Leases do not lapse, unless they are to (`lease_seconds`): whoever holds one is there as long as the memory is.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = now_ms,
        subscriber_events: int = SUBSCRIBER_EVENTS,
        lease_seconds: float = inf,
    ) -> None:
        self.journal: list[Logged] = []
        self._lease_seconds = lease_seconds
        self._subscriber_events = subscriber_events
        self._now_ms = now_ms
        self._leases: dict[str, Lease] = {}
        self._tokens: dict[str, int] = {}
        self._states: dict[str, SessionState] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._subscribers: list[_Subscriber] = []

    async def open(self, session_id: str) -> None:
        """Every session is at hand, from its first mention on."""

    async def close(self) -> None:
        """What is in memory stays for as long as somebody holds it."""

    def state(self, session_id: str) -> SessionState:
        """The state of a session, which begins with its first mention. Read it; only commits change it."""
        state = self._states.get(session_id)
        if state is None:
            state = self._states[session_id] = SessionState()
        return state

    def nothing_waits(self, session_id: str) -> bool:
        """Whether the inbox of a session is empty."""
        state = self._states.get(session_id)
        return state is None or not state.inbox.count()

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        """Run the decision and apply what it decided, all or nothing; an error of the decision changes nothing."""
        state = self.state(session_id)
        if lease is not None and self._leases.get(session_id) is lease:
            state.attended = True
        elif lease is not None or self._leases:
            self._attend(state, session_id, lease)
        events = tuple(decide(state))
        if events:
            try:
                fold(events, state)
            except BaseException:
                # It may have been applied in part.
                self._restore(state, session_id)
                raise
            journal, behind = self.journal, len(self.journal)
            for sequence, event in enumerate(events, behind + 1):
                journal.append(Logged(sequence=sequence, session_id=session_id, event=event))
            # Nobody can wait for what nobody has asked for yet.
            if session_id in self._wakes:
                self._wakes[session_id].set()
            if self._subscribers:
                for logged in journal[behind:]:
                    self._tell(logged)
        return Committed(events=events, sequence=len(self.journal))

    def _restore(self, state: SessionState, session_id: str) -> None:
        """Let a state be what the journal says again, for everybody who holds it."""
        known = fold(logged.event for logged in self.journal if logged.session_id == session_id)
        known.attended = state.attended
        vars(state).update(vars(known))

    # Leases.

    def _attend(self, state: SessionState, session_id: str, lease: Lease | None) -> None:
        held = self._leases.get(session_id)
        if lease is not None and (held is None or held.token != lease.token):
            raise LeaseLost(session_id)
        state.attended = held is not None and held.expires_at > self._now_ms()

    async def acquire(self, session_id: str, holder: str) -> Lease:
        """Take the session on lease; `SessionBusy` where another holder has it."""
        held = self._leases.get(session_id)
        if held is not None and held.holder != holder and held.expires_at > self._now_ms():
            raise SessionBusy(
                f"session {shown(session_id)} is run by {shown(held.holder)}", field="session", value=session_id
            )
        token = self._tokens[session_id] = self._tokens.get(session_id, 0) + 1
        return self._lease(session_id, holder, token)

    async def renew(self, lease: Lease) -> Lease:
        """The same lease for as long again."""
        held = self._leases.get(lease.session_id)
        if held is None or held.token != lease.token:
            raise LeaseLost(lease.session_id)
        return self._lease(lease.session_id, lease.holder, lease.token)

    async def release(self, lease: Lease) -> None:
        """Give it back; one that was taken over is left alone."""
        held = self._leases.get(lease.session_id)
        if held is not None and held.token == lease.token:
            del self._leases[lease.session_id]
            self.state(lease.session_id).attended = False

    def _lease(self, session_id: str, holder: str, token: int) -> Lease:
        seconds = self._lease_seconds
        expires_at = NEVER if isinf(seconds) else self._now_ms() + int(seconds * 1_000)
        lease = self._leases[session_id] = Lease(
            session_id=session_id, holder=holder, token=token, seconds=seconds, expires_at=expires_at
        )
        return lease

    # News.

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
        wanted = _wanted(session_id, kind_prefix)
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

    def _tell(self, logged: Logged) -> None:
        for subscriber in tuple(self._subscribers):
            if not subscriber.wanted(logged):
                continue
            if len(subscriber.waiting) >= self._subscriber_events:
                self._subscribers.remove(subscriber)
            else:
                subscriber.waiting.append(logged)
            subscriber.wake.set()

    async def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What is logged behind `after` now."""
        for logged in filter(_wanted(session_id, kind_prefix), self.journal[after:]):
            yield logged


def _wanted(session_id: str | None, kind_prefix: str) -> Callable[[Logged], bool]:
    def wanted(logged: Logged) -> bool:
        mine = session_id is None or logged.session_id == session_id
        return mine and (not kind_prefix or KINDS.get(type(logged.event), "").startswith(kind_prefix))

    return wanted

"""Sessions in memory: the reference for every other store, and the public double of them in tests."""

import asyncio
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import inf, isinf
from operator import attrgetter
from typing import Final, NamedTuple

from sideband.core import snapshot
from sideband.core.errors import SessionBusy, shown
from sideband.core.failures import CursorExpired, LeaseLost
from sideband.core.state import SessionState, fold
from sideband.ports import Committed, Decision, Lease, Logged
from sideband.store.feed import PAGE_EVENTS, SUBSCRIBER_EVENTS, Feed, Span, Wanted, pages
from sideband.store.names import check_name

SNAPSHOT_EVENTS: Final = 1_000
KEPT_EVENTS: Final = 100_000
# When a lease lapses that never does, in milliseconds.
NEVER: Final = 2**63 - 1
_SEQUENCE: Final = attrgetter("sequence")


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class _Past(NamedTuple):
    """A session of which something was pruned: all that it knew at a sequence, and how far its journal is gone."""

    state: bytes
    at: int
    pruned_through: int


class MemoryStore:
    """Decisions run on the state itself; nothing awaits between reading it and applying what was decided.

    Leases do not lapse, unless they are to (`lease_seconds`): whoever holds one is there as long as the memory is. Of
    each session the last `kept_events` are kept (None: all of them); there is a look at that after `snapshot_events`, and
    ever less often the longer the journal is.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = now_ms,
        subscriber_events: int = SUBSCRIBER_EVENTS,
        lease_seconds: float = inf,
        kept_events: int | None = KEPT_EVENTS,
        snapshot_events: int = SNAPSHOT_EVENTS,
    ) -> None:
        self.journal: list[Logged] = []
        self._kept_events = kept_events
        self._snapshot_events = snapshot_events
        self._tidy_at = max(snapshot_events, kept_events or 0)
        self._gone = 0
        self._pasts: dict[str, _Past] = {}
        self._lease_seconds = lease_seconds
        self._now_ms = now_ms
        self._leases: dict[str, Lease] = {}
        self._tokens: dict[str, int] = {}
        self._states: dict[str, SessionState] = {}
        self._feed = Feed(0, subscriber_events=subscriber_events)

    async def open(self, session_id: str) -> SessionState:
        """Every session is at hand, from its first mention on."""
        return self.state(session_id)

    async def close(self) -> None:
        """What is in memory stays for as long as somebody holds it."""

    def state(self, session_id: str) -> SessionState:
        """The state of a session, which begins with its first mention. Read it; only commits change it."""
        state = self._states.get(session_id)
        if state is None:
            check_name(session_id)
            state = self._states[session_id] = SessionState()
        return state

    @property
    def _last(self) -> int:
        """The last sequence there is: each number has, or had, a row."""
        return len(self.journal) + self._gone

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
            for sequence, event in enumerate(events, behind + self._gone + 1):
                journal.append(Logged(sequence=sequence, session_id=session_id, event=event))
            self._feed.pass_on(journal[behind:])
            if len(journal) > self._tidy_at:
                self._tidy()
        return Committed(events=events, sequence=len(self.journal) + self._gone)

    def _restore(self, state: SessionState, session_id: str) -> None:
        """Let a state be what the journal says again, for everybody who holds it."""
        past = self._pasts.get(session_id)
        begin, behind = (None, 0) if past is None else (snapshot.decode(past.state), past.at)
        mine = (entry for entry in self.journal if entry.session_id == session_id and entry.sequence > behind)
        known = fold((entry.event for entry in mine), begin)
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
        self.state(session_id)
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
        return self._feed.wake(session_id)

    @property
    def subscribers(self) -> int:
        """How many follow."""
        return self._feed.subscribers

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What was and will be logged behind `after`; a subscriber that falls behind is cut off with its cursor."""
        return self._feed.subscribe(self._page, Wanted(session_id, kind_prefix), after)

    def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What is logged behind `after` now."""
        return pages(self._page, Wanted(session_id, kind_prefix), Span(after, self._last))

    async def _page(self, wanted: Wanted, span: Span) -> Sequence[Logged]:
        pruned = self._pruned_through(wanted.session_id)
        if span.after < pruned:
            raise CursorExpired(span.after, pruned)
        behind = bisect_right(self.journal, span.after, key=_SEQUENCE)
        until = None if span.until is None else bisect_right(self.journal, span.until, key=_SEQUENCE)
        there = filter(wanted.includes, islice(self.journal, behind, until))
        return list(islice(there, PAGE_EVENTS))

    # How much is kept.

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Take from the journal all but the last events of a session; how many are gone."""
        return self._prune({session_id: keep_events})

    def _pruned_through(self, session_id: str | None) -> int:
        if session_id is None:
            return max((past.pruned_through for past in self._pasts.values()), default=0)
        past = self._pasts.get(session_id)
        return 0 if past is None else past.pruned_through

    def _tidy(self) -> None:
        """Of long sessions the journal keeps the end. What it takes is paid for by what was logged since."""
        if self._kept_events is not None:
            logged = Counter(entry.session_id for entry in self.journal)
            keep = self._kept_events
            self._prune({session_id: keep for session_id, count in logged.items() if count > keep})
        self._tidy_at = len(self.journal) + max(len(self.journal), self._snapshot_events)

    def _prune(self, kept: Mapping[str, int]) -> int:
        """Leave so many events of each of these. The last row of the store stays: what comes next counts from it."""
        states = self._states_of(kept)
        left = {session_id: kept[session_id] for session_id in states}
        stays, through = deque(self.journal[-1:]), dict[str, int]()
        for entry in reversed(self.journal[:-1]):
            count = left.get(entry.session_id)
            if count is None or count > 0:
                stays.appendleft(entry)
            else:
                through.setdefault(entry.session_id, entry.sequence)
            if count is not None:
                left[entry.session_id] = count - 1
        for session_id, sequence in through.items():
            self._pasts[session_id] = _Past(states[session_id], self._last, sequence)
        gone = len(self.journal) - len(stays)
        self._gone += gone
        self.journal[:] = stays
        return gone

    def _states_of(self, session_ids: Iterable[str]) -> dict[str, bytes]:
        """What these know, as far as that can be written down: nobody has made sure of it here."""
        states = {}
        for session_id in session_ids:
            with suppress(TypeError, ValueError, OverflowError, RecursionError):
                states[session_id] = snapshot.encode(self.state(session_id))
        return states

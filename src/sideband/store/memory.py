"""Sessions in memory: the reference for the other stores, and the public test double."""

import asyncio
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import inf, isinf
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from sideband.core import snapshot
from sideband.core.apply import fold
from sideband.core.errors import CursorExpired, LeaseLost, SessionBusy, shown
from sideband.core.inbox import Receipt, receipt_in
from sideband.core.state import Decision, SessionState, ValueT
from sideband.ports import NO_RECORDS, AsOf, Lease, Logged, SessionEntry
from sideband.store.codec import check_name, indexed
from sideband.store.feed import PAGE_EVENTS, SUBSCRIBER_EVENTS, EventFilter, Feed, Span, pages
from sideband.store.settings import now_ms
from sideband.store.tables import UNLISTED, Existence

SNAPSHOT_EVENTS: Final = 1_000
KEPT_EVENTS: Final = 100_000
# The expiry of a lease that does not expire, in milliseconds.
NEVER: Final = 2**63 - 1
_SEQUENCE: Final = attrgetter("sequence")


class _Past(NamedTuple):
    """A session whose journal was pruned: its encoded state at sequence `at`, and the last sequence that was deleted."""

    state: bytes
    at: int
    pruned_through: int


class _Listing(msgspec.Struct):
    """The first event of a session, by its sequence and its time, and the time of its last event."""

    begun: int
    begun_at: int
    changed_at: int


class MemoryStore:
    """Decisions run on the state itself; there is no await between reading it and applying the events.

    Leases do not expire unless `lease_seconds` is given, because a holder lives as long as the store. The last
    `kept_events` of each session are kept (None: all of them). The journal is pruned at the earliest after
    `snapshot_events`, then each time its length has doubled.
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
        # Newest last. A session is in it from its first event until it is deleted.
        self._listed: dict[str, _Listing] = {}
        self._receipts: dict[str, dict[str, Receipt]] = {}
        self._feed = Feed(0, subscriber_events=subscriber_events)

    async def open(self, session_id: str) -> SessionState:
        """The state of a session; all sessions are in memory."""
        return self.state(session_id)

    async def close(self) -> None:
        """Does nothing; the sessions live as long as the store object."""

    def state(self, session_id: str) -> SessionState:
        """The state of a session, which is created at the first call. Read it only; commits change it."""
        state = self._states.get(session_id)
        if state is None:
            check_name(session_id)
            state = self._states[session_id] = SessionState()
        return state

    @property
    def _last(self) -> int:
        """The last sequence, counting the pruned events."""
        return len(self.journal) + self._gone

    def nothing_waits(self, session_id: str) -> bool:
        state = self._states.get(session_id)
        return state is None or not state.inbox

    async def commit(
        self,
        session_id: str,
        decide: Decision[ValueT],
        *,
        lease: Lease | None = None,
        receipts: Sequence[str] = (),
    ) -> ValueT:
        """Run the decision and apply its events, all or nothing; see `Journal.commit`."""
        state = self.state(session_id)
        state.receipts = self._named(session_id, receipts) if receipts else {}
        if lease is not None and self._leases.get(session_id) is lease:
            state.attended = True
        elif lease is not None or self._leases:
            self._attend(state, session_id, lease)
        was_deleted = state.deleted
        decided, value = decide(state)
        # They are read twice; a decision may return an iterator.
        events = tuple(decided)
        if events:
            try:
                fold(events, state)
            except BaseException:
                # Some of the events may have been applied.
                self._restore(state, session_id)
                raise
            journal, start, now = self.journal, len(self.journal), self._now_ms()
            for sequence, event in enumerate(events, start + self._gone + 1):
                journal.append(Logged(sequence=sequence, session_id=session_id, event=event, time=now))
            self._tabulate(session_id, journal[start:], was_deleted=was_deleted)
            self._feed.pass_on(journal[start:])
            if len(journal) > self._tidy_at:
                self._tidy()
        return value

    def _named(self, session_id: str, caller_ids: Sequence[str]) -> dict[str, Receipt | None]:
        known = self._receipts.get(session_id, {})
        return {caller_id: known.get(caller_id) for caller_id in caller_ids}

    def _tabulate(self, session_id: str, entries: Iterable[Logged], *, was_deleted: bool) -> None:
        """Note what these events change in the list of sessions and the receipts."""
        if session_id in UNLISTED:
            return
        existence = Existence(exists=session_id in self._listed, deleted=was_deleted)
        for entry in entries:
            event = entry.event
            if existence.follow(event):
                self._listed[session_id] = _Listing(entry.sequence, entry.time, entry.time)
            if not existence.exists:
                self._listed.pop(session_id, None)
                self._receipts.pop(session_id, None)
                continue
            self._listed[session_id].changed_at = entry.time
            if (found := receipt_in(event)) is not None:
                self._receipts.setdefault(session_id, {})[found[0]] = found[1]

    async def read(self, session_id: str, look: Callable[[SessionState], ValueT]) -> AsOf[ValueT]:
        state = self.state(session_id)
        self._attend(state, session_id, None)
        return AsOf(look(state), self._last)

    # The list of sessions.

    async def entry(self, session_id: str) -> SessionEntry | None:
        listing = self._listed.get(session_id)
        return None if listing is None else self._entry(session_id, listing)

    async def sessions(
        self, *, records: Mapping[str, str] = NO_RECORDS, before: int | None = None, limit: int = 100
    ) -> Sequence[SessionEntry]:
        found = (
            self._entry(session_id, listing)
            for session_id, listing in reversed(self._listed.items())
            if (before is None or listing.begun < before) and self._has(session_id, records)
        )
        return list(islice(found, limit))

    def _has(self, session_id: str, records: Mapping[str, str]) -> bool:
        mine = self._states[session_id].records
        return all(indexed(mine.get(name)) == value for name, value in records.items())

    def _entry(self, session_id: str, listing: _Listing) -> SessionEntry:
        return SessionEntry(
            session_id=session_id,
            begun=listing.begun,
            begun_at=listing.begun_at,
            changed_at=listing.changed_at,
            records=msgspec.to_builtins(self._states[session_id].records),
        )

    def _restore(self, state: SessionState, session_id: str) -> None:
        """Rebuild a state from the journal, in place, because callers hold references to it."""
        past = self._pasts.get(session_id)
        begin, after = (None, 0) if past is None else (snapshot.decode(past.state), past.at)
        mine = (entry for entry in self.journal if entry.session_id == session_id and entry.sequence > after)
        known = fold((entry.event for entry in mine), begin)
        known.attended, known.receipts = state.attended, state.receipts
        vars(state).update(vars(known))

    # Leases.

    def _attend(self, state: SessionState, session_id: str, lease: Lease | None) -> None:
        held = self._leases.get(session_id)
        if lease is not None and (held is None or held.token != lease.token):
            raise LeaseLost(session_id)
        state.attended = held is not None and held.expires_at > self._now_ms()

    async def acquire(self, session_id: str, holder: str) -> Lease:
        self.state(session_id)
        held = self._leases.get(session_id)
        if held is not None and held.holder != holder and held.expires_at > self._now_ms():
            raise SessionBusy(
                f"session {shown(session_id)} is run by {shown(held.holder)}", field="session", value=session_id
            )
        token = self._tokens[session_id] = self._tokens.get(session_id, 0) + 1
        return self._lease(session_id, holder, token)

    async def renew(self, lease: Lease) -> Lease:
        held = self._leases.get(lease.session_id)
        if held is None or held.token != lease.token:
            raise LeaseLost(lease.session_id)
        return self._lease(lease.session_id, lease.holder, lease.token)

    async def release(self, lease: Lease) -> None:
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
        """An event that is set at each commit of the session; clear it before waiting for the next one."""
        return self._feed.wake(session_id)

    @property
    def subscribers(self) -> int:
        return self._feed.subscribers

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """Past and future events after `after`; a subscriber that is too slow gets `CursorLost` with its cursor."""
        return self._feed.subscribe(self._page, EventFilter(session_id, kind_prefix), after)

    def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """The events after `after` that are in the journal now."""
        return pages(self._page, EventFilter(session_id, kind_prefix), Span(after, self._last))

    async def _page(self, wanted: EventFilter, span: Span) -> Sequence[Logged]:
        pruned = self._pruned_through(wanted.session_id)
        if span.after < pruned:
            raise CursorExpired(span.after, pruned)
        start = bisect_right(self.journal, span.after, key=_SEQUENCE)
        until = None if span.until is None else bisect_right(self.journal, span.until, key=_SEQUENCE)
        there = filter(
            wanted.includes, map(self.journal.__getitem__, range(start, len(self.journal) if until is None else until))
        )
        return list(islice(there, PAGE_EVENTS))

    # Retention.

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Delete all but the last `keep_events` events of a session, and return the number of deleted ones."""
        return self._prune({session_id: keep_events})

    def _pruned_through(self, session_id: str | None) -> int:
        if session_id is None:
            return max((past.pruned_through for past in self._pasts.values()), default=0)
        past = self._pasts.get(session_id)
        return 0 if past is None else past.pruned_through

    def _tidy(self) -> None:
        """Prune long sessions. The next call is due when the journal has doubled, so the cost per event is constant."""
        if self._kept_events is not None:
            logged = Counter(entry.session_id for entry in self.journal)
            keep = self._kept_events
            self._prune({session_id: keep for session_id, count in logged.items() if count > keep})
        self._tidy_at = len(self.journal) + max(len(self.journal), self._snapshot_events)

    def _prune(self, kept: Mapping[str, int]) -> int:
        """Delete all but so many events of each session. The last event of the store stays: sequences continue from it."""
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
        """The encoded states of these sessions; those that cannot be encoded are left out, since commits do not check that."""
        states = {}
        for session_id in session_ids:
            with suppress(TypeError, ValueError, OverflowError, RecursionError):
                states[session_id] = snapshot.encode(self.state(session_id))
        return states

"""Notification of new events: wakes waiters of a session, and delivers events to subscribers."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, KeysView, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import ref

from sideband.core.errors import CursorExpired, CursorLost
from sideband.core.topic import KINDS
from sideband.ports import Logged

SUBSCRIBER_EVENTS: Final = 1_000
PAGE_EVENTS: Final = 500


class EventFilter(NamedTuple):
    """Which events to deliver: those of one session (None: of all), with a kind that starts with the prefix."""

    session_id: str | None = None
    kind_prefix: str = ""

    def includes(self, logged: Logged) -> bool:
        mine = self.session_id is None or logged.session_id == self.session_id
        return mine and (not self.kind_prefix or KINDS.get(type(logged.event), "").startswith(self.kind_prefix))


class Span(NamedTuple):
    """The sequences after `after`, up to and including `until` (None: without an upper bound)."""

    after: int
    until: int | None = None


class Gap(NamedTuple):
    """Events of these sessions were pruned before they were announced."""

    why: CursorExpired
    sessions: Collection[str]

    def concerns(self, wanted: EventFilter) -> bool:
        return wanted.session_id is None or wanted.session_id in self.sessions


ReadPage: TypeAlias = Callable[[EventFilter, Span], Coroutine[Any, Any, Sequence[Logged]]]
"""Reads the first `PAGE_EVENTS` matching events of a span; a shorter page is the last one."""


async def pages(read: ReadPage, wanted: EventFilter, span: Span) -> AsyncGenerator[Logged, None]:
    """All matching events of a span, read one page at a time, so that a slow reader holds no transaction open."""
    while True:
        page = await read(wanted, span)
        for logged in page:
            yield logged
        if len(page) < PAGE_EVENTS:
            return
        span = span._replace(after=page[-1].sequence)


class _Subscriber:
    """A subscriber to the matching events after `after`."""

    def __init__(self, wanted: EventFilter, after: int) -> None:
        self.wanted = wanted
        self.after = after
        self.waiting: deque[Logged] = deque()
        self.wake = asyncio.Event()
        self.is_cut_off = False
        self.gap: CursorExpired | None = None


class Feed:
    """Wakes waiters and delivers events to subscribers; not thread-safe.

    `announced` is the last sequence that was announced, without a gap before it.
    """

    def __init__(self, announced: int, *, subscriber_events: int = SUBSCRIBER_EVENTS) -> None:
        self.announced = announced
        self._subscriber_events = subscriber_events
        # Weak references: a waiter holds its event, and sessions without waiters take no memory.
        self._wakes: dict[str, ref[asyncio.Event]] = {}
        self._subscribers: dict[_Subscriber, None] = {}
        self._error: Exception | None = None
        self._is_over = False

    def wake(self, session_id: str) -> asyncio.Event:
        """An event that is set at each commit of the session; clear it before waiting for the next one."""
        known = self._wakes.get(session_id)
        wake = None if known is None else known()
        if wake is None:
            wake = asyncio.Event()
            self._wakes[session_id] = ref(wake, lambda gone: self._unwake(session_id, gone))
        return wake

    def _unwake(self, session_id: str, gone: "ref[asyncio.Event]") -> None:
        if self._wakes.get(session_id) is gone:
            del self._wakes[session_id]

    def _rouse(self, session_id: str) -> None:
        known = self._wakes.get(session_id)
        wake = None if known is None else known()
        if wake is not None:
            wake.set()

    @property
    def awaited(self) -> KeysView[str]:
        """The sessions that have a waiter."""
        return self._wakes.keys()

    @property
    def subscribers(self) -> int:
        return len(self._subscribers)

    @property
    def is_followed(self) -> bool:
        return bool(self._wakes or self._subscribers)

    def pass_on(self, news: Sequence[Logged]) -> None:
        """Announce events; a fast path if there are no waiters and no subscribers."""
        if self.is_followed:
            self.announce(news)
        elif news:
            self.announced = max(self.announced, news[-1].sequence)

    def announce(self, news: Iterable[Logged]) -> None:
        """Deliver events that have become durable, in the order of their sequence and without gaps."""
        for logged in news:
            if logged.sequence <= self.announced:
                continue
            self.announced = logged.sequence
            if logged.session_id in self._wakes:
                self._rouse(logged.session_id)
            if self._subscribers:
                for subscriber in tuple(self._subscribers):
                    self._offer(subscriber, logged)

    def _offer(self, subscriber: _Subscriber, logged: Logged) -> None:
        if logged.sequence <= subscriber.after or not subscriber.wanted.includes(logged):
            return
        if len(subscriber.waiting) >= self._subscriber_events:
            subscriber.is_cut_off = True
            del self._subscribers[subscriber]
        else:
            subscriber.waiting.append(logged)
        subscriber.wake.set()

    def skip(self, gap: Gap) -> None:
        """Report a gap before the events after it are announced; every subscriber that misses some of it gets its error."""
        for session_id in gap.sessions:
            self._rouse(session_id)
        for subscriber in tuple(self._subscribers):
            if gap.concerns(subscriber.wanted):
                subscriber.gap = gap.why
                subscriber.wake.set()
                # It gets nothing from after the gap, because it has not seen the error yet.
                del self._subscribers[subscriber]

    def end(self, error: Exception | None = None) -> None:
        """End all subscriptions: the store was closed, or cannot be read any more."""
        self._is_over, self._error = True, error
        for subscriber in self._subscribers:
            subscriber.wake.set()

    async def subscribe(self, read: ReadPage, wanted: EventFilter, after: int) -> AsyncGenerator[Logged, None]:
        """Yield the events after `after`: first from the journal, page by page, then as they are announced."""
        seen = after
        while seen < self.announced:
            until = self.announced
            async with aclosing(pages(read, wanted, Span(seen, until))) as past:
                async for logged in past:
                    yield logged
            seen = until
        # There was no await since `announced` was compared, so no event is announced in between.
        subscriber = _Subscriber(wanted, seen)
        self._subscribers[subscriber] = None
        try:
            while True:
                while subscriber.waiting:
                    logged = subscriber.waiting.popleft()
                    seen = logged.sequence
                    yield logged
                if subscriber.gap is not None:
                    raise subscriber.gap
                if subscriber.is_cut_off:
                    raise CursorLost(seen)
                if self._is_over:
                    break
                subscriber.wake.clear()
                await subscriber.wake.wait()
        finally:
            self._subscribers.pop(subscriber, None)
        if self._error is not None:
            raise self._error

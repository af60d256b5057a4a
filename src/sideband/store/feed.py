"""What a store tells the event loop: it wakes those who wait for a session, and feeds its subscribers."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, KeysView, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import ref

from sideband.core.failures import CursorExpired, CursorLost
from sideband.core.topic import KINDS
from sideband.ports import Logged

SUBSCRIBER_EVENTS: Final = 1_000
PAGE_EVENTS: Final = 500


class Wanted(NamedTuple):
    """What somebody wants to see: one session (None: all of them), and kinds that begin so."""

    session_id: str | None = None
    kind_prefix: str = ""

    def includes(self, logged: Logged) -> bool:
        mine = self.session_id is None or logged.session_id == self.session_id
        return mine and (not self.kind_prefix or KINDS.get(type(logged.event), "").startswith(self.kind_prefix))


class Span(NamedTuple):
    """Sequences behind `after`, up to and including `until` (None: up to the last one there is)."""

    after: int
    until: int | None = None


class Gap(NamedTuple):
    """What was logged up to a sequence was not announced, and cannot all be read any longer."""

    why: CursorExpired
    through: int


ReadPage: TypeAlias = Callable[[Wanted, Span], Coroutine[Any, Any, Sequence[Logged]]]
"""The first `PAGE_EVENTS` of what is wanted there; fewer only where there are no more."""


async def pages(read: ReadPage, wanted: Wanted, span: Span) -> AsyncGenerator[Logged, None]:
    """All that is wanted of a span, a page at a time: a reader who takes his time holds up nothing."""
    while True:
        page = await read(wanted, span)
        for logged in page:
            yield logged
        if len(page) < PAGE_EVENTS:
            return
        span = span._replace(after=page[-1].sequence)


class _Subscriber:
    """One who is told of what happens behind `after`, as far as it is wanted."""

    def __init__(self, wanted: Wanted, after: int) -> None:
        self.wanted = wanted
        self.after = after
        self.waiting: deque[Logged] = deque()
        self.wake = asyncio.Event()
        self.is_cut_off = False
        self.gap: CursorExpired | None = None


class Feed:
    """Belongs to the event loop. `announced` is the last sequence it was told of, without a gap before it."""

    def __init__(self, announced: int, *, subscriber_events: int = SUBSCRIBER_EVENTS) -> None:
        self.announced = announced
        self._subscriber_events = subscriber_events
        # Whoever waits for news has hold of the event; of a session that nobody waits for nothing is left.
        self._wakes: dict[str, ref[asyncio.Event]] = {}
        self._subscribers: dict[_Subscriber, None] = {}
        self._error: Exception | None = None
        self._is_over = False

    def wake(self, session_id: str) -> asyncio.Event:
        """Set at each commit of the session; whoever waits for one clears it first."""
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
        """The sessions that somebody waits for."""
        return self._wakes.keys()

    @property
    def subscribers(self) -> int:
        """How many follow."""
        return len(self._subscribers)

    @property
    def is_followed(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self._wakes or self._subscribers)

    def pass_on(self, news: Sequence[Logged]) -> None:
        """The same as `announce`, and next to nothing where nobody follows."""
        if self.is_followed:
            self.announce(news)
        elif news:
            self.announced = max(self.announced, news[-1].sequence)

    def announce(self, news: Iterable[Logged]) -> None:
        """This is durable now, in this order and with nothing in between."""
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
        """Go on behind it; whoever follows has to know."""
        self.announced = gap.through
        for session_id in tuple(self._wakes):
            self._rouse(session_id)
        for subscriber in self._subscribers:
            subscriber.gap = gap.why
            subscriber.wake.set()
        # What comes behind the gap is not for those who have not been told of it.
        self._subscribers.clear()

    def end(self, error: Exception | None = None) -> None:
        """No more news: the store is closed, or cannot be read any longer."""
        self._is_over, self._error = True, error
        for subscriber in self._subscribers:
            subscriber.wake.set()

    async def subscribe(self, read: ReadPage, wanted: Wanted, after: int) -> AsyncGenerator[Logged, None]:
        """What was logged behind `after`, read page by page; once that is all told, what is announced."""
        seen = after
        while seen < self.announced:
            until = self.announced
            async with aclosing(pages(read, wanted, Span(seen, until))) as past:
                async for logged in past:
                    yield logged
            seen = until
        # Nothing was awaited since the last look at `announced`: there is no gap before what is announced next.
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

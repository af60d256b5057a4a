"""The event log: while one is active, it records the topic of everything that its task does."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import Token
from threading import Lock
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from sideband.core.events import Event
from sideband.core.topic import Correlation, TopicRecord, correlated, publish
from sideband.loop.conversation import OBSERVER, Observer
from sideband.runtime.system import moment, now_ms
from sideband.runtime.updates import check_cursor


class _Subscriber(NamedTuple):
    loop: asyncio.AbstractEventLoop
    wake: asyncio.Event


class EventLog:
    """Records the lifecycle of reminders while it is active: of sessions, and of the pure functions.

    Use it as a context manager. It is active for the current task and for the tasks that this one starts. A record never
    contains a body. `session_id`, `task_id` and `agent_id` are for events that have none of their own, such as those of
    the pure functions. `now_ms` returns milliseconds since the epoch.
    """

    def __init__(
        self,
        *,
        session_id: str | None = None,
        task_id: str | None = None,
        agent_id: str | None = None,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._own = Correlation(session_id=session_id, task_id=task_id, agent_id=agent_id)
        self._now_ms = now_ms
        self._records: list[TopicRecord] = []
        # Protects the next sequence number: functions on several threads may report to one log.
        self._lock = Lock()
        self._subscribers: dict[_Subscriber, None] = {}
        self._tokens: list[Token[Observer | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(OBSERVER.set(self.record))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        OBSERVER.reset(self._tokens.pop())

    def records(self, *, kind_prefix: str = "", after: int = 0) -> tuple[TopicRecord, ...]:
        """The records after a sequence number whose kind begins with `kind_prefix`."""
        check_cursor(after, kind_prefix)
        return tuple(record for record in self._records[after:] if record.kind.startswith(kind_prefix))

    async def subscribe(self, *, kind_prefix: str = "", after: int = 0) -> AsyncGenerator[TopicRecord, None]:
        """The records after a sequence number whose kind begins with `kind_prefix`, past and future."""
        check_cursor(after, kind_prefix)
        subscriber = _Subscriber(asyncio.get_running_loop(), asyncio.Event())
        self._subscribers[subscriber] = None
        try:
            while True:
                subscriber.wake.clear()
                news = self._records[after:]
                after += len(news)
                for record in news:
                    if record.kind.startswith(kind_prefix):
                        yield record
                if not news:
                    await subscriber.wake.wait()
        finally:
            del self._subscribers[subscriber]

    def record(self, events: Sequence[Event], correlation: Correlation) -> None:
        """Append a record for each event that observers may see."""
        now = moment(self._now_ms())
        with self._lock:
            for event in events:
                correlation = correlated(correlation, event)
                record = publish(event, self._filled(correlation), seq=len(self._records) + 1, time=now)
                if record is not None:
                    self._records.append(record)
        for subscriber in tuple(self._subscribers):
            # A loop that was closed before its subscriber ended must not make the reported function fail.
            with suppress(RuntimeError):
                subscriber.loop.call_soon_threadsafe(subscriber.wake.set)

    def _filled(self, correlation: Correlation) -> Correlation:
        known = msgspec.structs.asdict(correlation).items()
        return msgspec.structs.replace(self._own, **{name: value for name, value in known if value is not None})


def emit(events: Iterable[Event]) -> None:
    """Record the events of a pure function in the active log, if there is one."""
    observer = OBSERVER.get()
    if observer is not None:
        observer(tuple(events), Correlation())

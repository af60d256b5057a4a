"""The event log: while one is active, the transcript functions record in it what they did."""

from collections.abc import Iterable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from sideband.core.events import Event
from sideband.core.topic import TOPIC, Correlation, publish


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the lifecycle topic; `sequence` counts from 1 without gaps."""

    sequence: int
    topic: str
    kind: str
    payload: dict[str, Any]


class EventLog:
    """Records the lifecycle of reminders while it is active. A record never contains a body.

    Use it as a context manager. It is active for the current task and for the tasks that this one starts.
    """

    def __init__(
        self, *, session_id: str | None = None, task_id: str | None = None, agent_id: str | None = None
    ) -> None:
        self._correlation = Correlation(session_id=session_id, task_id=task_id, agent_id=agent_id)
        self._records: list[LogRecord] = []
        self._tokens: list[Token[EventLog | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_ACTIVE.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ACTIVE.reset(self._tokens.pop())

    def records(self, *, kind_prefix: str = "", after: int = 0) -> tuple[LogRecord, ...]:
        """The records after a sequence number whose kind begins with `kind_prefix`."""
        return tuple(record for record in self._records[after:] if record.kind.startswith(kind_prefix))

    def record(self, events: Iterable[Event]) -> None:
        """Append a record for each event that observers may see."""
        for event in events:
            published = publish(event, self._correlation)
            if published is not None:
                self._records.append(
                    LogRecord(
                        sequence=len(self._records) + 1,
                        topic=TOPIC,
                        kind=published.kind,
                        payload=published.payload,
                    )
                )


_ACTIVE: Final[ContextVar[EventLog | None]] = ContextVar("sideband_event_log", default=None)


def emit(events: Iterable[Event]) -> None:
    """Record the events in the active log, if there is one."""
    log = _ACTIVE.get()
    if log is not None:
        log.record(events)

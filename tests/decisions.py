"""Decisions for tests that commit to a journal directly."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from sideband.core.events import Event
from sideband.core.state import Decided, Decision, SessionState

_Value = TypeVar("_Value")


def deciding(decide: Callable[[SessionState], Iterable[Event]]) -> Decision[tuple[Event, ...]]:
    """A decision whose value is its events."""

    def decided(state: SessionState) -> Decided[tuple[Event, ...]]:
        events = tuple(decide(state))
        return Decided(events, events)

    return decided


def saying(*events: Event) -> Decision[tuple[Event, ...]]:
    """A decision that always returns these events, which are also its value."""
    return deciding(lambda _: events)


def whole(decide: Decision[_Value]) -> Decision[Decided[_Value]]:
    """The same decision with all that was decided as its value: for journals that look at the events."""

    def decided(state: SessionState) -> Decided[Decided[_Value]]:
        inner = decide(state)
        return Decided(inner.events, inner)

    return decided

"""The conversation of one session as far as it is encoded, and how far that is."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sideband.core.ledger import Fragment, Scope
from sideband.render.dialect import Dialect, Head
from sideband.render.layout import marked_at
from sideband.render.view import RequestView

_Item = TypeVar("_Item")


class History:
    """One tape of one window; it holds what is history, and nothing that a reply might never come to.

    `front` is its head with the markers in it; `clears` tells whether an entry that the provider clears by itself is on it.
    """

    def __init__(self, dialect: Dialect, view: RequestView, head: Head, route: str) -> None:
        self.head = head
        self.front = marked_at(head.data, head.marks, dialect.marker)
        self.route = route
        self.tape = head.tape(marking=dialect.marking)
        self.clears = False
        self._dialect = dialect
        self._system = (view.system, view.system_after)
        self._tools = tuple(view.tools)
        self._messages: Sequence[Mapping[str, Any]] = ()
        self._written = 0
        self._fragments: Sequence[Fragment] = ()
        self._joined = 0

    def goes_on_with(self, view: RequestView, fragments: Sequence[Fragment]) -> bool:
        """Whether a view has the same head, begins with all that is on the tape, and puts nothing in the middle of it."""
        joined = self._joined
        return (
            self._system == (view.system, view.system_after)
            and self._tools == tuple(view.tools)
            and _begins(view.messages, self._messages, self._written)
            and _begins(fragments, self._fragments, joined)
            and (len(fragments) == joined or fragments[joined].anchor >= self._written)
        )

    def follow(self, messages: Sequence[Mapping[str, Any]], fragments: Sequence[Fragment]) -> None:
        """Write what has come since: messages, and fragments where they stood when they were answered."""
        count, write, tape = len(messages), self._dialect.write, self.tape
        for place in range(self._written, count):
            if self._joined < len(fragments):
                self._join(fragments, place)
            write(tape, messages[place])
        if self._joined < len(fragments):
            self._join(fragments, count)
        self._messages, self._written = messages, count
        self._fragments = fragments

    def _join(self, fragments: Sequence[Fragment], place: int) -> None:
        while self._joined < len(fragments) and fragments[self._joined].anchor <= place:
            fragment = fragments[self._joined]
            self._dialect.put(self.tape, fragment)
            self.clears = self.clears or fragment.scope is Scope.CLEARING
            self._joined += 1


def _begins(items: Sequence[_Item], known: Sequence[_Item], count: int) -> bool:
    """Whether the first `count` are those we know. A list that only ever grows need not be compared."""
    if len(items) < count:
        return False
    return items is known or not count or list(items[:count]) == list(known[:count])

"""The conversation of one session as far as it is encoded, and how far that is."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sideband.core.ledger import Fragment, Ledger, Scope
from sideband.render.dialect import Dialect, Head
from sideband.render.layout import marked_at
from sideband.render.view import RequestView

_Item = TypeVar("_Item")


class History:
    """One tape of one window; it holds what is history, and nothing that a reply might never come to.

    `front` is its head with the markers in it; `clears` tells whether an entry that the provider clears by itself is on
    it. Of the messages on it, those before `_earlier` are older than the window.
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
        self._written = self._earlier = 0
        self._fragments: Sequence[Fragment] = ()
        self._joined = 0

    def goes_on_with(self, view: RequestView, ledger: Ledger) -> bool:
        """Whether a view has the same head, begins with all that is on the tape, and puts nothing in the middle of it."""
        joined, written, fragments = self._joined, self._written, ledger.fragments
        return (
            self._system == (view.system, view.system_after)
            and self._tools == tuple(view.tools)
            and (written if ledger.since is None else min(ledger.since, written)) == self._earlier
            and _begins(view.messages, self._messages, written)
            and _begins(fragments, self._fragments, joined)
            and (len(fragments) == joined or fragments[joined].anchor >= written)
        )

    def follow(self, messages: Sequence[Mapping[str, Any]], ledger: Ledger) -> None:
        """Write what has come since: messages, and fragments where they stood when they were answered."""
        count, write, tape, fragments = len(messages), self._dialect.write, self.tape, ledger.fragments
        earlier = self._earlier = count if ledger.since is None else min(ledger.since, count)
        for place in range(self._written, count):
            if self._joined < len(fragments):
                self._join(fragments, place)
            message = messages[place]
            write(tape, message if place >= earlier else self._dialect.unbound(message))
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

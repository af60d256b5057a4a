"""The conversation of one session as far as it is encoded, and how far that is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sideband.core.ledger import Fragment, Ledger, Scope
from sideband.render.dialect import Dialect, Head
from sideband.render.layout import marked_at
from sideband.render.page import Page
from sideband.render.tape import Tape
from sideband.render.view import RequestView

# Right behind the brace that opens the body.
AUTOMATIC: Final = (1,)

_Item = TypeVar("_Item")


class History:
    """One tape of one window; it holds what is history, and nothing that a reply might never come to.

    `front` is its head with the markers in it, or with the one that asks for caching that is `automatic`; `page` has what
    the bodies of its requests begin with. `clears` tells whether an entry that the provider clears by itself is on the
    tape. Of the messages on it, those before `_earlier` are older than the window.
    """

    def __init__(self, dialect: Dialect, view: RequestView, head: Head, route: str) -> None:
        self.head = head
        self.front = marked_at(head.data, head.marks, dialect.marker)
        self.automatic = marked_at(head.data, AUTOMATIC, dialect.marker) if dialect.automatically else b""
        self.route = route
        self.tape = Tape(head.top, marking=dialect.marking)
        self.page = Page()
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
        dialect, tape, fragments = self._dialect, self.tape, ledger.fragments
        count, start = len(messages), self._written
        earlier = self._earlier = count if ledger.since is None else min(ledger.since, count)
        if self._joined == len(fragments) and (start >= earlier or not dialect.binds):
            for message in messages[start:]:
                dialect.write(tape, message)
        else:
            for place in range(start, count):
                self._join(fragments, place)
                message = messages[place]
                dialect.write(tape, message if place >= earlier else dialect.unbound(message))
            self._join(fragments, count)
        self._messages, self._written, self._fragments = messages, count, fragments

    def settle(self) -> None:
        """A body was finished, and what no marker will come into any more is left to the page."""
        count = self.tape.settled - self.tape.base
        self.page.keep(count)
        self.tape.release(count)

    def clears_with(self, fragments: Iterable[Fragment]) -> bool:
        """Whether an entry that the provider clears by itself is on the tape, or among these fragments."""
        return self.clears or any(fragment.scope is Scope.CLEARING for fragment in fragments)

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

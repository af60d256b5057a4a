"""The conversation of one session as far as it is encoded, and how far that is."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sideband.core.ledger import Fragment, Scope
from sideband.render.dialect import Dialect, Head, Opening

_Item = TypeVar("_Item")


class History:
    """One tape of one window; it holds what is history, and nothing that a reply might never come to.

    `clears` tells whether an entry that the provider clears by itself is on it.
    """

    def __init__(self, dialect: Dialect, opening: Opening, head: Head, route: str) -> None:
        self.opening = opening
        self.head = head
        self.route = route
        self.tape = head.tape(marking=dialect.marking or dialect.counting)
        self.clears = False
        self._dialect = dialect
        self._messages: Sequence[Mapping[str, Any]] = ()
        self._written = 0
        self._fragments: Sequence[Fragment] = ()
        self._joined = 0

    def goes_on_with(self, messages: Sequence[Mapping[str, Any]], fragments: Sequence[Fragment]) -> bool:
        """Whether these begin with all that is on the tape, and nothing new belongs in the middle of it."""
        return (
            _begins(messages, self._messages, self._written)
            and _begins(fragments, self._fragments, self._joined)
            and all(fragment.anchor >= self._written for fragment in fragments[self._joined : self._joined + 1])
        )

    def follow(self, messages: Sequence[Mapping[str, Any]], fragments: Sequence[Fragment]) -> None:
        """Write what has come since: messages, and fragments where they stood when they were answered."""
        for place in range(self._written, len(messages)):
            self._join(fragments, place)
            self._dialect.write(self.tape, messages[place])
        self._join(fragments, len(messages))
        self._messages, self._written = messages, len(messages)
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
    return items is known or list(items[:count]) == list(known[:count])

"""What a session's requests have said beside its messages: each fragment of reminder text, and whether it still stands."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Scope(StrEnum):
    """How long a fragment stands."""

    VOLATILE = "volatile"
    """In one request only; while its reminder lives it is rendered again."""
    KEPT = "kept"
    """Part of the history from the reply on; it is never taken out, only withdrawn by a later line."""
    CLEARING = "clearing"
    """Part of the history too, but the provider stops showing it by itself at the next user message."""


class Form(StrEnum):
    """What carries a fragment."""

    TEXT = "text"
    """More text in the open user turn, behind all it has."""
    RESULT = "result"
    """More text in the last tool result."""
    MESSAGE = "message"
    """A message of its own."""


class Fragment(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text that a request carried.

    `anchor` is how many messages of the conversation stand before it. `handle` is the number under which a kept one is
    withdrawn later (None: it needs no withdrawal); `withdraws` are the numbers that this one takes back.
    """

    anchor: int
    form: Form
    role: str
    scope: Scope
    text: str
    reminders: tuple[str, ...] = ()
    handle: int | None = None
    withdraws: tuple[int, ...] = ()


class Ledger(msgspec.Struct, kw_only=True):
    """The fragments that are part of the history, in their order, inside one window.

    A window ends with a compaction and with a change of route: another model, profile, tool or system text. `standing`
    are the kept fragments that no later line has withdrawn, by reminder; `next_handle` is for the next kept one.
    """

    route: str = ""
    fragments: list[Fragment] = []
    standing: dict[str, Fragment] = {}
    next_handle: int = 1

    def on(self, route: str) -> "Ledger":
        """This ledger, or an empty one where the route is another."""
        return self if route == self.route else Ledger(route=route)

    # Changing: only `apply` does.

    def join(self, route: str, fragments: Iterable[Fragment]) -> None:
        """A reply was committed: what its request carried for good is history."""
        if route != self.route:
            self.clear()
            self.route = route
        for fragment in fragments:
            if fragment.scope is not Scope.VOLATILE:
                self._add(fragment)

    def clear(self) -> None:
        """A new window begins."""
        self.route, self.fragments, self.standing, self.next_handle = "", [], {}, 1

    def _add(self, fragment: Fragment) -> None:
        self.fragments.append(fragment)
        if fragment.handle is not None:
            self.next_handle = max(self.next_handle, fragment.handle + 1)
            self.standing.update(dict.fromkeys(fragment.reminders, fragment))
        if fragment.withdraws:
            gone = frozenset(fragment.withdraws)
            self.standing = {key: kept for key, kept in self.standing.items() if kept.handle not in gone}

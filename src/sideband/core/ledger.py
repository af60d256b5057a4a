"""What a session's requests have said beside its messages: each fragment of reminder text, and whether it still stands."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

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


# No cycle leads through a fragment, so that the garbage collector need not visit them, however many there are.
class Fragment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of a route are made with, beside the conversation: with it any of them can be built again.

    `model` is written `transport:model`, and `rendering` is what else its renderer was given, by name.
    """

    route: str
    model: str
    rendering: dict[str, Any] = {}
    system: str = ""
    system_after: str = ""
    tools: tuple[dict[str, Any], ...] = ()


class Ledger(msgspec.Struct, kw_only=True):
    """The fragments that are part of the history, in their order, inside one window.

    A window ends with a compaction and with a change of route: another model, profile, tool or system text. `standing`
    are the kept fragments that no later line has withdrawn, by reminder; `next_handle` is for the next kept one. `since`
    is how many messages there were before the first answer of the window (None: it has none yet): whatever a model
    thought before that, it thought behind another beginning.
    """

    route: str = ""
    since: int | None = None
    fragments: list[Fragment] = []
    standing: dict[str, Fragment] = {}
    next_handle: int = 1

    def on(self, route: str) -> "Ledger":
        """This ledger, or an empty one where the route is another."""
        return self if route == self.route else Ledger(route=route)

    # Changing: only `apply` does.

    def join(self, route: str, fragments: Iterable[Fragment], messages: int) -> None:
        """A reply was committed: what its request carried for good is history, behind so many messages."""
        if route != self.route:
            self.clear()
            self.route = route
        if self.since is None:
            self.since = messages
        for fragment in fragments:
            if fragment.scope is not Scope.VOLATILE:
                self._add(fragment)

    def clear(self) -> None:
        """A new window begins."""
        self.route, self.since, self.fragments, self.standing, self.next_handle = "", None, [], {}, 1

    def _add(self, fragment: Fragment) -> None:
        self.fragments.append(fragment)
        if fragment.handle is not None:
            self.next_handle = max(self.next_handle, fragment.handle + 1)
            self.standing.update(dict.fromkeys(fragment.reminders, fragment))
        if fragment.withdraws:
            gone = frozenset(fragment.withdraws)
            self.standing = {key: kept for key, kept in self.standing.items() if kept.handle not in gone}

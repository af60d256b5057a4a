"""The ledger: the reminder text that a session's requests carried, and which of it is still in force."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec


class Lifetime(StrEnum):
    """How long a fragment stays in the requests of a session."""

    VOLATILE = "volatile"
    """In one request only; it is rendered again for each request while its reminder is live."""
    KEPT = "kept"
    """Part of the history after the reply. It is never removed; a later line withdraws it."""
    CLEARING = "clearing"
    """Part of the history after the reply, but the provider hides it from the next user message on."""


class Form(StrEnum):
    """The part of a request that carries a fragment."""

    TEXT = "text"
    """Text at the end of the last user message."""
    RESULT = "result"
    """Text at the end of the last tool result."""
    MESSAGE = "message"
    """A message of its own."""


class Fragment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A piece of reminder text in a request.

    `anchor` is the number of messages before it. `handle` is the number by which a later line withdraws a kept fragment;
    None if it needs no withdrawal. `withdraws` lists the handles that this fragment withdraws.
    """

    anchor: int
    form: Form
    role: str
    scope: Lifetime
    text: str
    reminders: tuple[str, ...] = ()
    handle: int | None = None
    withdraws: tuple[int, ...] = ()


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests of a route have in common; with the conversation, it suffices to build any of them again.

    `model` has the form `transport:model`. `rendering` holds the other options of the renderer.
    """

    route: str
    model: str
    rendering: dict[str, Any] = {}
    system: str = ""
    system_after: str = ""
    tools: tuple[dict[str, Any], ...] = ()


class Ledger(msgspec.Struct, kw_only=True):
    """The fragments that are part of the history of one window, in order.

    A compaction or a change of route (model, profile, tools or system text) starts a new window. `standing` maps the id
    of a reminder to its kept fragment, if no later line withdrew it. `next_handle` is the handle of the next kept
    fragment. `since` is the number of messages in the first request of the window that got a reply; None if none has.
    Replies before it were given to a prompt with another prefix.
    """

    route: str = ""
    since: int | None = None
    fragments: list[Fragment] = []
    standing: dict[str, Fragment] = {}
    next_handle: int = 1

    def on(self, route: str) -> "Ledger":
        """This ledger, or an empty one if it belongs to another route."""
        return self if route == self.route else Ledger(route=route)

    # Only `apply` calls the methods that change a ledger.

    def join(self, route: str, fragments: Iterable[Fragment], messages: int) -> None:
        """A reply was committed: the fragments of its request become history, except volatile ones.

        `messages` is the number of messages in the request.
        """
        if route != self.route:
            self.clear()
            self.route = route
        if self.since is None:
            self.since = messages
        for fragment in fragments:
            if fragment.scope is not Lifetime.VOLATILE:
                self._add(fragment)

    def clear(self) -> None:
        """Begin a new window."""
        self.route, self.since, self.fragments, self.standing, self.next_handle = "", None, [], {}, 1

    def _add(self, fragment: Fragment) -> None:
        self.fragments.append(fragment)
        if fragment.handle is not None:
            self.next_handle = max(self.next_handle, fragment.handle + 1)
            self.standing.update(dict.fromkeys(fragment.reminders, fragment))
        if fragment.withdraws:
            gone = frozenset(fragment.withdraws)
            self.standing = {key: kept for key, kept in self.standing.items() if kept.handle not in gone}

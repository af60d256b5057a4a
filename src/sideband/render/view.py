"""What a request is made from, as a model is shown it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sideband.core.ledger import Fragment, Ledger
from sideband.core.live import LiveIndex


class SystemText(NamedTuple):
    """The system text of a request, in two parts: what a placement may put there stands between them."""

    before: str = ""
    after: str = ""


def system_text(*, parts: Iterable[str] = (), system: str = "", appendix: str = "", suffix: str = "") -> SystemText:
    """The parts of a system text in their order, each a paragraph; empty ones leave no trace."""
    return SystemText(_joined((*parts, system)), _joined((appendix, suffix)))


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is built from; nothing of it may be changed.

    The system text is `system`, then whatever a placement puts there, then `system_after`. `session_id` and `window`
    tell whether the messages continue those of an earlier view: inside one window of one session they only grow.
    `again` are the fragments of a request that has left already and was not answered: it is sent as it was (None: this
    is a new one). `known_route` is the route of which the session has on record what it is.
    """

    turn: int
    system: str
    messages: Sequence[dict[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    live: LiveIndex
    system_after: str = ""
    session_id: str = ""
    window: int = 0
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    again: tuple[Fragment, ...] | None = None
    known_route: str = ""

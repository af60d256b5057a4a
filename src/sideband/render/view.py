"""The input of a request, as it is passed to `Model.plan`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sideband.core.errors import InvalidOption, shown
from sideband.core.ledger import Fragment, Ledger
from sideband.core.live import LiveIndex


class SystemText(NamedTuple):
    """The system text of a request in two parts; the placement `seed` puts reminders between them."""

    before: str = ""
    after: str = ""


def system_text(*, parts: Sequence[str] = (), system: str = "", appendix: str = "", suffix: str = "") -> SystemText:
    """Join the parts of a system text as paragraphs, without the empty ones; `InvalidOption` names a wrong option."""
    for name, text in (("system", system), ("system_appendix", appendix), ("system_suffix", suffix)):
        if not isinstance(text, str):
            raise InvalidOption(f"{name} must be a text, not {shown(text)}", field=name, value=text)
    given: object = parts
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(part, str) for part in given):
        raise InvalidOption(
            f"system_prompt_parts must be a list of texts, not {shown(given)}", field="system_prompt_parts", value=given
        )
    return SystemText(_joined((*parts, system)), _joined((appendix, suffix)))


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is built from; treat everything in it as read-only.

    The system text is `system`, then what the placement `seed` adds, then `system_after`. Within one `window` of one
    session the messages only grow. `again` are the fragments of a request that was sent before and not answered: it is
    sent again unchanged (None: this is a new request). `known_route` is the route whose head the session has on record.
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
